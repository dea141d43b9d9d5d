//! The forward pass: one product for all steps, then the walk through time.

use crate::{
    activation::{Gate, gates},
    dims::{Dims, Inputs, Walk, check_len},
    product::{Element, Mat, MatMut, Write, product, real},
    spec::{GruSpec, Reset, Update},
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
    match saved {
        Some(saved) => {
            let width = spec.saved_per_unit() * dims.h;
            project(dims, spec, inputs, saved, width);
            walk(dims, spec, inputs, saved, width, states);
        }
        None => {
            let width = 3 * dims.h;
            let mut scratch = vec![E::zero(); dims.rows() * width];
            project(dims, spec, inputs, &mut scratch, width);
            walk(dims, spec, inputs, &mut scratch, width, states);
        }
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

/// Fills columns `0..3H` of rows `width` apart with `p`: the input product and every bias that
/// stands outside of the reset gate's product.
fn project<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    gates: &mut [E],
    width: usize,
) {
    let (rows, i, h) = (dims.rows(), dims.i, dims.h);
    let mut bias = vec![E::zero(); 3 * h];
    if let Some(b_ih) = inputs.b_ih {
        add(&mut bias, b_ih);
    }
    if let Some(b_hh) = inputs.b_hh {
        // After the product, r multiplies b_hn too; then it cannot join p.
        let outside = match spec.reset {
            Reset::AfterMatmul => 2 * h,
            Reset::BeforeMatmul => 3 * h,
        };
        add(&mut bias[..outside], &b_hh[..outside]);
    }
    for gates in gates.chunks_exact_mut(width) {
        gates[..3 * h].copy_from_slice(&bias);
    }
    match inputs.w_ih {
        Some(w_ih) => product(
            MatMut::new(gates, rows, 3 * h, width),
            Write::Add,
            Mat::new(inputs.x, rows, i, i),
            Mat::new(w_ih, i, 3 * h, 3 * h),
        ),
        None => {
            let projected = inputs.x.chunks_exact(3 * h);
            for (gates, p) in gates.chunks_exact_mut(width).zip(projected) {
                add(&mut gates[..3 * h], p);
            }
        }
    }
}

/// Walks through time: turns `p` into the gates, in place, and writes the states.
fn walk<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    gates_of_all: &mut [E],
    width: usize,
    states: &mut [E],
) {
    if E::walk(dims, spec, inputs, gates_of_all, width, states) {
        return;
    }
    let (n, h) = (dims.n, dims.h);
    let (place, time) = (dims.place(spec.layout), Walk::new(dims, spec));
    let gate = gates::<E>(spec);
    let clip = spec.clip_state.map(real::<E>);
    let b_hn = inputs.b_hh.map(|b| &b[2 * h..]);

    let mut state = inputs
        .h0
        .map_or_else(|| vec![E::zero(); n * h], <[E]>::to_vec);
    let mut masked = inputs.mask.map(|_| vec![E::zero(); n * h]);
    let mut q = vec![E::zero(); n * 3 * h];
    let mut rg = match spec.reset {
        Reset::AfterMatmul => Vec::new(),
        Reset::BeforeMatmul => vec![E::zero(); n * h],
    };

    for s in 0..dims.t {
        let t = time.time(s);
        if let (Some(masked), Some(mask)) = (&mut masked, inputs.mask) {
            masked.copy_from_slice(&state);
            multiply(masked, mask);
        }
        let g = masked.as_ref().unwrap_or(&state);

        match spec.reset {
            Reset::AfterMatmul => {
                recurrent_product(&mut q, n, h, g, inputs.w_hh, 0..3);
                for (k, q) in q.chunks_exact(3 * h).enumerate() {
                    let gates = &mut gates_of_all[place.row(k, t) * width..][..width];
                    add(&mut gates[..2 * h], &q[..2 * h]);
                    finish_after(&gate, h, gates, &q[2 * h..], b_hn);
                }
            }
            Reset::BeforeMatmul => {
                let (q, _) = q.split_at_mut(n * 2 * h);
                recurrent_product(q, n, h, g, inputs.w_hh, 0..2);
                let per_row = q.chunks_exact(2 * h).zip(rg.chunks_exact_mut(h));
                for (k, (q, rg)) in per_row.enumerate() {
                    let gates = &mut gates_of_all[place.row(k, t) * width..][..width];
                    add(&mut gates[..2 * h], q);
                    gate[0].apply(&mut gates[..h]);
                    gate[1].apply(&mut gates[h..2 * h]);
                    rg.copy_from_slice(&g[k * h..][..h]);
                    multiply(rg, &gates[..h]);
                }
                let (q_n, _) = q.split_at_mut(n * h);
                recurrent_product(q_n, n, h, &rg, inputs.w_hh, 2..3);
                for (k, q_n) in q_n.chunks_exact(h).enumerate() {
                    let gates = &mut gates_of_all[place.row(k, t) * width..][..width];
                    add(&mut gates[2 * h..3 * h], q_n);
                    gate[2].apply(&mut gates[2 * h..3 * h]);
                }
            }
        }

        for (k, state) in state.chunks_exact_mut(h).enumerate() {
            let row = place.row(k, t);
            if inputs.valid.is_none_or(|valid| valid[row] != E::zero()) {
                let (z, new) = gates_of_all[row * width + h..][..2 * h].split_at(h);
                for ((state, &z), &new) in state.iter_mut().zip(z).zip(new) {
                    let u = blend(spec.update, *state, z, new);
                    *state = clip.map_or(u, |c| u.max(-c).min(c));
                }
            }
            states[row * h..][..h].copy_from_slice(state);
        }
    }
}

/// The new state before its clip.
pub(crate) fn blend<E: Element>(update: Update, h: E, z: E, n: E) -> E {
    match update {
        Update::Keeps => z * h + (E::one() - z) * n,
        Update::Takes => (E::one() - z) * h + z * n,
    }
}

/// Reset after the product: from `gates` = [a_r, a_z, p_n] and q_n, the gates; q_n with its bias
/// is kept behind them where the row has room.
fn finish_after<E: Element>(
    gate: &[Gate<E>; 3],
    h: usize,
    gates: &mut [E],
    q_n: &[E],
    b_hn: Option<&[E]>,
) {
    let (r, rest) = gates.split_at_mut(h);
    let (z, rest) = rest.split_at_mut(h);
    let (n, kept) = rest.split_at_mut(h);
    gate[0].apply(r);
    gate[1].apply(z);
    for j in 0..h {
        let q = q_n[j] + b_hn.map_or(E::zero(), |b| b[j]);
        n[j] = n[j] + r[j] * q;
        if let Some(kept) = kept.get_mut(j) {
            *kept = q;
        }
    }
    gate[2].apply(n);
}

/// `q = g·w_hh[:, blocks]`, with the gate blocks r, z, n counted 0, 1, 2.
fn recurrent_product<E: Element>(
    q: &mut [E],
    rows: usize,
    h: usize,
    g: &[E],
    w_hh: &[E],
    blocks: std::ops::Range<usize>,
) {
    let cols = blocks.len() * h;
    product(
        MatMut::new(q, rows, cols, cols),
        Write::Set,
        Mat::new(g, rows, h, h),
        Mat::new(&w_hh[blocks.start * h..], h, cols, 3 * h),
    );
}

fn add<E: Element>(to: &mut [E], from: &[E]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = *to + from;
    }
}

fn multiply<E: Element>(to: &mut [E], by: &[E]) {
    for (to, &by) in to.iter_mut().zip(by) {
        *to = *to * by;
    }
}
