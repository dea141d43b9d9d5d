//! States and gradients of every kind of schedule, compared with float64.

use super::support::{
    F16, F32, Ran, cases,
    catalogue::{Case, activations, inferred, large, lengths, matrices, sequences, steps},
    trial,
};
use gru_cube::{Schedule, Strategy};
use half::f16;
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    let of = |group: &'static str| {
        move |case: Case| {
            trial(
                format!("{group}/{:?}-{}", case.spec.reset, case.id()),
                move || in_f32(&case),
            )
        }
    };
    [
        cases(inferred(), in_f32),
        cases(sequences(), in_f32),
        cases(steps(), in_f32),
        activations().into_iter().map(of("activations")).collect(),
        lengths(sequences())
            .into_iter()
            .map(of("lengths"))
            .collect(),
        lengths(steps()).into_iter().map(of("lengths")).collect(),
        // Too large for one cube.
        large(513, Strategy::Inferred)
            .into_iter()
            .map(of("large"))
            .collect(),
        cases(matrices("f16-matrices", Schedule::Steps), |case| {
            case.check::<f16>(F16)
        }),
        // TF32 has the mantissa of f16. A device with float32 matrices is more precise.
        cases(matrices("f32-matrices", Schedule::Steps), |case| {
            case.check::<f32>(F16)
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn in_f32(case: &Case) -> Ran {
    case.check::<f32>(F32)
}
