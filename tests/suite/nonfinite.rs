//! NaN and infinities through Burn: every number of the kernels' results is of the kind that
//! Burn's own operations and autodiff give in float64.

use burn::tensor::{DType, Device};
use gru_op::{GruSpec, Memory, Reset, composed, gru_sequence};
use gru_testkit::{close::Outcome, inputs::Inputs, problem::Problem};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    runs::{self, SequenceOp},
};

const TENSORS: [&str; 7] = ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh", "d_y"];
const BAD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// One trial for each tensor that holds a bad number, reset and mode.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in backends {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            for memory in [Memory::Speed, Memory::Lean] {
                for name in TENSORS {
                    let id = format!("nonfinite/{reset:?}-{memory:?}-{name}").to_lowercase();
                    let id = format!("{id}/{}", backend.id(DType::F32));
                    let spec = GruSpec::default().with_reset(reset).with_memory(memory);
                    trials.push(backend.trial(id, move |device| {
                        BAD.into_iter()
                            .try_for_each(|bad| check(name, bad, spec, device))
                    }));
                }
            }
        }
    }
    trials
}

fn check(name: &str, bad: f64, spec: GruSpec, device: &Device) -> Result<(), String> {
    let problem = Problem::new(3, 4, 2, 18).with_spec(spec);
    let mut inputs = Inputs::random(&problem);
    let tensor = match name {
        "x" => Some(&mut inputs.x),
        "h0" => inputs.h0.as_mut(),
        "w_ih" => Some(&mut inputs.w_ih),
        "w_hh" => Some(&mut inputs.w_hh),
        "b_ih" => inputs.b_ih.as_mut(),
        "b_hh" => inputs.b_hh.as_mut(),
        _ => Some(&mut inputs.d_y),
    };
    let tensor = tensor.expect("the problem has every tensor");
    let middle = tensor.len() * 5 / 9;
    tensor[middle] = bad;
    let run = |op: SequenceOp, device: &Device, dtype| {
        runs::sequence(op, &problem, &inputs, device, dtype)
    };
    let expected = run(composed::gru_sequence, &Device::flex(), DType::F64)?;
    let got = run(gru_sequence, device, DType::F32)?;
    same_kinds(&got, &expected).map_err(|e| format!("{bad} in {name}: {e}"))
}

/// Which numbers are NaN, which infinite and of which sign: the values are for other suites.
fn same_kinds(got: &Outcome, expected: &Outcome) -> Result<(), String> {
    let kind = |v: f64| match v.is_finite() {
        true => 0.0,
        false => v,
    };
    for (got, expected) in [
        (&got.outputs, &expected.outputs),
        (&got.gradients, &expected.gradients),
    ] {
        for (name, expected) in expected {
            let got = got.get(name).ok_or_else(|| format!("{name} is missing"))?;
            for (at, (&got, &expected)) in got.iter().zip(expected).enumerate() {
                if kind(got).total_cmp(&kind(expected)).is_ne()
                    && !(got.is_nan() && expected.is_nan())
                {
                    return Err(format!("{name}[{at}] = {got}, expected {expected}"));
                }
            }
        }
    }
    Ok(())
}
