//! Runs each kernel once on a small problem and compares it with float64, before a call relies on it.
//!
//! A driver may reject a kernel, or compile it wrongly. Both would otherwise show only when results are read: as a
//! panic, or as wrong numbers. The tested kernel is the kernel of the call: sizes of the batch and the sequence are
//! arguments, and everything else that the kernel is compiled for is the same. So a test compiles nothing more.

mod failure;
mod problem;
mod reference;

use crate::{
    kernel::rule::Pass,
    launch::{self, BackwardInputs, BackwardOutputs, Call, ForwardInputs, ForwardOutputs, Zoneout},
    plan::{Plan, error::PlanError, schedule::Strategy},
};
use cubecl::{
    client::Client,
    ir::{AddressType, ElemType, FloatKind},
    prelude::*,
    server::Handle,
};
use cubecl_common::device::ServiceId;
use failure::Failure;
use half::{bf16, f16};
use problem::{Given, N, Small, T};
use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
};

/// Largest H that is tested. Above, the float64 loops would take seconds.
const MOST_HIDDEN: usize = 2048;

/// What distinguishes the kernels of a device.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    device: ServiceId,
    pass: Pass,
    plan: Plan,
    dtype: ElemType,
    /// Type of the indices.
    address: AddressType,
    given: Given,
    /// The gates are saved, or have a gradient of their own.
    gates: bool,
}

/// The verdicts of this process. CubeCL's clients have no place for them, so they are here by device.
static VERDICTS: LazyLock<Mutex<HashMap<Key, Result<(), PlanError>>>> =
    LazyLock::new(Mutex::default);

/// The verdict on a kernel. It is tested if it is new.
fn verdict(key: Key, test: impl FnOnce() -> Result<(), Failure>) -> Result<(), PlanError> {
    let schedule = key.plan.schedule();
    let mut verdicts = VERDICTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(verdict) = verdicts.get(&key) {
        return verdict.clone();
    }
    let failed = |reason| PlanError::FailedTest { schedule, reason };
    let verdict = match test() {
        Ok(()) => Ok(()),
        Err(Failure::OfKernel(reason)) => {
            let error = failed(reason);
            log::warn!("{error}. It is not used, and calls are slower");
            Err(error)
        }
        Err(Failure::OutOfMemory(reason)) => {
            let error = failed(reason);
            log::warn!("{error}. This call is slower, and the next one tests the kernel again");
            return Err(error);
        }
    };
    verdicts.insert(key, verdict.clone());
    verdict
}

/// The plan of a call, after its test. `allowed` makes it, with or without persistent kernels.
///
/// If an inferred persistent kernel fails, the plan is another kernel. Where another program occupies a part of the
/// device, the barriers of a persistent kernel time out and no driver is wrong.
pub(crate) fn passing(
    strategy: Strategy,
    allowed: impl Fn(bool) -> Result<Plan, PlanError>,
    test: impl Fn(Plan) -> Result<(), PlanError>,
) -> Result<Plan, PlanError> {
    let plan = allowed(true)?;
    match test(plan) {
        Ok(()) => Ok(plan),
        Err(PlanError::FailedTest { .. })
            if plan.is_persistent() && strategy == Strategy::Inferred =>
        {
            let plan = allowed(false)?;
            test(plan).map(|()| plan)
        }
        Err(error) => Err(error),
    }
}

/// Whether kernels can be tested: a browser does not wait for results, and a recorded graph cannot.
fn can_test(client: &Client, call: &Call) -> bool {
    call.self_test
        && cfg!(not(target_family = "wasm"))
        && call.h <= MOST_HIDDEN
        && !client.is_capturing()
}

