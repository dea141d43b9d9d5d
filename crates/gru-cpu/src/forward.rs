//! The forward pass, and the gates made anew from its states.

use crate::{
    activation::gates,
    dims::{Dims, Inputs, Walk, check_len},
    plain::{self, add, finish_after, multiply, project, recurrent_product},
    product::Element,
    spec::{GruSpec, Reset},
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
/// If a slice has not the length that `dims` and `spec` ask for.
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

/// Makes the saved gates anew from the states of an earlier [`forward`], without walking through
/// time: every product is one over all steps.
///
/// # Panics
/// If a slice has not the length that `dims` and `spec` ask for.
pub fn recompute<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
) -> Vec<E> {
    const OP: &str = "gru_cpu::recompute";
    spec.check();
    inputs.check(OP, dims);
    check_len(OP, "states", Some(states), dims.rows() * dims.h);
    let (rows, h) = (dims.rows(), dims.h);
    let width = spec.saved_per_unit() * h;
    let mut saved = vec![E::zero(); rows * width];
    if saved.is_empty() {
        return saved;
    }
    project(dims, spec, inputs, &mut saved, width);
    let g = recurrent_inputs(dims, spec, inputs, states);
    let gate = gates::<E>(spec);
    match spec.reset {
        Reset::AfterMatmul => {
            let mut q = vec![E::zero(); rows * 3 * h];
            recurrent_product(&mut q, rows, h, &g, inputs.w_hh, 0..3);
            let b_hn = inputs.b_hh.map(|b| &b[2 * h..]);
            for (saved, q) in saved.chunks_exact_mut(width).zip(q.chunks_exact(3 * h)) {
                add(&mut saved[..2 * h], &q[..2 * h]);
                finish_after(&gate, h, saved, &q[2 * h..], b_hn);
            }
        }
        Reset::BeforeMatmul => {
            let mut q = vec![E::zero(); rows * 2 * h];
            recurrent_product(&mut q, rows, h, &g, inputs.w_hh, 0..2);
            let mut rg = g;
            let per_row = saved.chunks_exact_mut(width).zip(q.chunks_exact(2 * h));
            for ((saved, q), rg) in per_row.zip(rg.chunks_exact_mut(h)) {
                add(&mut saved[..2 * h], q);
                gate[0].apply(&mut saved[..h]);
                gate[1].apply(&mut saved[h..2 * h]);
                multiply(rg, &saved[..h]);
            }
            let mut q_n = q;
            q_n.truncate(rows * h);
            recurrent_product(&mut q_n, rows, h, &rg, inputs.w_hh, 2..3);
            for (saved, q_n) in saved.chunks_exact_mut(width).zip(q_n.chunks_exact(h)) {
                add(&mut saved[2 * h..3 * h], q_n);
                gate[2].apply(&mut saved[2 * h..3 * h]);
            }
        }
    }
    saved
}

/// `g = m ⊙ h₋₁` for every (row, step), in the layout of the states.
pub(crate) fn recurrent_inputs<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
) -> Vec<E> {
    let h = dims.h;
    let (place, walk) = (dims.place(spec.layout), Walk::new(dims, spec));
    let mut g = vec![E::zero(); states.len()];
    for s in 0..dims.t {
        for n in 0..dims.n {
            let row = place.row(n, walk.time(s)) * h;
            let previous = match s {
                0 => inputs.h0.map(|h0| &h0[n * h..][..h]),
                _ => Some(&states[place.row(n, walk.time(s - 1)) * h..][..h]),
            };
            if let Some(previous) = previous {
                g[row..][..h].copy_from_slice(previous);
            }
            if let Some(mask) = inputs.mask {
                multiply(&mut g[row..][..h], &mask[n * h..][..h]);
            }
        }
    }
    g
}
