//! The plain passes: one product per step, one loop per line of the equations. They are the
//! specification of the kernels, and what tests hold them against.

mod activation;
mod product;

use self::{
    activation::{Gate, gates},
    product::{Mat, MatMut, Write, product},
};
use crate::{
    call::{Dims, Gradients, Inputs, Time, check_backward, check_forward, largest, write_bias},
    spec::{GruSpec, Reset, Update},
};
use num_traits::{Float, clamp};

/// A constant in the element type.
fn real<E: Float>(value: f64) -> E {
    E::from(value).expect("f64 converts to every float type")
}

/// The forward pass.
pub fn forward<E: Float + Default>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &mut [E],
    saved: Option<&mut [E]>,
) {
    check_forward(dims, spec, inputs, states, saved.as_deref());
    let spec = &spec.for_numbers_up_to(largest::<E>());
    if states.is_empty() {
        return;
    }
    let mut scratch = Vec::new();
    let (gates, width) = match saved {
        Some(saved) => (saved, spec.saved_per_unit() * dims.h),
        None => {
            scratch.resize(dims.rows() * 3 * dims.h, E::zero());
            (&mut scratch[..], 3 * dims.h)
        }
    };
    project(dims, spec, inputs, gates, width);
    walk(dims, spec, inputs, gates, width, states);
}

/// Fills columns `0..3H` of rows `width` apart with `p`: the input product and every bias that
/// stands outside of the reset gate's product.
fn project<E: Float>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    gates: &mut [E],
    width: usize,
) {
    let (rows, i, h) = (dims.rows(), dims.i, dims.h);
    let mut bias = vec![E::zero(); 3 * h];
    if let Some(b_ih) = inputs.weights.b_ih {
        add(&mut bias, b_ih);
    }
    if let Some(b_hh) = inputs.weights.b_hh {
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
    match inputs.weights.w_ih {
        Some(w_ih) => product(
            MatMut::new(gates, rows, 3 * h, width),
            Write::Add,
            Mat::new(inputs.sequence.x, rows, i, i),
            Mat::new(w_ih, i, 3 * h, 3 * h),
        ),
        None => {
            let projected = inputs.sequence.x.chunks_exact(3 * h);
            for (gates, p) in gates.chunks_exact_mut(width).zip(projected) {
                add(&mut gates[..3 * h], p);
            }
        }
    }
}

/// Walks through time: turns `p` into the gates, in place, and writes the states.
fn walk<E: Float>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    gates_of_all: &mut [E],
    width: usize,
    states: &mut [E],
) {
    let (n, h) = (dims.n, dims.h);
    let (place, time) = (dims.place(spec.layout), Time::new(dims, spec));
    let gate = gates(spec);
    let clip = spec.clip_state.map(real::<E>);
    let b_hn = inputs.weights.b_hh.map(|b| &b[2 * h..]);

    let mut state = inputs
        .sequence
        .h0
        .map_or_else(|| vec![E::zero(); n * h], <[E]>::to_vec);
    let mut masked = inputs.sequence.mask.map(|_| vec![E::zero(); n * h]);
    let mut q = vec![E::zero(); n * 3 * h];
    let mut rg = match spec.reset {
        Reset::AfterMatmul => Vec::new(),
        Reset::BeforeMatmul => vec![E::zero(); n * h],
    };

    for s in 0..dims.t {
        let t = time.of(s);
        if let (Some(masked), Some(mask)) = (&mut masked, inputs.sequence.mask) {
            masked.copy_from_slice(&state);
            multiply(masked, mask);
        }
        let g = masked.as_ref().unwrap_or(&state);

        match spec.reset {
            Reset::AfterMatmul => {
                recurrent_product(&mut q, n, h, g, inputs.weights.w_hh, 0..3);
                for (k, q) in q.chunks_exact(3 * h).enumerate() {
                    let gates = &mut gates_of_all[place.row(k, t) * width..][..width];
                    add(&mut gates[..2 * h], &q[..2 * h]);
                    finish_after(&gate, h, gates, &q[2 * h..], b_hn);
                }
            }
            Reset::BeforeMatmul => {
                let (q, _) = q.split_at_mut(n * 2 * h);
                recurrent_product(q, n, h, g, inputs.weights.w_hh, 0..2);
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
                recurrent_product(q_n, n, h, &rg, inputs.weights.w_hh, 2..3);
                for (k, q_n) in q_n.chunks_exact(h).enumerate() {
                    let gates = &mut gates_of_all[place.row(k, t) * width..][..width];
                    add(&mut gates[2 * h..3 * h], q_n);
                    gate[2].apply(&mut gates[2 * h..3 * h]);
                }
            }
        }

        for (k, state) in state.chunks_exact_mut(h).enumerate() {
            let row = place.row(k, t);
            if inputs
                .sequence
                .valid
                .is_none_or(|valid| valid[row] != E::zero())
            {
                let (z, new) = gates_of_all[row * width + h..][..2 * h].split_at(h);
                for (j, ((state, &z), &new)) in state.iter_mut().zip(z).zip(new).enumerate() {
                    let u = blend(spec.update, *state, z, new);
                    let u = clip.map_or(u, |c| clamp(u, -c, c));
                    *state = match inputs.sequence.take.map(|take| take[row * h + j]) {
                        Some(take) => u * take + *state * (E::one() - take),
                        None => u,
                    };
                }
            }
            states[row * h..][..h].copy_from_slice(state);
        }
    }
}

