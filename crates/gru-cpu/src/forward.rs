//! The forward pass.

use crate::{
    dims::{Dims, Inputs, check_len},
    element::Element,
    plain,
    spec::GruSpec,
};

/// Writes the state after every step to `states` (`[N,T,H]` or `[T,N,H]`).
///
/// With `saved` (`[…,4H]` for reset-after: r, z, n and the candidate's recurrent part q_n;
/// `[…,3H]` for reset-before: r, z, n), keeps what [`backward`](crate::backward()) needs. Without
/// it nothing is kept but the states.
///
/// At a step that `valid` skips the state is carried on and the saved gates have no meaning.
///
/// # Panics
/// If the sizes are larger than memory can be, or a slice has not the length that `dims` and `spec`
/// ask for.
pub fn forward<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &mut [E],
    saved: Option<&mut [E]>,
) {
    const OP: &str = "gru_cpu::forward";
    spec.check();
    inputs.check(OP, dims);
    check_len(OP, "states", Some(states), dims.rows() * dims.h);
    check_len(
        OP,
        "saved",
        saved.as_deref(),
        dims.rows() * dims.h * spec.saved_per_unit(),
    );
    if states.is_empty() {
        return;
    }
    if plain::is_forced() {
        plain::forward(dims, spec, inputs, states, saved);
    } else {
        E::walk(dims, spec, inputs, states, saved);
    }
}
