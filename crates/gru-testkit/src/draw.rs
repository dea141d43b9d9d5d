//! Inputs that keep away from kinks and from growth without bound.

use gru_spec::Activations;

use crate::{inputs::Inputs, oracle, problem::Problem};

/// Distance that every pre-activation and state keeps from a kink of its function.
///
/// Finite differences move a pre-activation by at most a few steps of 2⁻¹⁰, float32 by 1e-6.
pub(crate) const KINK_MARGIN: f64 = 4e-3;

/// Bound of the outputs.
const BOUND: f64 = 4.0;

/// Draws tried before giving up; used up only by a problem with too many kinks for its size.
const ATTEMPTS: u64 = 20_000;

impl Inputs {
    /// Random inputs, the same for the same problem on every machine.
    ///
    /// # Panics
    /// If no draw keeps the values away from the kinks of the problem's activations and clips.
    pub fn random(problem: &Problem) -> Self {
        (0..ATTEMPTS)
            .map(|attempt| Self::draw(problem, attempt))
            .find(|inputs| is_tame(problem, inputs))
            .unwrap_or_else(|| panic!("{}: no draw is tame", problem.id()))
    }
}

/// Whether gradients are worth checking here: no value near a kink, and no growth without bound,
/// which some activations allow and which would hide every number but the largest.
fn is_tame(problem: &Problem, inputs: &Inputs) -> bool {
    let spec = &problem.spec;
    if spec.activations == Activations::default()
        && spec.clip_gates.is_none()
        && spec.clip_state.is_none()
    {
        // Smooth and bounded by nature; benches need not pay for an oracle.
        return true;
    }
    let run = oracle::forward(problem, inputs);
    run.kink_distance() > KINK_MARGIN && run.y.iter().all(|y| y.abs() < BOUND)
}
