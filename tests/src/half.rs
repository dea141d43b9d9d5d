//! Half precision is for storage: states and gates are rounded to it, sums are not.

use burn::tensor::{DType, Device, Tensor};
use gru_op::{Checkpointing, GruSpec, Reset};
use gru_testkit::{close::Tolerance, inputs::Inputs, oracle, problem::Problem};
use libtest_mimic::Trial;

use super::{
    call,
    runs::{self, values},
};

/// Includes long sequences: errors must not accumulate over time.
fn problems() -> Vec<Problem> {
    let before = GruSpec::default().with_reset(Reset::BeforeMatmul);
    vec![
        Problem::new(5, 13, 9, 33),
        Problem::new(2, 200, 16, 64),
        Problem::new(2, 200, 16, 64).with_spec(before),
        Problem::new(3, 40, 8, 17).with_checkpointing(Checkpointing::Recompute),
    ]
}

pub fn trials() -> Vec<Trial> {
    let dtypes = [
        ("f16", DType::F16, Tolerance::F16),
        ("bf16", DType::BF16, Tolerance::BF16),
    ];
    let mut trials = Vec::new();
    for problem in problems() {
        for (name, dtype, tolerance) in dtypes {
            let id = format!("half/{}/flex-{name}", problem.id());
            trials.push(Trial::test(id, move || {
                Ok(check(&problem, dtype, tolerance)?)
            }));
        }
    }
    trials
}

/// Compares with float64 on the same rounded inputs.
fn check(problem: &Problem, dtype: DType, tolerance: Tolerance) -> Result<(), String> {
    let device = Device::flex();
    let inputs = rounded(Inputs::random(problem), &device, dtype);
    let expected = oracle::outcome(problem, &inputs);
    call::of(problem, &inputs, &device, dtype)?.compare(&expected, tolerance)
}

fn rounded(mut inputs: Inputs, device: &Device, dtype: DType) -> Inputs {
    let upstream = [&mut inputs.d_y, &mut inputs.d_h_t];
    let round = |data: &mut Vec<f64>| {
        let half: Tensor<1> = runs::tensor(data, [data.len()], device, dtype);
        *data = values(half);
    };
    upstream.into_iter().for_each(round);
    let others = inputs.differentiable_mut();
    others.into_iter().for_each(|(_, data)| round(data));
    inputs
}