/// `g = m ⊙ h₋₁` for every (row, step), in the layout of the states; zeros where it is skipped.
fn recurrent_inputs<E: Float>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
) -> Vec<E> {
    let h = dims.h;
    let (place, walk) = (dims.place(spec.layout), Time::new(dims, spec));
    let mut g = vec![E::zero(); states.len()];
    for s in 0..dims.t {
        for n in 0..dims.n {
            let row = place.row(n, walk.of(s)) * h;
            if inputs
                .sequence
                .valid
                .is_some_and(|valid| valid[row / h] == E::zero())
            {
                continue;
            }
            let previous = match s {
                0 => inputs.sequence.h0.map(|h0| &h0[n * h..][..h]),
                _ => Some(&states[place.row(n, walk.of(s - 1)) * h..][..h]),
            };
            if let Some(previous) = previous {
                g[row..][..h].copy_from_slice(previous);
            }
            if let Some(mask) = inputs.sequence.mask {
                multiply(&mut g[row..][..h], &mask[n * h..][..h]);
            }
        }
    }
    g
}

/// The backward pass. Without `saved`, the forward pass is made once more.
pub fn backward<E: Float + Default>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: Option<&[E]>,
    d_states: &[E],
    to: Gradients<'_, E>,
) {
    check_backward(dims, spec, inputs, states, saved, d_states, &to);
    let spec = &spec.for_numbers_up_to(largest::<E>());
    if states.is_empty() {
        return to.clear();
    }
    let (rows, i, h) = (dims.rows(), dims.i, dims.h);
    let width = spec.saved_per_unit() * h;
    let mut d = match saved {
        Some(saved) => saved.to_vec(),
        None => {
            let mut saved = vec![E::zero(); rows * width];
            forward(dims, spec, inputs, &mut states.to_vec(), Some(&mut saved));
            saved
        }
    };
    let walked = walk_back(dims, spec, inputs, states, &mut d, d_states);
    if let Some(d_h0) = to.h0 {
        d_h0.copy_from_slice(&walked.dh);
    }
    let mut bias = vec![E::zero(); width];
    sum_columns(&mut bias, &d, width);
    write_bias(&bias, h, to.b_ih, to.b_hh);

    let dp = Mat::new(&d, rows, 3 * h, width);
    match (to.x, inputs.weights.w_ih) {
        (Some(dx), Some(w_ih)) => {
            let w_ih = Mat::new(w_ih, i, 3 * h, 3 * h).transposed();
            product(MatMut::new(dx, rows, i, i), Write::Set, dp, w_ih);
            for row in skipped(inputs) {
                dx[row * i..][..i].fill(E::zero());
            }
        }
        (Some(dx), None) => {
            let per_row = dx.chunks_exact_mut(3 * h).zip(d.chunks_exact(width));
            per_row.for_each(|(dx, d)| dx.copy_from_slice(&d[..3 * h]));
        }
        (None, _) => {}
    }
    if let Some(dw_ih) = to.w_ih {
        // What stands at a skipped step may be anything, and zero times that too.
        let mut x = inputs.sequence.x.to_vec();
        for row in skipped(inputs) {
            x[row * i..][..i].fill(E::zero());
        }
        let x = Mat::new(&x, rows, i, i).transposed();
        product(MatMut::new(dw_ih, i, 3 * h, 3 * h), Write::Set, x, dp);
    }
    if let Some(dw_hh) = to.w_hh {
        let g = recurrent_inputs(dims, spec, inputs, states);
        let (g, rg) = (Mat::new(&g, rows, h, h), Mat::new(&walked.rg, rows, h, h));
        // The n block of `dq` is `dn̄ ⊙ r`, behind `dp`, or `dn̄` itself.
        let (left, from) = match spec.reset {
            Reset::AfterMatmul => (g, 3 * h),
            Reset::BeforeMatmul => (rg, 2 * h),
        };
        let rz = Mat::new(&d, rows, 2 * h, width);
        let n = Mat::new(&d[from..], rows, h, width);
        for (left, right, from, count) in [(g, rz, 0, 2 * h), (left, n, 2 * h, h)] {
            let to = MatMut::new(&mut dw_hh[from..], h, count, 3 * h);
            product(to, Write::Set, left.transposed(), right);
        }
    }
}

