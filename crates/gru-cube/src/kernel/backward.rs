//! The backward sequence kernel: one launch computes the gradients of all steps.

use super::{
    gate::gate_slope,
    product::{load_weight, multiply},
    rule::{Pass, Starts},
    sequence::{SequenceKernel, zero_vectors},
    step::blend_back,
    tensors::{
        Backward, code_of, from_end, kept_share, mask_of, place_at, previous_state, skips, starts,
        strides, time_of,
    },
};
use cubecl::prelude::*;

/// Values that a step reads for each row and hidden unit: r, z, n, q_n, the previous state, the upstream
/// gradient, and the code ([`code_of`]).
const READ: usize = 7;

/// Values that a thread keeps for the columns it owns: `[c·rows + b]`.
#[derive(CubeType)]
struct Owned {
    /// Gradient of the state.
    dh: Array<f32>,
    /// Gradient of the start state, if there is one.
    d_start: ComptimeOption<Array<f32>>,
    /// Recurrent mask.
    mask: Array<f32>,
}

/// Values of a step that its products need: `[c·rows + b]`.
#[derive(CubeType)]
struct Step {
    r: Array<f32>,
    /// The masked previous state.
    g: Array<f32>,
    /// See [`code_of`].
    code: Array<f32>,
}

/// Steps `first..last` of a [backward pass](crate::Buffers::Backward), from the last to the first. `d_h0` hands the gradient of the
/// state before step `first`, and the gradient of the start state, from one launch to the next.
#[cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")]
pub(crate) fn gru_backward_sequence<F: Float, R: Size>(
    args: &mut Backward<F>,
    first: u32,
    last: u32,
    #[comptime] kernel: SequenceKernel,
    #[define(F)] _dtype: ElemType,
) {
    let (rule, threads) = comptime!((kernel.rule, kernel.threads));
    let (rows, owned_columns) = comptime!((threads.rows, threads.owned()));
    let (gates_product, candidate) = comptime!(kernel.products(Pass::Backward));
    let lhs_vectors = comptime!(kernel.lhs_vectors(Pass::Backward));
    let lhs_n_vectors = comptime!(kernel.lhs_n_vectors(Pass::Backward));

    let mut lhs = Shared::<[Vector<f32, R>]>::new_slice(comptime!(kernel.buffers * lhs_vectors));
    let mut lhs_n = Shared::<[Vector<f32, R>]>::new_slice(lhs_n_vectors);
    let mut partial =
        Shared::<[Vector<f32, R>]>::new_slice(comptime!(kernel.partial_vectors(Pass::Backward)));
    let weight = load_weight::<F>(args.weight, 0usize.runtime(), gates_product, threads);
    let weight_n = load_weight::<F>(args.weight, 0usize.runtime(), candidate, threads);

    // Rows of the lhs from K on stay zero.
    zero_vectors::<R>(&mut lhs, comptime!(kernel.buffers * lhs_vectors), threads);
    zero_vectors::<R>(&mut lhs_n, lhs_n_vectors, threads);
    sync_cube();

    let (first, last) = (first as usize, last as usize);
    let mut owned = load_owned::<F>(&*args, last, kernel);
    let mut now = read_step::<F>(&*args, last - 1, kernel);
    for back in args.t - last..args.t - first {
        let s = from_end(back, args.t);
        let time = time_of(s, args.t, rule);
        let to = if comptime!(kernel.buffers == 2) {
            (s % 2) * lhs_vectors
        } else {
            0usize.runtime()
        };
        let step = through_blend::<F, R>(
            args, &mut owned, &now, &mut lhs, &mut lhs_n, to, time, kernel,
        );
        sync_cube();

        // Loaded before the products, which hide their latency. If `d_gates` replace the gates, these are
        // steps that are not written yet. After step `first` the values are not used.
        let next = read_step::<F>(&*args, max(s, 1) - 1, kernel);

        if comptime!(!rule.reset_after) {
            // dr̄ needs the product of the candidate.
            let zero = 0usize.runtime();
            let ds = multiply::<F, R>(
                &lhs_n,
                zero,
                args.weight,
                &weight_n,
                &mut partial,
                candidate,
                threads,
            );
            through_candidate::<F, R>(args, &mut owned, &step, &ds, &mut lhs, time, kernel);
            sync_cube();
        }

        let dg = multiply::<F, R>(
            &lhs,
            to,
            args.weight,
            &weight,
            &mut partial,
            gates_product,
            threads,
        );
        #[unroll]
        for c in 0..owned_columns {
            #[unroll]
            for b in 0..rows {
                let at = comptime!(c * rows + b);
                let (v, w) = comptime!((b / threads.width, b % threads.width));
                let through = owned.mask[at] * dg[comptime!(c * threads.vectors() + v)].extract(w);
                owned.dh[at] += select(skips(step.code[at], rule.starts), 0.0f32, through);
                if comptime!(rule.starts != Starts::None) {
                    let starts = starts(step.code[at]);
                    #[comptime]
                    if let ComptimeOption::Some(d_start) = owned.d_start.as_mut() {
                        d_start[at] += select(starts, owned.dh[at], 0.0f32);
                    }
                    owned.dh[at] = select(starts, 0.0f32, owned.dh[at]);
                }
            }
        }
        #[unroll]
        for i in 0..comptime!(owned_columns * rows * READ) {
            now[i] = next[i];
        }
        // A fast thread must not overwrite the lhs that a slow thread still reads.
        if comptime!(kernel.buffers == 1 && threads.k_splits == 1) {
            sync_cube();
        }
    }

    #[unroll]
    for c in 0..owned_columns {
        let j = UNIT_POS as usize + c * comptime!(threads.count());
        #[unroll]
        for b in 0..rows {
            let row = CUBE_POS * rows + b;
            if j < comptime!(rule.hidden) && row < args.n {
                args.d_h0[row * comptime!(rule.hidden) + j] = owned.dh[comptime!(c * rows + b)];
                #[comptime]
                if let ComptimeOption::Some(d_start) = &owned.d_start {
                    args.d_h0[(args.n + row) * comptime!(rule.hidden) + j] =
                        d_start[comptime!(c * rows + b)];
                }
            }
        }
    }
}

