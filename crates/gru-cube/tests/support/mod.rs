//! Seeded problems, the kernels that run on them, and the comparison with the float64 oracle.
#![allow(dead_code)] // Every test binary uses its own part.

pub mod catalogue;
mod problem;
mod trials;

pub use problem::*;
pub use trials::*;

use cubecl::{client::Client, prelude::*, server::Handle};
use gru_cube::{Buffers, PlanError, Resource, Schedule, SequenceTile, StepTile, Strategy};
use gru_spec::Reset;
use gru_testkit::close::{Tolerance, share};

#[allow(unused_imports)] // Every test binary uses its own part.
pub use gru_testkit::{close::close, panics::panics};

/// Float32 on a GPU.
pub const F32: Tolerance = Tolerance::F32.times(Tolerance::GPU_FACTOR);

/// Storage in float16 rounds at 2⁻¹¹. A state is rounded once per step when it is stored, and gradients use rounded
/// gates. Sums of up to 20 such terms stay within ten roundings of the largest value.
pub const F16: Tolerance = Tolerance {
    forward: 10.0 / 2048.0,
    gradient: 10.0 / 2048.0,
};

pub const fn sequence(
    rows: usize,
    width: usize,
    n_threads: usize,
    k_splits: usize,
    resident: bool,
) -> Schedule {
    Schedule::Sequence(SequenceTile {
        rows,
        width,
        n_threads,
        k_splits,
        resident,
    })
}

pub const fn tile(
    rows: usize,
    width: usize,
    n_threads: usize,
    n_per_thread: usize,
    k_splits: usize,
    block_k: usize,
) -> StepTile {
    StepTile {
        rows,
        width,
        n_threads,
        n_per_thread,
        k_splits,
        block_k,
        matrix: false,
    }
}

/// What a case does in addition to a training step with a separate buffer for gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mode {
    /// Gradients of the gates overwrite the gates.
    pub in_place: bool,
    /// A pass that saves no gates must compute the same states.
    pub inference: bool,
}

/// The results of a run. Gates at skipped steps are ignored.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub states: Vec<f64>,
    pub d_p: Vec<f64>,
    pub d_h0: Vec<f64>,
    /// Empty without a start state.
    pub d_start: Vec<f64>,
    pub d_w_hh: Vec<f64>,
    pub d_b_hh: Vec<f64>,
}

/// Buffers of a type on a device.
pub trait Upload: CubeElement + Float {
    fn narrow(x: f64) -> Self;
    fn wide(self) -> f64;
}

