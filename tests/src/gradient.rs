//! Every output and every gradient of the operator, compared with the float64 oracle.

use std::sync::{Arc, OnceLock};

use burn::tensor::DType;
use gru_op::{
    Activations, Checkpointing, Direction, GruSpec, Layout, Order, Reset, Update, gru_cell,
};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    cover::{missing, select},
    inputs::Inputs,
    oracle::{self, Call},
    problem::{self, Biases, Problem},
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    call::{self, How},
    runs::{self, Leaves},
};

/// Sizes beyond one tile, panel or cube. Finite differences of the catalogue would take too long with them.
fn larger() -> [Problem; 6] {
    let before = GruSpec::default()
        .with_reset(Reset::BeforeMatmul)
        .with_update(Update::Takes);
    let time_major = |direction| Order {
        layout: Layout::TimeMajor,
        direction,
    };
    [
        Problem::new(5, 13, 9, 33),
        Problem::new(5, 13, 9, 33)
            .with_spec(before)
            .with_order(time_major(Direction::Reverse)),
        Problem::new(2, 40, 16, 64).with_order(time_major(Direction::Forward)),
        Problem::new(2, 40, 16, 64).with_spec(before),
        Problem::new(17, 3, 5, 48)
            .with_biases(Biases::InputOnly)
            .without_h0(),
        Problem::new(1, 7, 65, 96).with_biases(Biases::None),
    ]
}

/// The problems on every backend, through the operator, the composed default and the cell.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let known = |problem| Arc::new(Known::new(problem));
    let larger = larger().map(known);
    let known: Vec<Arc<Known>> = problem::catalogue().into_iter().map(known).collect();
    let rows: Vec<Vec<usize>> = known.iter().map(|known| row(&known.problem)).collect();
    let sample = select(&rows, &SIZES, 2);
    let mut trials = Vec::new();
    for backend in backends {
        if backend.samples_modes() {
            let (all, sample) = (rows.clone(), sample.iter().map(|&k| rows[k].clone()));
            let sample: Vec<Vec<usize>> = sample.collect();
            let id = format!("gradient/coverage/{}", backend.name);
            trials.push(Trial::test(id, move || Ok(covers(&sample, &all)?)));
        }
        for known in &larger {
            let trial = |mode| sequence_trial(mode, known, backend, DType::F32);
            trials.extend(MODES.iter().map(trial));
        }
        for dtype in backend.dtypes() {
            for (index, known) in known.iter().enumerate() {
                let modes = if backend.samples_modes() && !sample.contains(&index) {
                    &MODES[..1]
                } else {
                    &MODES[..4]
                };
                for mode in modes {
                    trials.push(sequence_trial(mode, known, backend, dtype));
                }
                if known.problem.t == 1 {
                    trials.push(cell_trial(known, backend, dtype));
                }
            }
        }
    }
    trials
}

/// A problem with its inputs, shared by all its trials. The expected results are computed on first use.
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

/// The distance between kernels and oracle.
fn tolerance(backend: &TestBackend, dtype: DType) -> Tolerance {
    backend.tolerance(match dtype {
        DType::F64 => Tolerance::F64,
        _ => Tolerance::F32,
    })
}

/// The number of values of each entry of [`row`].
const SIZES: [usize; 9] = [2, 2, 2, 2, 4, 2, 4, 2, 2];

/// Every property of a problem except its sizes. A backend that runs a sample of the problems still
/// covers every pair of property values in the catalogue.
fn row(problem: &Problem) -> Vec<usize> {
    let spec = &problem.spec;
    let flag = |input: bool, hidden: bool| usize::from(input) + 2 * usize::from(hidden);
    vec![
        usize::from(spec.reset == Reset::BeforeMatmul),
        usize::from(spec.update == Update::Takes),
        usize::from(problem.order.layout == Layout::TimeMajor),
        usize::from(problem.order.direction == Direction::Reverse),
        flag(problem.biases.input(), problem.biases.hidden()),
        usize::from(problem.h0),
        flag(spec.clip_gates.is_some(), spec.clip_state.is_some()),
        usize::from(spec.activations != Activations::default()),
        usize::from(problem.t == 1),
    ]
}

/// Returns an error if the sample lacks a pair that the catalogue has, or if the catalogue lacks a clip
/// with an update rule.
fn covers(sample: &[Vec<usize>], all: &[Vec<usize>]) -> Result<(), String> {
    let (of_sample, of_all) = (missing(sample, &SIZES, 2), missing(all, &SIZES, 2));
    if let Some(pair) = of_sample.iter().find(|pair| !of_all.contains(pair)) {
        return Err(format!("the sample lacks {pair:?}"));
    }
    let rules_by_clip = |pair: &&Vec<(usize, usize)>| pair[0].0 < 2 && pair[1].0 == 6;
    match of_all.iter().find(rules_by_clip) {
        Some(pair) => Err(format!("the catalogue lacks {pair:?}")),
        None => Ok(()),
    }
}

/// A variant of the operator that must give the same results.
struct Mode {
    name: &'static str,
    checkpointing: Checkpointing,
    /// Whether the device uses Burn's own checkpointing.
    on_device: bool,
    /// Whether Burn's operations compute it, with Burn's own sigmoid.
    composed: bool,
    /// Whether the inputs are views.
    views: bool,
}

/// The last mode is only for the larger problems. `options` has it for small ones.
static MODES: [Mode; 5] = [
    Mode {
        name: "gradient",
        checkpointing: Checkpointing::KeepGates,
        on_device: false,
        composed: false,
        views: false,
    },
    Mode {
        name: "lean",
        checkpointing: Checkpointing::Recompute,
        on_device: false,
        composed: false,
        views: false,
    },
    // Burn's own checkpointing.
    Mode {
        name: "checkpointing",
        checkpointing: Checkpointing::KeepGates,
        on_device: true,
        composed: false,
        views: false,
    },
    // Burn differentiates this variant, so our derivative is not involved.
    Mode {
        name: "composed",
        checkpointing: Checkpointing::KeepGates,
        on_device: false,
        composed: true,
        views: false,
    },
    Mode {
        name: "views",
        checkpointing: Checkpointing::KeepGates,
        on_device: false,
        composed: false,
        views: true,
    },
];

fn sequence_trial(
    mode: &'static Mode,
    known: &Arc<Known>,
    backend: &TestBackend,
    dtype: DType,
) -> Trial {
    let known = known.clone();
    let tolerance = if mode.composed && !backend.float64_sigmoid {
        backend.tolerance(Tolerance::F32)
    } else {
        tolerance(backend, dtype)
    };
    let id = format!("{}/{}/{}", mode.name, known.problem.id(), backend.id(dtype));
    backend.trial(id, move |device| {
        let (inputs, truth) = known.truth();
        let how = How {
            checkpointing: mode.checkpointing,
            composed: mode.composed,
            views: mode.views,
            ..How::default()
        };
        let mut device = device.clone().autodiff();
        if mode.on_device {
            device = device.gradient_checkpointing();
        }
        let call = Call::of(&known.problem, inputs);
        let upstream = [&inputs.d_y[..], &inputs.d_h_t];
        call::on(&device, dtype, &call, upstream, &how)?.compare(truth, tolerance)
    })
}

/// A sequence of one step through [`gru_cell`]. Its output is both `y` and `h_t`.
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