/// Loads the mask, and what the launch of the steps from `last` on has handed over.
#[cube]
fn load_owned<F: Float>(
    args: &Backward<F>,
    last: usize,
    #[comptime] kernel: SequenceKernel,
) -> Owned {
    let (threads, hidden) = comptime!((kernel.threads, kernel.rule.hidden));
    let (rows, columns) = comptime!((threads.rows, threads.owned()));
    let mut dh = Array::<f32>::new(comptime!(columns * rows));
    let mut mask = Array::<f32>::new(comptime!(columns * rows));
    #[unroll]
    for c in 0..columns {
        let j = min(
            UNIT_POS as usize + c * comptime!(threads.count()),
            comptime!(hidden - 1),
        );
        #[unroll]
        for b in 0..rows {
            let at = comptime!(c * rows + b);
            let row = min(CUBE_POS * rows + b, args.n - 1);
            dh[at] = handed_over::<F>(args, row * hidden + j, last);
            mask[at] = mask_of::<F>(args.recurrent_mask, row * hidden + j);
        }
    }
    let d_start = load_start::<F>(args, last, kernel);
    Owned { dh, d_start, mask }
}

/// The gradient of the start state, if there is one.
#[cube]
fn load_start<F: Float>(
    args: &Backward<F>,
    last: usize,
    #[comptime] kernel: SequenceKernel,
) -> ComptimeOption<Array<f32>> {
    let (threads, hidden) = comptime!((kernel.threads, kernel.rule.hidden));
    let (rows, columns) = comptime!((threads.rows, threads.owned()));
    if comptime!(kernel.rule.starts == Starts::FromState) {
        let mut d_start = Array::<f32>::new(comptime!(columns * rows));
        #[unroll]
        for c in 0..columns {
            let j = min(
                UNIT_POS as usize + c * comptime!(threads.count()),
                comptime!(hidden - 1),
            );
            #[unroll]
            for b in 0..rows {
                let row = args.n + min(CUBE_POS * rows + b, args.n - 1);
                d_start[comptime!(c * rows + b)] = handed_over::<F>(args, row * hidden + j, last);
            }
        }
        ComptimeOption::new_Some(d_start)
    } else {
        ComptimeOption::new_None()
    }
}