/// The rows of a sequence that stand for skipped steps.
fn skipped<E: Float>(inputs: &Inputs<'_, E>) -> impl Iterator<Item = usize> {
    let valid = inputs.sequence.valid.unwrap_or(&[]).iter().enumerate();
    valid
        .filter(|(_, valid)| **valid == E::zero())
        .map(|(row, _)| row)
}

/// What the walk leaves beside the gradients of the pre-activations.
struct Walked<E> {
    /// Gradient of the initial state `[N,H]`.
    dh: Vec<E>,
    /// `r ⊙ g` of every row where the reset gate acts before the product.
    rg: Vec<E>,
}

/// Walks back through time: turns the gates in `saved` into the gradients of the pre-activations,
/// in place: `dr̄ | dz̄ | dn̄`, and `dn̄ ⊙ r` behind them where the reset gate acts after the product.
fn walk_back<E: Float>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: &mut [E],
    d_states: &[E],
) -> Walked<E> {
    let mut walked = Walked {
        dh: vec![E::zero(); dims.n * dims.h],
        rg: vec![E::zero(); states.len()],
    };
    let (rows, h) = (dims.n, dims.h);
    let width = spec.saved_per_unit() * h;
    let (place, time) = (dims.place(spec.layout), Time::new(dims, spec));
    let [gate_r, gate_z, gate_n] = gates(spec);
    let clip = spec.clip_state.map(real::<E>);
    let (zero, one) = (E::zero(), E::one());
    let zeros = vec![zero; h];

    let mut dq = vec![zero; rows * 3 * h];
    let mut dg = vec![zero; rows * h];
    let mut ds = match spec.reset {
        Reset::AfterMatmul => Vec::new(),
        Reset::BeforeMatmul => vec![zero; rows * h],
    };

    for s in (0..dims.t).rev() {
        let t = time.of(s);
        let previous = |k: usize| match s {
            0 => inputs
                .sequence
                .h0
                .map_or(&zeros[..], |h0| &h0[k * h..][..h]),
            _ => &states[place.row(k, time.of(s - 1)) * h..][..h],
        };

        // Through the blend: dh becomes the carry, dq holds dz̄ and dn̄.
        for k in 0..rows {
            let row = place.row(k, t);
            let dh = &mut walked.dh[k * h..][..h];
            for (dh, &d) in dh.iter_mut().zip(&d_states[row * h..][..h]) {
                *dh = *dh + d;
            }
            let gates = &mut saved[row * width..][..width];
            let dq = &mut dq[k * 3 * h..][..3 * h];
            if inputs
                .sequence
                .valid
                .is_some_and(|valid| valid[row] == zero)
            {
                // The state was carried on, so its gradient is too.
                gates.fill(zero);
                dq.fill(zero);
                continue;
            }
            let previous = previous(k);
            for j in 0..h {
                let (r, z, n) = (gates[j], gates[h + j], gates[2 * h + j]);
                let u = blend(spec.update, previous[j], z, n);
                let (d, past) = match inputs.sequence.take.map(|take| take[row * h + j]) {
                    Some(take) => (dh[j] * take, dh[j] * (one - take)),
                    None => (dh[j], zero),
                };
                let d = match clip {
                    Some(c) if u.abs() > c => zero,
                    _ => d,
                };
                let (dz, dn, carry) = match spec.update {
                    Update::Keeps => (d * (previous[j] - n), d * (one - z), d * z),
                    Update::Takes => (d * (n - previous[j]), d * z, d * (one - z)),
                };
                let (dz, dn) = (dz * gate_z.slope(z), dn * gate_n.slope(n));
                dh[j] = carry + past;
                gates[h + j] = dz;
                gates[2 * h + j] = dn;
                dq[h + j] = dz;
                match spec.reset {
                    Reset::AfterMatmul => {
                        let dr = dn * gates[3 * h + j] * gate_r.slope(r);
                        gates[j] = dr;
                        gates[3 * h + j] = dn * r;
                        dq[j] = dr;
                        dq[2 * h + j] = dn * r;
                    }
                    Reset::BeforeMatmul => dq[2 * h + j] = dn,
                }
            }
        }

        // Through the product.
        match spec.reset {
            Reset::AfterMatmul => through_weight(&mut dg, rows, h, &dq, inputs.weights.w_hh, 0..3),
            Reset::BeforeMatmul => {
                through_weight(&mut ds, rows, h, &dq, inputs.weights.w_hh, 2..3);
                for k in 0..rows {
                    let row = place.row(k, t);
                    let gates = &mut saved[row * width..][..width];
                    let skipped = inputs
                        .sequence
                        .valid
                        .is_some_and(|valid| valid[row] == zero);
                    let previous = previous(k);
                    for j in 0..h {
                        // `gates` of a skipped row were zeroed: so are r, dr̄ and r ⊙ g.
                        let r = gates[j];
                        let m = inputs.sequence.mask.map_or(one, |mask| mask[k * h + j]);
                        let g = m * previous[j];
                        let ds = &mut ds[k * h + j];
                        let dr = if skipped {
                            zero
                        } else {
                            *ds * g * gate_r.slope(r)
                        };
                        gates[j] = dr;
                        dq[k * 3 * h + j] = dr;
                        *ds = *ds * r;
                        walked.rg[row * h + j] = if skipped { zero } else { r * g };
                    }
                }
                through_weight(&mut dg, rows, h, &dq, inputs.weights.w_hh, 0..2);
                for (dg, &ds) in dg.iter_mut().zip(&ds) {
                    *dg = *dg + ds;
                }
            }
        }
        for (k, (dh, &dg)) in walked.dh.iter_mut().zip(&dg).enumerate() {
            // Zero times a weight need not be zero.
            let skipped =
                (inputs.sequence.valid).is_some_and(|valid| valid[place.row(k / h, t)] == zero);
            if !skipped {
                *dh = *dh + inputs.sequence.mask.map_or(dg, |mask| mask[k] * dg);
            }
        }
    }
    walked
}

