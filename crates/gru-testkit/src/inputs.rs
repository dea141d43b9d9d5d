//! Seeded inputs and upstream gradients, and buffers of NaN.

pub use crate::random::SplitMix64;
use crate::{close::Outcome, oracle::Call, problem::Problem};
use gru_spec::{Activations, Sizes};

/// All inputs of one forward and backward run, flat and row-major.
///
/// All values are exact in float32, so a float32 run has the same problem.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// `[N, T, I]` or `[T, N, I]`.
    pub x: Vec<f64>,
    /// `[N, H]`.
    pub h0: Option<Vec<f64>>,
    /// `[I, 3H]`, columns r|z|n.
    pub w_ih: Vec<f64>,
    /// `[H, 3H]`, columns r|z|n.
    pub w_hh: Vec<f64>,
    /// `[3H]`.
    pub b_ih: Option<Vec<f64>>,
    /// `[3H]`.
    pub b_hh: Option<Vec<f64>>,
    /// Upstream gradient of every output, shaped like the outputs.
    pub d_y: Vec<f64>,
    /// Upstream gradient of the final state, `[N, H]`.
    pub d_h_t: Vec<f64>,
}

impl Inputs {
    /// Random inputs, equal for a problem and an attempt on every machine.
    pub(crate) fn draw(problem: &Problem, attempt: u64) -> Self {
        let &Problem { n, t, i, h, .. } = problem;
        let id = problem.id();
        let uniform = |name: &str, len: usize, scale: f64| -> Vec<f64> {
            let mut random = SplitMix64::of(&format!("{id}/{name}/{attempt}"));
            (0..len).map(|_| random.uniform(scale)).collect()
        };
        // Pre-activations of about ±2. They leave the linear range, so a wrong derivative is visible,
        // and gradients do not vanish.
        let weight = |inputs: usize| 2.0 / (inputs.max(1) as f64).sqrt();
        Self {
            x: uniform("x", n * t * i, 1.5),
            h0: problem.h0.then(|| uniform("h0", n * h, 0.8)),
            w_ih: uniform("w_ih", i * 3 * h, weight(i)),
            w_hh: uniform("w_hh", h * 3 * h, weight(h)),
            b_ih: problem.biases.input().then(|| uniform("b_ih", 3 * h, 0.5)),
            b_hh: problem.biases.hidden().then(|| uniform("b_hh", 3 * h, 0.5)),
            d_y: uniform("d_y", n * t * h, 1.0),
            d_h_t: uniform("d_h_t", n * h, 1.0),
        }
    }

    /// The differentiable tensors and their names, without absent ones.
    pub fn differentiable_mut(&mut self) -> Vec<(&'static str, &mut Vec<f64>)> {
        [
            ("x", Some(&mut self.x)),
            ("h0", self.h0.as_mut()),
            ("w_ih", Some(&mut self.w_ih)),
            ("w_hh", Some(&mut self.w_hh)),
            ("b_ih", self.b_ih.as_mut()),
            ("b_hh", self.b_hh.as_mut()),
        ]
        .into_iter()
        .filter_map(|(name, tensor)| Some((name, tensor?)))
        .collect()
    }
}

/// A buffer of NaN, for memory that must not be read or must be overwritten.
pub fn poisoned<E: From<f32> + Clone>(len: usize) -> Vec<E> {
    vec![E::from(f32::NAN); len]
}

impl Call {
    /// The call of a problem and its inputs.
    pub fn of(problem: &Problem, inputs: &Inputs) -> Self {
        let &Problem { n, t, i, h, .. } = problem;
        let sequence = gru_spec::Sequence {
            h0: inputs.h0.clone(),
            ..gru_spec::Sequence::new(inputs.x.clone())
        };
        let weights = gru_spec::Weights {
            b_ih: inputs.b_ih.clone(),
            b_hh: inputs.b_hh.clone(),
            ..gru_spec::Weights::new(Some(inputs.w_ih.clone()), inputs.w_hh.clone())
        };
        Self {
            order: problem.order,
            ..Self::new(
                Sizes { n, t, i, h },
                problem.spec,
                gru_spec::Inputs { sequence, weights },
            )
        }
    }
}

/// [`Call::outcome`] of a problem.
pub fn outcome(problem: &Problem, inputs: &Inputs) -> Outcome {
    Call::of(problem, inputs).outcome(&inputs.d_y, &inputs.d_h_t)
}

/// Minimum distance of every pre-activation and state from a kink of its function.
///
/// Finite differences move a pre-activation by at most a few steps of 2⁻¹⁰, float32 by 1e-6.
pub(crate) const KINK_MARGIN: f64 = 4e-3;

/// Bound of the outputs.
const BOUND: f64 = 4.0;

/// Maximum number of draws. Only a problem with too many kinks for its size reaches it.
const ATTEMPTS: u64 = 20_000;

impl Inputs {
    /// Random inputs, equal for a problem on every machine.
    ///
    /// # Panics
    /// If no draw keeps the values away from the kinks of the problem's activations and clips.
    pub fn random(problem: &Problem) -> Self {
        (0..ATTEMPTS)
            .map(|attempt| Self::draw(problem, attempt))
            .find(|inputs| is_checkable(problem, inputs))
            .unwrap_or_else(|| {
                panic!(
                    "{}: no draw keeps its distance from the kinks",
                    problem.id()
                )
            })
    }
}

/// Whether gradients of this draw can be checked: no value is near a kink, and no value grows without
/// bound. Some activations allow such growth, and large values would hide all others.
fn is_checkable(problem: &Problem, inputs: &Inputs) -> bool {
    let spec = &problem.spec;
    if spec.activations == Activations::default()
        && spec.clip_gates.is_none()
        && spec.clip_state.is_none()
    {
        // Smooth and bounded functions need no check, so benchmarks do not run the oracle.
        return true;
    }
    let run = Call::of(problem, inputs).forward();
    run.kink_distance() > KINK_MARGIN && run.y.iter().all(|y| y.abs() < BOUND)
}
