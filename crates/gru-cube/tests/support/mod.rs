//! Runs the cases of gru-testkit on buffers of a device.
#![allow(dead_code)] // Every test binary uses its own part.

pub mod cases;
mod device;
mod trials;

pub use device::*;
pub use trials::*;

use cubecl::{
    features::TypeUsage,
    ir::{ElemType, FloatKind},
    server::Handle,
};
use gru_cube::{Buffers, PlanError, Resource, Starts, Strategy};
use gru_spec::{Checkpointing, Reset};
use gru_testkit::{
    case::Case,
    close::{Outcome, Tensors, Tolerance},
    draw::Drawn,
    oracle::{Call, Skipped},
    runs::{Known, Runs, Stop},
};

/// Float32 on a GPU.
pub const F32: Tolerance = Tolerance::F32.times(Tolerance::GPU_FACTOR);

/// Storage in float16 rounds at 2⁻¹¹. A state is rounded once per step when it is stored, and gradients use rounded
/// gates. Sums of up to 20 such terms stay within ten roundings of the largest value.
pub const F16: Tolerance = Tolerance {
    forward: 10.0 / 2048.0,
    gradient: 10.0 / 2048.0,
};

/// How a case runs.
#[derive(Debug, Clone, Copy)]
pub struct Kernels {
    pub dtype: FloatKind,
    pub strategy: Strategy,
}

impl Kernels {
    pub fn f32(strategy: Strategy) -> Self {
        let dtype = FloatKind::F32;
        Self { dtype, strategy }
    }

    /// Runs a case and compares it with float64. A configuration that the device does not allow is ignored.
    pub fn check(&self, case: &Case, tolerance: Tolerance) -> Ran {
        Ok(Known::for_kernels(case.clone()).check(self, tolerance)?)
    }
}

/// `+in-place`: gradients of the gates overwrite the gates. `+inference`: a pass that saves no gates must compute the
/// same states. `lean`: recomputed gates replace the gates of the forward pass. Sorted lengths: padding is left out.
impl Runs for Kernels {
    fn run(&self, case: &Case, drawn: &Drawn) -> Result<Outcome, Stop> {
        let client = client();
        let device = Device {
            client: &client,
            dtype: self.dtype,
        };
        let uses = client.properties().type_usage(ElemType::Float(self.dtype));
        if !uses.contains(TypeUsage::Buffer) {
            return Err(Stop::Unsupported(format!("no buffers of {:?}", self.dtype)));
        }
        let call = device.recurrence(drawn);
        let (len, saved) = (
            call.sizes.places() * call.sizes.h,
            case.spec.saved_per_unit(),
        );
        let run = |buffers: Buffers| {
            gru_cube::run(&client, &call, &buffers, self.strategy).map_err(not_allowed)
        };
        let forward = |states: &Handle, gates: Option<&Handle>| {
            run(Buffers::Forward {
                steps: 0..call.sizes.t,
                states: states.clone(),
                gates: gates.cloned(),
            })
        };
        let [states, gates] = [len, len * saved].map(|len| device.poisoned(len));
        if case.checkpointing == Checkpointing::KeepGates {
            forward(&states, Some(&gates))?;
        } else {
            forward(&states, None)?;
            device.recompute(&call, &drawn.call.inputs.weights.w_hh, &states, &gates);
        }
        let read_states = |states: &Handle| {
            let mut states = device.download(states);
            if drawn.lengths.is_some() {
                drawn.fill_skipped(&mut states, 0.0);
            }
            states
        };
        let got_states = read_states(&states);
        if case.has("+inference") {
            let again = device.poisoned(len);
            forward(&again, None)?;
            let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            if bits(&read_states(&again)) != bits(&got_states) {
                return Err(Stop::Failed(
                    "states without gates: expected the same".into(),
                ));
            }
        }
        let mut got_gates = device.download(&gates);
        drawn.fill_skipped(&mut got_gates, f64::NAN);
        let g = device.lhs(&call, &states, None);
        let g_n = match case.spec.reset {
            Reset::AfterMatmul => g.clone(),
            Reset::BeforeMatmul => device.lhs(&call, &states, Some(&gates)),
        };
        let d_gates = (!case.has("+in-place")).then(|| device.poisoned(len * saved));
        let of_states = Device::f32(&client);
        let h0_len = call.sizes.n * call.sizes.h;
        let with_start = match call.starts {
            Starts::FromState => 2 * h0_len,
            _ => h0_len,
        };
        let d_h0 = match &call.lengths {
            Some(_) => of_states.upload(&vec![0.0; with_start]),
            None => of_states.poisoned(with_start),
        };
        run(Buffers::Backward {
            d_states: device.upload(&drawn.d_y),
            states,
            gates: gates.clone(),
            d_gates: d_gates.clone(),
            d_h0: d_h0.clone(),
        })?;
        let mut d_gates = device.download(&d_gates.unwrap_or(gates));
        if call.lengths.is_some() {
            drawn.fill_skipped(&mut d_gates, 0.0);
        }
        let mut gradients = gradients(call.sizes.h, saved, &g, &g_n, &d_gates);
        let mut d_h0 = of_states.download(&d_h0);
        gradients.insert("start_state".into(), d_h0.split_off(h0_len));
        gradients.insert("h0".into(), d_h0);
        let inputs = drawn.call.inputs.differentiable().named();
        for (name, _) in inputs.filter(|(_, input)| input.is_none()) {
            gradients.remove(name);
        }
        Ok(Outcome {
            outputs: Tensors::from([("states".into(), got_states), ("gates".into(), got_gates)]),
            gradients,
        })
    }
}

