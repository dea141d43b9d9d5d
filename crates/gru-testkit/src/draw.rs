//! Inputs with a distance from kinks and without unbounded growth.

use gru_spec::Activations;

use crate::{inputs::Inputs, oracle, problem::Problem};

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
    let run = oracle::forward(problem, inputs);
    run.kink_distance() > KINK_MARGIN && run.y.iter().all(|y| y.abs() < BOUND)
}