/// The verdict on a kernel of a call. `test` runs it on a small problem.
fn tested(
    client: &Client,
    call: &Call,
    (pass, plan): (Pass, Plan),
    given: Given,
    gates: bool,
    test: impl FnOnce(OnDevice<'_>, AddressType) -> Result<(), Failure>,
) -> Result<(), PlanError> {
    if !can_test(client, call) {
        return Ok(());
    }
    let address = call.address_type(client);
    let key = Key {
        device: client.service_id(),
        pass,
        plan,
        dtype: call.dtype,
        address,
        given,
        gates,
    };
    verdict(key, || {
        let small = Small::new(call, given);
        test(OnDevice { client, small }, address)
    })
}

/// Tests the kernel of a forward pass.
pub(crate) fn forward(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    plan: Plan,
) -> Result<(), PlanError> {
    let given = Given {
        b_ih: inputs.b_ih.is_some(),
        b_hh: inputs.b_hh.is_some(),
        h0: inputs.h0.is_some(),
        recurrent_mask: inputs.recurrent_mask.is_some(),
        step_mask: inputs.step_mask.is_some(),
        zoneout: units(call, &inputs.zoneout),
    };
    let (pass, saves) = (Pass::Forward, outputs.gates.is_some());
    tested(client, call, (pass, plan), given, saves, |on, address| {
        let states = on.nan(N * T * call.h);
        let gates = saves.then(|| on.nan(N * T * call.h * call.spec.saved_per_unit()));
        let inputs = ForwardInputs {
            steps: 0..T,
            p: on.upload(&on.small.p),
            w_hh: on.upload(&on.small.w_hh),
            b_ih: on.optional(&on.small.b_ih),
            b_hh: on.optional(&on.small.b_hh),
            h0: on.optional(&on.small.h0),
            recurrent_mask: on.optional(&on.small.recurrent_mask),
            step_mask: on.optional(&on.small.step_mask),
            zoneout: on.zoneout(),
            lengths: None,
        };
        let outputs = ForwardOutputs {
            states: states.clone(),
            gates: gates.clone(),
        };
        launch::forward::run(client, &on.small.call, &inputs, &outputs, plan, address)?;
        let expected = on.small.forward();
        let may_jump = on.small.may_jump(pass);
        on.compare("states", states, &expected.states, may_jump, false)?;
        match gates {
            Some(gates) => on.compare("gates", gates, &expected.gates, may_jump, true),
            None => Ok(()),
        }
    })
}

/// Tests the kernels of a backward pass.
pub(crate) fn backward(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    plan: Plan,
) -> Result<(), PlanError> {
    let given = Given {
        b_ih: true,
        b_hh: true,
        h0: inputs.h0.is_some(),
        recurrent_mask: inputs.recurrent_mask.is_some(),
        step_mask: inputs.step_mask.is_some(),
        zoneout: units(call, &inputs.zoneout),
    };
    let (pass, separate) = (Pass::Backward, outputs.d_gates.is_some());
    tested(
        client,
        call,
        (pass, plan),
        given,
        separate,
        |on, address| {
            let forward = on.small.forward();
            let gates = on.upload(&forward.gates);
            let d_gates = separate.then(|| on.nan(forward.gates.len()));
            let expected = on.small.backward();
            let d_h0 =
                client.create_from_slice(f32::as_bytes(&vec![f32::NAN; expected.d_h0.len()]));
            let inputs = BackwardInputs {
                d_states: on.upload(&on.small.d_states),
                states: on.upload(&forward.states),
                gates: gates.clone(),
                w_hh: on.upload(&on.small.w_hh),
                h0: on.optional(&on.small.h0),
                recurrent_mask: on.optional(&on.small.recurrent_mask),
                step_mask: on.optional(&on.small.step_mask),
                zoneout: on.zoneout(),
                lengths: None,
            };
            let outputs = BackwardOutputs {
                d_gates: d_gates.clone(),
                d_h0: d_h0.clone(),
            };
            launch::backward::run(client, &on.small.call, &inputs, &outputs, plan, address)?;
            let d_gates = d_gates.unwrap_or(gates);
            let may_jump = on.small.may_jump(pass);
            on.compare("d_gates", d_gates, &expected.d_gates, may_jump, false)?;
            let d_h0 = wide(f32::from_bytes(&client.read_one(d_h0)?));
            let judged = judge(&on.small, "d_h0", &d_h0, &expected.d_h0, may_jump, |_| {
                false
            });
            Ok(judged?)
        },
    )
}

/// Shares of a zoneout tensor for each step.
fn units(call: &Call, zoneout: &Option<Zoneout>) -> Option<usize> {
    zoneout.as_ref().map(|zoneout| match zoneout {
        Zoneout::OfRow(_) => 1,
        Zoneout::OfUnit(_) => call.h,
    })
}

/// A small problem on a device.
struct OnDevice<'a> {
    client: &'a Client,
    small: Small,
}