/// `dg = dq[:, blocks]·w_hh[:, blocks]ᵀ`.
fn through_weight<E: Float>(
    dg: &mut [E],
    rows: usize,
    h: usize,
    dq: &[E],
    w_hh: &[E],
    blocks: std::ops::Range<usize>,
) {
    let (from, cols) = (blocks.start * h, blocks.len() * h);
    product(
        MatMut::new(dg, rows, h, h),
        Write::Set,
        Mat::new(&dq[from..], rows, cols, 3 * h),
        Mat::new(&w_hh[from..], h, cols, 3 * h).transposed(),
    );
}

/// The new state before its clip.
fn blend<E: Float>(update: Update, h: E, z: E, n: E) -> E {
    match update {
        Update::Keeps => z * h + (E::one() - z) * n,
        Update::Takes => (E::one() - z) * h + z * n,
    }
}

/// Reset after the product: from `gates` = [a_r, a_z, p_n] and q_n, the gates; q_n with its bias
/// is kept behind them where the row has room.
fn finish_after<E: Float>(
    gate: &[Gate; 3],
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
fn recurrent_product<E: Float>(
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

fn add<E: Float>(to: &mut [E], from: &[E]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = *to + from;
    }
}

fn multiply<E: Float>(to: &mut [E], by: &[E]) {
    for (to, &by) in to.iter_mut().zip(by) {
        *to = *to * by;
    }
}

/// Column sums of rows `stride` apart, in pairs of halves, so that the rounding error grows with
/// the logarithm of the number of rows.
fn sum_columns<E: Float>(to: &mut [E], rows: &[E], stride: usize) {
    let (cols, count) = (to.len(), rows.len().div_ceil(stride));
    if count <= 32 {
        to.fill(E::zero());
        for row in rows.chunks(stride) {
            for (to, &d) in to.iter_mut().zip(row) {
                *to = *to + d;
            }
        }
        return;
    }
    let (low, high) = rows.split_at(count / 2 * stride);
    sum_columns(to, low, stride);
    let mut rest = vec![E::zero(); cols];
    sum_columns(&mut rest, high, stride);
    for (to, &d) in to.iter_mut().zip(&rest) {
        *to = *to + d;
    }
}
