//! The case matrix on every backend: every output and every gradient of the operator, compared with the float64 oracle.
//!
//! The CPU backends run all three-way combinations of option values. Other backends run all pairs.

use std::sync::Arc;

use burn::tensor::{DType, Device};
use gru_testkit::{
    case::Case,
    close::{Outcome, Tensors, Tolerance},
    draw::Drawn,
    matrix::{
        OPTIONS, PADDED, SIZES, activations, covering, empty, extreme, large, long, nonfinite,
        sixteen_bits, sizes,
    },
    runs::{Known, Runs, Stop},
};
use libtest_mimic::{Completion, Trial};

use super::{
    backends::TestBackend,
    operator::{self, Way},
};

/// The cases of each group, with every combination of values of any `strength` options.
fn groups(strength: usize) -> Vec<(&'static str, Vec<Case>)> {
    let ways: &[&[&str]] = &[&["", "+views"], &["", "+composed", "+checkpointing"]];
    let packed: &[&[&str]] = &[&["+packed lengths"], &["", "N1 T1 I1 H1", "N1 T8 H33"]];
    let each = |cases: Vec<Case>, ways: &[&str]| -> Vec<Case> {
        let with_each = |case: Case| ways.iter().map(move |way| case.with(way)).collect();
        cases.into_iter().flat_map::<Vec<_>, _>(with_each).collect()
    };
    let single: Vec<Case> = sizes()
        .into_iter()
        .filter(|case| case.sizes.t == 1)
        .collect();
    vec![
        (
            "options",
            covering(&[&[SIZES], OPTIONS, PADDED, ways].concat(), strength),
        ),
        ("packed", covering(&[packed, OPTIONS].concat(), strength)),
        ("sizes", sizes()),
        ("cell", each(single, &["+cell"])),
        (
            "large",
            each(
                large(),
                &["", "lean", "+checkpointing", "+composed", "+views"],
            ),
        ),
        ("empty", each(empty(), &["", "+composed"])),
        (
            "activations",
            each(
                activations(),
                if strength == 2 {
                    &[""]
                } else {
                    &["", "+composed"]
                },
            ),
        ),
        ("extreme", extreme()),
        ("nonfinite", nonfinite()),
        ("long", each(long(), &["+inference"])),
    ]
}

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let share = |(group, cases): (&'static str, Vec<Case>)| -> (_, Vec<Arc<Known>>) {
        (
            group,
            cases.into_iter().map(Known::new).map(Arc::new).collect(),
        )
    };
    let [pairs, triples]: [Vec<_>; 2] =
        [2, 3].map(|strength| groups(strength).into_iter().map(share).collect());
    let mut trials = Vec::new();
    for &backend in backends {
        let groups = if backend.samples_modes() {
            &pairs
        } else {
            &triples
        };
        for (group, cases) in groups {
            let dtypes = match *group {
                "large" | "nonfinite" | "long" => vec![DType::F32],
                _ => backend.dtypes(),
            };
            for dtype in dtypes {
                trials.extend(
                    cases
                        .iter()
                        .map(|known| trial(group, known, backend, dtype)),
                );
            }
        }
        if backend.name == "flex" {
            for known in sixteen_bits().into_iter().map(Known::new).map(Arc::new) {
                let trial = |dtype| trial("half", &known, backend, dtype);
                trials.extend([DType::F16, DType::BF16].map(trial));
            }
        }
    }
    trials
}

fn trial(group: &str, known: &Arc<Known>, backend: TestBackend, dtype: DType) -> Trial {
    let (known, id) = (known.clone(), known.case.id());
    let id = format!("{group}/{id}/{}", backend.id(dtype));
    backend.ignorable_trial(id, move |device| {
        match check(&known, &backend, device, dtype) {
            Ok(()) => Ok(Completion::Completed),
            Err(Stop::Unsupported(reason)) => Ok(Completion::ignored_with(reason)),
            Err(Stop::Failed(text)) => Err(text),
        }
    })
}

/// A backend that runs cases in one type.
struct OnDevice<'a> {
    backend: &'a TestBackend,
    device: &'a Device,
    dtype: DType,
}

impl Runs for OnDevice<'_> {
    fn run(&self, case: &Case, drawn: &Drawn) -> Result<Outcome, Stop> {
        let way = Way::of(case);
        if self.backend.name == "ndarray" && way.composed && case.sizes.i == 0 {
            let reason = "a product over no features panics in Burn 0.22.1's NdArray";
            return Err(Stop::Unsupported(reason.into()));
        }
        let mut device = self.device.clone().autodiff();
        if case.has("+checkpointing") {
            device = device.gradient_checkpointing();
        }
        Ok(operator::run(&device, self.dtype, drawn, way)?)
    }
}

fn check(known: &Known, backend: &TestBackend, device: &Device, dtype: DType) -> Result<(), Stop> {
    let way = Way::of(&known.case);
    let tolerance = match dtype {
        DType::F64 if !way.composed || backend.float64_sigmoid => Tolerance::F64,
        DType::F16 => Tolerance::F16,
        DType::BF16 => Tolerance::BF16,
        _ => backend.tolerance(Tolerance::F32),
    };
    let on_device = OnDevice {
        backend,
        device,
        dtype,
    };
    known.check(&on_device, tolerance)?;
    if known.case.has("+inference") {
        let (drawn, expected) = known.truth();
        let expected = Outcome {
            outputs: expected.outputs.clone(),
            gradients: Tensors::new(),
        };
        operator::infer(device, dtype, drawn, way)?.compare(&expected, tolerance)?;
    }
    Ok(())
}