impl Upload for f32 {
    fn narrow(x: f64) -> Self {
        x as f32
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

impl Upload for half::f16 {
    fn narrow(x: f64) -> Self {
        Self::from_f64(x)
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

impl Upload for half::bf16 {
    fn narrow(x: f64) -> Self {
        Self::from_f64(x)
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

pub fn upload<F: Upload>(client: &Client, data: &[f64]) -> Handle {
    let data: Vec<F> = data.iter().map(|&x| F::narrow(x)).collect();
    client.create_from_slice(F::as_bytes(&data))
}

/// A buffer full of NaN, which shows values that a kernel does not write.
pub fn poisoned<F: Upload>(client: &Client, len: usize) -> Handle {
    upload::<F>(client, &vec![f64::NAN; len])
}

pub fn download<F: Upload>(client: &Client, handle: Handle, len: usize) -> Vec<f64> {
    let bytes = client.read_one_unchecked(handle);
    F::from_bytes(&bytes)[..len]
        .iter()
        .map(|&x| F::wide(x))
        .collect()
}

/// Forward and backward on the device. Weight gradients are computed here in float64.
pub fn run<F: Upload>(
    client: &Client,
    problem: &Problem,
    strategy: Strategy,
    in_place: bool,
) -> Result<Outcome, PlanError> {
    let Problem { n, h, spec, .. } = *problem;
    let rows = problem.rows();
    let width = spec.saved_per_unit() * h;
    let call = problem.recurrence::<F>(client);
    let states = poisoned::<F>(client, rows * h);
    let gates = poisoned::<F>(client, rows * width);
    let buffers = Buffers::Forward {
        steps: 0..problem.t,
        states: states.clone(),
        gates: Some(gates.clone()),
    };
    gru_cube::run(client, &call, &buffers, strategy)?;
    let gates_before = download::<F>(client, gates.clone(), rows * width);
    let d_gates = if in_place {
        gates.clone()
    } else {
        poisoned::<F>(client, rows * width)
    };
    let state_len = match problem.start_state {
        Some(_) => 2 * n * h,
        None => n * h,
    };
    let d_h0 = match problem.lengths {
        Some(_) => upload::<f32>(client, &vec![0.0; state_len]),
        None => poisoned::<f32>(client, state_len),
    };
    let buffers = Buffers::Backward {
        d_states: upload::<F>(client, &problem.d_states),
        states: states.clone(),
        gates,
        d_gates: (!in_place).then(|| d_gates.clone()),
        d_h0: d_h0.clone(),
    };
    gru_cube::run(client, &call, &buffers, strategy)?;
    let mut states = download::<F>(client, states, rows * h);
    fill_padding(problem, &mut states);
    let d_gates = download::<F>(client, d_gates, rows * width);
    let d_h0 = download::<f32>(client, d_h0, state_len);
    Ok(finish(problem, &gates_before, &d_gates, states, d_h0))
}

/// The states of a pass that saves no gates.
pub fn inference<F: Upload>(
    client: &Client,
    problem: &Problem,
    strategy: Strategy,
) -> Result<Vec<f64>, PlanError> {
    let len = problem.rows() * problem.h;
    let states = poisoned::<F>(client, len);
    let buffers = Buffers::Forward {
        steps: 0..problem.t,
        states: states.clone(),
        gates: None,
    };
    gru_cube::run(client, &problem.recurrence::<F>(client), &buffers, strategy)?;
    let mut states = download::<F>(client, states, len);
    fill_padding(problem, &mut states);
    Ok(states)
}

/// Sets the states of padding, which are undefined, as the oracle does: each row keeps its last state.
fn fill_padding(problem: &Problem, states: &mut [f64]) {
    let Problem { n, t, h, .. } = *problem;
    for (k, step) in (0..n).flat_map(|k| (0..t).map(move |step| (k, step))) {
        if problem.is_padding(k, step) {
            let kept: Vec<_> = (0..h).map(|j| problem.before(states, k, step, j)).collect();
            states[problem.row(k, step) * h..][..h].copy_from_slice(&kept);
        }
    }
}

/// Ignores what the device does not allow. Any other error is a failure, and so are too many buffers.
pub fn not_allowed(error: PlanError) -> Ignored {
    match error {
        PlanError::BeyondLimit {
            resource: Resource::Buffers,
            ..
        } => panic!("{error}"),
        PlanError::BeyondLimit { .. } | PlanError::NoMatrices => Ignored(error.to_string()),
        other => panic!("{other}"),
    }
}

/// The products that the caller computes, in float64.
fn finish(
    problem: &Problem,
    gates: &[f64],
    d_gates: &[f64],
    states: Vec<f64>,
    mut d_h0: Vec<f64>,
) -> Outcome {
    let d_start = d_h0.split_off(problem.n * problem.h);
    let Problem { n, t, h, spec, .. } = *problem;
    let width = spec.saved_per_unit() * h;
    let rows = problem.rows();
    let mut d_p = vec![0.0; rows * 3 * h];
    let mut d_w_hh = vec![0.0; 3 * h * h];
    let mut d_b_hh = vec![0.0; 3 * h];
    for step in 0..t {
        let time = |s: usize| problem.order.direction.time(s, t);
        for k in 0..n {
            let row = problem.row(k, time(step));
            if problem.is_padding(k, time(step)) {
                continue;
            }
            let d = &d_gates[row * width..][..width];
            d_p[row * 3 * h..][..3 * h].copy_from_slice(&d[..3 * h]);
            let before = |j: usize| problem.before(&states, k, step, j);
            let skipped = problem.step_mask.as_ref().is_some_and(|v| v[row] == 0.0);
            for j in 0..h {
                let g = if skipped {
                    0.0
                } else {
                    before(j) * problem.mask(k, j)
                };
                let g_n = match spec.reset {
                    Reset::BeforeMatmul if skipped => 0.0,
                    Reset::BeforeMatmul => g * gates[row * width + j],
                    Reset::AfterMatmul => g,
                };
                for c in 0..h {
                    let dw = &mut d_w_hh[j * 3 * h..][..3 * h];
                    dw[c] += g * d[c];
                    dw[h + c] += g * d[h + c];
                    dw[2 * h + c] += g_n * d[width - h + c];
                }
            }
            for c in 0..h {
                d_b_hh[c] += d[c];
                d_b_hh[h + c] += d[h + c];
                d_b_hh[2 * h + c] += d[width - h + c];
            }
        }
    }
    Outcome {
        states,
        d_p,
        d_h0,
        d_start,
        d_w_hh,
        d_b_hh,
    }
}

impl Outcome {
    /// Compares states and gradients with their tolerances. Returns the largest share of a tolerance.
    pub fn compare(&self, expected: &Self, tolerance: Tolerance) -> Result<f64, String> {
        let states = share("states", &self.states, &expected.states, tolerance.forward)?;
        let gradients = [
            ("d_p", &self.d_p, &expected.d_p),
            ("d_h0", &self.d_h0, &expected.d_h0),
            ("d_start", &self.d_start, &expected.d_start),
            ("d_w_hh", &self.d_w_hh, &expected.d_w_hh),
            ("d_b_hh", &self.d_b_hh, &expected.d_b_hh),
        ];
        let mut shares = gradients
            .into_iter()
            .map(|(name, got, expected)| share(name, got, expected, tolerance.gradient));
        shares.try_fold(states, |largest, share| Ok(largest.max(share?)))
    }
}