/// A value of `d_h0` that another launch has written: 0 before the last step.
#[cube]
fn handed_over<F: Float>(args: &Backward<F>, at: usize, last: usize) -> f32 {
    select(last < args.t, args.d_h0[at], 0.0f32)
}

/// Reads what step `s` needs: `[(c·rows + b)·READ + …]` for the columns `c` that a thread owns.
#[cube]
fn read_step<F: Float>(
    args: &Backward<F>,
    s: usize,
    #[comptime] kernel: SequenceKernel,
) -> Array<f32> {
    let (rule, threads, hidden) = comptime!((kernel.rule, kernel.threads, kernel.rule.hidden));
    let (rows, columns) = comptime!((threads.rows, threads.owned()));
    let (n_stride, t_stride) = strides(args.n, args.t, rule);
    let time = time_of(s, args.t, rule);
    let mut read = Array::<f32>::new(comptime!(columns * rows * READ));
    #[unroll]
    for c in 0..columns {
        let j = min(
            UNIT_POS as usize + c * comptime!(threads.count()),
            comptime!(hidden - 1),
        );
        #[unroll]
        for b in 0..rows {
            let to = comptime!((c * rows + b) * READ);
            let of_batch = min(CUBE_POS * rows + b, args.n - 1);
            let row = of_batch * n_stride + time * t_stride;
            #[unroll]
            for gate in 0..comptime!(rule.saved()) {
                let at = (row * comptime!(rule.saved()) + gate) * hidden + j;
                read[comptime!(to + gate)] = f32::cast_from(args.gates[at]);
            }
            let place = place_at(s, of_batch, j);
            let (states, h0, step_mask) = (args.states, args.h0, args.step_mask);
            read[comptime!(to + 4)] =
                previous_state::<F>(states, h0, step_mask, place, args.n, args.t, rule);
            read[comptime!(to + 5)] = f32::cast_from(args.d_states[row * hidden + j]);
            read[comptime!(to + 6)] = code_of::<F>(args.step_mask, row);
        }
    }
    read
}

