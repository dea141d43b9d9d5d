//! Every output and every gradient of the operator, against the float64 oracle.

use std::sync::{Arc, OnceLock};

use burn::tensor::{DType, Device};
use gru_op::{GruSpec, Layout, Memory, composed, gru_cell, gru_sequence};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    inputs::Inputs,
    oracle,
    problem::{self, Problem},
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    runs::{self, Leaves, SequenceOp},
};

/// The problems on every backend, through the operator, the composed default and the cell.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let known: Vec<Arc<Known>> = problem::catalogue()
        .into_iter()
        .map(|problem| Arc::new(Known::new(problem)))
        .collect();
    let mut trials = Vec::new();
    for backend in backends {
        for dtype in backend.dtypes() {
            for (index, known) in known.iter().enumerate() {
                let modes = match backend.samples_modes() && index % EVERY != 0 {
                    true => &MODES[..1],
                    false => &MODES[..],
                };
                for mode in modes {
                    trials.push(sequence_trial(mode, known, backend, dtype));
                }
                if known.problem.t == 1 {
                    trials.push(cell_trial(known, backend, dtype));
                }
            }
            for (n, t) in [(0, 3), (2, 0), (0, 0)] {
                for layout in [Layout::BatchMajor, Layout::TimeMajor] {
                    trials.push(empty_trial(n, t, layout, backend, dtype));
                }
            }
        }
    }
    trials
}

/// A problem with its inputs and, once asked for, its truth: shared by all trials on it.
struct Known {
    problem: Problem,
    truth: OnceLock<(Inputs, Outcome)>,
}

impl Known {
    fn new(problem: Problem) -> Self {
        Self {
            problem,
            truth: OnceLock::new(),
        }
    }

    fn truth(&self) -> &(Inputs, Outcome) {
        self.truth.get_or_init(|| {
            let inputs = Inputs::random(&self.problem);
            let outcome = oracle::outcome(&self.problem, &inputs);
            (inputs, outcome)
        })
    }
}

/// How close the kernels come to the oracle.
fn tolerance(backend: &TestBackend, dtype: DType) -> Tolerance {
    backend.tolerance(match dtype {
        DType::F64 => Tolerance::F64,
        _ => Tolerance::F32,
    })
}

/// On a slow backend, the modes behind the first take every third problem. Conventions come in
/// fours in the catalogue, so that each still has its turn.
const EVERY: usize = 3;

/// A way through the operator that must not change a number.
struct Mode {
    name: &'static str,
    op: SequenceOp,
    memory: Memory,
    checkpointing: bool,
    /// Whether Burn's own sigmoid is computed with.
    burn_sigmoid: bool,
}

static MODES: [Mode; 4] = [
    Mode {
        name: "gradient",
        op: gru_sequence,
        memory: Memory::Speed,
        checkpointing: false,
        burn_sigmoid: false,
    },
    Mode {
        name: "lean",
        op: gru_sequence,
        memory: Memory::Lean,
        checkpointing: false,
        burn_sigmoid: false,
    },
    // Burn's own switch for the same trade.
    Mode {
        name: "checkpointing",
        op: gru_sequence,
        memory: Memory::Speed,
        checkpointing: true,
        burn_sigmoid: false,
    },
    // Differentiated by Burn, so that the specification has no derivative of ours.
    Mode {
        name: "composed",
        op: composed::gru_sequence,
        memory: Memory::Speed,
        checkpointing: false,
        burn_sigmoid: true,
    },
];

fn sequence_trial(
    mode: &'static Mode,
    known: &Arc<Known>,
    backend: &TestBackend,
    dtype: DType,
) -> Trial {
    let known = known.clone();
    let tolerance = match mode.burn_sigmoid && !backend.float64_sigmoid {
        true => backend.tolerance(Tolerance::F32),
        false => tolerance(backend, dtype),
    };
    let id = format!("{}/{}/{}", mode.name, known.problem.id(), backend.id(dtype));
    backend.trial(id, move |device| {
        let (inputs, truth) = known.truth();
        let spec = known.problem.spec.with_memory(mode.memory);
        let problem = known.problem.with_spec(spec);
        let mut device = device.clone().autodiff();
        if mode.checkpointing {
            device = device.gradient_checkpointing();
        }
        let got = runs::sequence(mode.op, &problem, inputs, &device, dtype)?;
        got.compare(truth, tolerance)
    })
}

/// A sequence of one step through [`gru_cell`]: its output is both `y` and `h_t`.
fn cell_trial(known: &Arc<Known>, backend: &TestBackend, dtype: DType) -> Trial {
    let (known, tolerance) = (known.clone(), tolerance(backend, dtype));
    let id = format!("cell/{}/{}", known.problem.id(), backend.id(dtype));
    backend.trial(id, move |device| {
        let (inputs, truth) = known.truth();
        let problem = &known.problem;
        let leaves = Leaves::new(problem, inputs, device, dtype);
        let x = leaves.x.clone().reshape([problem.n, problem.i]);
        let h = gru_cell(x, leaves.h0.clone(), &leaves.weights, &problem.spec);
        runs::expect_shape("h", &h, [problem.n, problem.h])?;
        let loss = runs::loss(&h, &inputs.d_y) + runs::loss(&h, &inputs.d_h_t);
        let gradients = leaves.gradients(&loss.backward())?;
        let h = runs::values(h);
        let outputs = Tensors::from([("y".into(), h.clone()), ("h_t".into(), h)]);
        Outcome { outputs, gradients }.compare(truth, tolerance)
    })
}

/// No rows or no steps: nothing is computed, the state passes through, and every leaf still has a
/// gradient of its own shape.
fn empty_trial(n: usize, t: usize, layout: Layout, backend: &TestBackend, dtype: DType) -> Trial {
    let spec = GruSpec::default().with_layout(layout);
    let problem = Problem::new(n, t, 3, 4).with_spec(spec);
    let id = format!("empty/{}/{}", problem.id(), backend.id(dtype));
    backend.trial(id, move |device: &Device| {
        let inputs = Inputs::random(&problem);
        let h0 = inputs.h0.clone().unwrap_or_default();
        let got = runs::sequence(gru_sequence, &problem, &inputs, device, dtype)?;
        let zeros = |len: usize| vec![0.0; len];
        let Problem { i, h, .. } = problem;
        let expected = Outcome {
            outputs: Tensors::from([("y".into(), zeros(0)), ("h_t".into(), h0)]),
            gradients: Tensors::from([
                ("x".into(), zeros(0)),
                // Without a step the final state is the initial one.
                ("h0".into(), inputs.d_h_t.clone()),
                ("w_ih".into(), zeros(i * 3 * h)),
                ("w_hh".into(), zeros(h * 3 * h)),
                ("b_ih".into(), zeros(3 * h)),
                ("b_hh".into(), zeros(3 * h)),
            ]),
        };
        // Zeros are zeros in every precision.
        got.compare(&expected, Tolerance::F64)
    })
}
