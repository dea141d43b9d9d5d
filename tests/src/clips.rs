//! A clip that is infinite in the element type is the same as no clip: same outputs and same gradients.
//! This holds for the kernels, for the composed passes, and for Burn's autodiff of the composed passes.

use super::{
    backends::TestBackend,
    runs::{SequenceOp, sequence},
};
use burn::tensor::DType;
use gru_op::{Activation, Activations, Checkpointing, GruSpec, Reset, composed, gru_sequence_with};
use gru_testkit::{close::Tolerance, inputs::Inputs, problem::Problem};
use libtest_mimic::Trial;

/// Activations that are NaN at infinity: `∞ / (1 + ∞)` and `0 · ∞`.
fn specs() -> [(&'static str, GruSpec); 2] {
    let none = Activation::LeakyRelu { alpha: 0.0 };
    let activations = |reset, update, candidate| Activations {
        reset,
        update,
        candidate,
    };
    let after = activations(none, Activation::Sigmoid, Activation::Softsign);
    let before = activations(Activation::Softsign, Activation::Softsign, none);
    [
        ("after", GruSpec::default().with_activations(after)),
        (
            "before",
            GruSpec::default()
                .with_reset(Reset::BeforeMatmul)
                .with_activations(before),
        ),
    ]
}

/// Clips that overflow this type.
fn clips(dtype: DType) -> &'static [f64] {
    match dtype {
        DType::F64 => &[f64::INFINITY],
        _ => &[f64::INFINITY, 1e39],
    }
}

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let ops: [(&str, SequenceOp); 2] = [
        ("kernels", gru_sequence_with),
        ("composed", composed::gru_sequence_with),
    ];
    let mut trials = Vec::new();
    for backend in backends {
        for dtype in backend.dtypes() {
            for (name, spec) in specs() {
                for (op_name, op) in ops {
                    let tolerance = backend.tolerance(match dtype {
                        DType::F64 => Tolerance::F64,
                        _ => Tolerance::F32,
                    });
                    let id = format!("clips/{op_name}/{name}/{}", backend.id(dtype));
                    trials.push(backend.trial(id, move |device| {
                        // Each reset form with one checkpointing mode.
                        let checkpointing = match spec.reset {
                            Reset::AfterMatmul => Checkpointing::KeepGates,
                            Reset::BeforeMatmul => Checkpointing::Recompute,
                        };
                        let problem = Problem::new(2, 3, 2, 5)
                            .with_spec(spec)
                            .with_checkpointing(checkpointing);
                        let inputs = Inputs::random(&problem);
                        let run = |problem: &Problem| sequence(op, problem, &inputs, device, dtype);
                        let expected = run(&problem)?;
                        for &clip in clips(dtype) {
                            let spec = spec.with_clip_gates(Some(clip));
                            let spec = spec.with_clip_state(Some(clip));
                            let got = run(&problem.with_spec(spec))?;
                            got.compare(&expected, tolerance)
                                .map_err(|failures| format!("clip {clip:e}: {failures}"))?;
                        }
                        Ok(())
                    }));
                }
            }
        }
    }
    trials
}