impl OnDevice<'_> {
    fn upload(&self, values: &[f64]) -> Handle {
        macro_rules! upload {
            ($type:ty, $narrow:expr) => {{
                let values: Vec<$type> = values.iter().map($narrow).collect();
                self.client.create_from_slice(<$type>::as_bytes(&values))
            }};
        }
        match self.small.call.dtype {
            ElemType::Float(FloatKind::F16) => upload!(f16, |&x| f16::from_f64(x)),
            ElemType::Float(FloatKind::BF16) => upload!(bf16, |&x| bf16::from_f64(x)),
            _ => upload!(f32, |&x| x as f32),
        }
    }

    fn optional(&self, values: &Option<Vec<f64>>) -> Option<Handle> {
        values.as_ref().map(|values| self.upload(values))
    }

    /// A buffer of NaN, which shows values that a kernel does not write.
    fn nan(&self, len: usize) -> Handle {
        self.upload(&vec![f64::NAN; len])
    }

    fn zoneout(&self) -> Option<Zoneout> {
        let values = self.small.zoneout.as_ref()?;
        let handle = self.upload(values);
        Some(if values.len() == N * T {
            Zoneout::OfRow(handle)
        } else {
            Zoneout::OfUnit(handle)
        })
    }

    /// Reads a result and compares it. The values of skipped steps may be undefined.
    fn compare(
        &self,
        name: &str,
        got: Handle,
        expected: &[f64],
        may_jump: bool,
        skips: bool,
    ) -> Result<(), Failure> {
        let bytes = self.client.read_one(got)?;
        let got = match self.small.call.dtype {
            ElemType::Float(FloatKind::F16) => wide(f16::from_bytes(&bytes)),
            ElemType::Float(FloatKind::BF16) => wide(bf16::from_bytes(&bytes)),
            _ => wide(f32::from_bytes(&bytes)),
        };
        let per_row = expected.len() / (N * T);
        let is_undefined = |i: usize| skips && self.small.is_skipped(i / per_row);
        judge(&self.small, name, &got, expected, may_jump, is_undefined)?;
        Ok(())
    }
}

/// Compares a result. Some values may differ by more than rounding errors if the result `may_jump`.
fn judge(
    small: &Small,
    name: &str,
    got: &[f64],
    expected: &[f64],
    may_jump: bool,
    is_undefined: impl Fn(usize) -> bool,
) -> Result<(), String> {
    // Many roundings of the type, and of TF32. A wrong kernel is off by more.
    let (tolerance, is_narrow) = match small.call.dtype {
        ElemType::Float(FloatKind::F16) => (0.03, true),
        ElemType::Float(FloatKind::BF16) => (0.2, true),
        _ => (0.005, false),
    };
    let most = match (may_jump, is_narrow) {
        (false, _) => 0,
        (true, false) => expected.len() / 16,
        (true, true) => expected.len(),
    };
    let mut wrong = 0;
    for (i, &expected) in expected.iter().enumerate() {
        let got = got.get(i).copied().unwrap_or(f64::NAN);
        let is_close = (got - expected).abs() <= tolerance * (1.0 + expected.abs());
        if !is_close && !is_undefined(i) {
            wrong += 1;
            if wrong > most || !got.is_finite() {
                return Err(format!("{name}[{i}]: expected {expected}, got {got}"));
            }
        }
    }
    Ok(())
}

fn wide<F: Copy + Into<f64>>(values: &[F]) -> Vec<f64> {
    values.iter().map(|&x| x.into()).collect()
}

#[cfg(test)]
mod tests;