/// The results of the oracle for values that a test has changed.
pub fn expected(drawn: &Drawn) -> Outcome {
    let call = Call {
        skipped: Skipped::State,
        ..drawn.call.clone()
    };
    let forward = call.forward();
    let gradients = forward.gradients(&drawn.d_y, &[]);
    let gates = forward.saved(&call);
    Outcome {
        outputs: Tensors::from([("states".into(), forward.y), ("gates".into(), gates)]),
        gradients,
    }
}

/// The products over all steps that the caller computes, in float64, and the gradient of `x`.
fn gradients(h: usize, saved: usize, g: &[f64], g_n: &[f64], d_gates: &[f64]) -> Tensors {
    let (mut x, mut w_hh) = (Vec::new(), vec![0.0; 3 * h * h]);
    let [mut b_ih, mut b_hh] = [(); 2].map(|()| vec![0.0; 3 * h]);
    let add = |sums: &mut [f64], row: &[f64], factor: f64| {
        sums.iter_mut()
            .zip(row)
            .for_each(|(sum, d)| *sum += factor * d);
    };
    let rows = d_gates
        .chunks(saved * h)
        .zip(g.chunks(h).zip(g_n.chunks(h)));
    for (d, (g, g_n)) in rows {
        let (d_p, d_rz, d_q_n) = (&d[..3 * h], &d[..2 * h], &d[(saved - 1) * h..]);
        x.extend(d_p);
        add(&mut b_ih, d_p, 1.0);
        add(&mut b_hh, &[d_rz, d_q_n].concat(), 1.0);
        for (j, sums) in w_hh.chunks_mut(3 * h).enumerate() {
            add(&mut sums[..2 * h], d_rz, g[j]);
            add(&mut sums[2 * h..], d_q_n, g_n[j]);
        }
    }
    let names = ["x", "w_hh", "b_ih", "b_hh"].map(String::from);
    names.into_iter().zip([x, w_hh, b_ih, b_hh]).collect()
}

/// What the device does not allow is not supported. Any other error is a failure, and so are too many buffers.
pub fn not_allowed(error: PlanError) -> Stop {
    match error {
        PlanError::BeyondLimit {
            resource: Resource::Buffers,
            ..
        } => Stop::Failed(error.to_string()),
        PlanError::BeyondLimit { .. } | PlanError::NoMatrices => {
            Stop::Unsupported(error.to_string())
        }
        other => Stop::Failed(other.to_string()),
    }
}