/// From the gradient of the state through the blend. Stores the gradients of the gates and the lhs of the
/// products.
#[cube]
#[allow(clippy::too_many_arguments)]
fn through_blend<F: Float, R: Size>(
    args: &mut Backward<F>,
    owned: &mut Owned,
    now: &Array<f32>,
    lhs: &mut Shared<[Vector<f32, R>]>,
    lhs_n: &mut Shared<[Vector<f32, R>]>,
    to: usize,
    time: usize,
    #[comptime] kernel: SequenceKernel,
) -> Step {
    let (rule, threads, hidden) = comptime!((kernel.rule, kernel.threads, kernel.rule.hidden));
    let (rows, width, vectors) = comptime!((threads.rows, threads.width, threads.vectors()));
    let columns = comptime!(threads.owned());
    let (n_stride, t_stride) = strides(args.n, args.t, rule);
    let row0 = CUBE_POS * rows;
    let mut r_of = Array::<f32>::new(comptime!(columns * rows));
    let mut g_of = Array::<f32>::new(comptime!(columns * rows));
    let mut code = Array::<f32>::new(comptime!(columns * rows));
    #[unroll]
    for c in 0..columns {
        let j = UNIT_POS as usize + c * comptime!(threads.count());
        let safe_j = min(j, comptime!(hidden - 1));
        #[unroll]
        for v in 0..vectors {
            let mut lhs_r = Vector::<f32, R>::new(0.0);
            let mut lhs_z = Vector::<f32, R>::new(0.0);
            let mut lhs_dn = Vector::<f32, R>::new(0.0);
            #[unroll]
            for w in 0..width {
                let b = comptime!(v * width + w);
                let at = comptime!(c * rows + b);
                let row = min(row0 + b, args.n - 1) * n_stride + time * t_stride;
                let gate = row * comptime!(rule.saved() * hidden) + safe_j;
                let from = comptime!(at * READ);
                let r = now[from];
                let z = now[comptime!(from + 1)];
                let new = now[comptime!(from + 2)];
                let previous = now[comptime!(from + 4)];
                let skips = skips(now[comptime!(from + 6)], rule.starts);
                let d = owned.dh[at] + now[comptime!(from + 5)];
                let kept = kept_share::<F>(args.zoneout, row, safe_j, rule);
                let back = blend_back(d, previous, z, new, kept, skips, rule);
                owned.dh[at] = back.dh;
                r_of[at] = r;
                g_of[at] = owned.mask[at] * previous;
                code[at] = now[comptime!(from + 6)];
                let inside = j < hidden && row0 + b < args.n;
                if inside {
                    args.d_gates[gate + hidden] = F::cast_from(back.dz);
                    args.d_gates[gate + comptime!(2 * hidden)] = F::cast_from(back.dn);
                }
                lhs_z.insert(w, back.dz);
                if comptime!(rule.reset_after) {
                    let q_n = now[comptime!(from + 3)];
                    let dr = back.dn * q_n * gate_slope(r, comptime!(rule.r));
                    let dr = select(skips, 0.0f32, dr);
                    let dq_n = select(skips, 0.0f32, back.dn * r);
                    if inside {
                        args.d_gates[gate] = F::cast_from(dr);
                        args.d_gates[gate + comptime!(3 * hidden)] = F::cast_from(dq_n);
                    }
                    lhs_r.insert(w, dr);
                    lhs_dn.insert(w, dq_n);
                } else {
                    lhs_dn.insert(w, back.dn);
                }
            }
            if j < hidden {
                lhs[to + (hidden + j) * vectors + v] = lhs_z;
                if comptime!(rule.reset_after) {
                    lhs[to + j * vectors + v] = lhs_r;
                    lhs[to + (comptime!(2 * hidden) + j) * vectors + v] = lhs_dn;
                } else {
                    lhs_n[j * vectors + v] = lhs_dn;
                }
            }
        }
    }
    Step {
        r: r_of,
        g: g_of,
        code,
    }
}

/// Reset before the product: from `ds`, the gradient of `r ⊙ g`, to dr̄ and the gradient of the state.
#[cube]
fn through_candidate<F: Float, R: Size>(
    args: &mut Backward<F>,
    owned: &mut Owned,
    step: &Step,
    ds: &Array<Vector<f32, R>>,
    lhs: &mut Shared<[Vector<f32, R>]>,
    time: usize,
    #[comptime] kernel: SequenceKernel,
) {
    let (rule, threads, hidden) = comptime!((kernel.rule, kernel.threads, kernel.rule.hidden));
    let (rows, width, vectors) = comptime!((threads.rows, threads.width, threads.vectors()));
    let (n_stride, t_stride) = strides(args.n, args.t, rule);
    let row0 = CUBE_POS * rows;
    #[unroll]
    for c in 0..comptime!(threads.owned()) {
        let j = UNIT_POS as usize + c * comptime!(threads.count());
        #[unroll]
        for v in 0..vectors {
            let mut lhs_r = Vector::<f32, R>::new(0.0);
            #[unroll]
            for w in 0..width {
                let b = comptime!(v * width + w);
                let at = comptime!(c * rows + b);
                let r = step.r[at];
                let ds = ds[comptime!(c * vectors + v)].extract(w);
                let dr = ds * step.g[at] * gate_slope(r, comptime!(rule.r));
                let skips = skips(step.code[at], rule.starts);
                let dr = select(skips, 0.0f32, dr);
                let through = select(skips, 0.0f32, ds * r);
                owned.dh[at] += owned.mask[at] * through;
                if j < hidden && row0 + b < args.n {
                    let row = (row0 + b) * n_stride + time * t_stride;
                    args.d_gates[row * comptime!(rule.saved() * hidden) + j] = F::cast_from(dr);
                }
                lhs_r.insert(w, dr);
            }
            if j < hidden {
                lhs[j * vectors + v] = lhs_r;
            }
        }
    }
}
