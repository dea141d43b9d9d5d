//! The forward sequence kernel: one launch computes all steps.

use super::{
    gate::gate_value,
    product::{load_weight, multiply},
    rule::{Pass, Starts},
    sequence::{SequenceKernel, zero_vectors},
    step::{candidate, next_state},
    tensors::{
        Forward, after_start, biases, kept_share, mask_of, place_at, previous_state, strides,
        time_of, unless_skipped, up, window,
    },
};
use cubecl::prelude::*;

/// Values that a thread keeps for the columns it owns.
#[derive(CubeType)]
struct Owned {
    /// State and recurrent mask: `[c·rows + b]`.
    state: Array<f32>,
    mask: Array<f32>,
    /// Added to `p`: `[c·3 + gate]`.
    bias: Array<f32>,
    /// Added to the recurrent product of the candidate: `[c]`.
    bias_n: Array<f32>,
}

/// Steps `first..last` of a [forward pass](crate::Buffers::Forward).
#[cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")]
pub(crate) fn gru_forward_sequence<F: Float, R: Size>(
    args: &mut Forward<F>,
    first: u32,
    last: u32,
    #[comptime] kernel: SequenceKernel,
    #[define(F)] _dtype: ElemType,
) {
    let (rule, threads) = comptime!((kernel.rule, kernel.threads));
    let (gates_product, candidate_product) = comptime!(kernel.products(Pass::Forward));
    let lhs_vectors = comptime!(kernel.lhs_vectors(Pass::Forward));

    let mut lhs = Shared::<[Vector<f32, R>]>::new_slice(comptime!(kernel.buffers * lhs_vectors));
    let mut lhs_n =
        Shared::<[Vector<f32, R>]>::new_slice(comptime!(kernel.lhs_n_vectors(Pass::Forward)));
    let mut partial =
        Shared::<[Vector<f32, R>]>::new_slice(comptime!(kernel.partial_vectors(Pass::Forward)));
    let weight = load_weight::<F>(args.w_hh, 0usize.runtime(), gates_product, threads);
    let weight_n = load_weight::<F>(args.w_hh, 0usize.runtime(), candidate_product, threads);

    // Rows of the lhs from H on stay zero.
    zero_vectors::<R>(&mut lhs, comptime!(kernel.buffers * lhs_vectors), threads);
    if comptime!(!rule.reset_after) {
        zero_vectors::<R>(&mut lhs_n, lhs_vectors, threads);
    }
    sync_cube();
    let first_step = first as usize;
    let mut owned = load_owned::<F, R>(&*args, &mut lhs, first_step, kernel);
    let mut p = load_p::<F>(&*args, time_of(first_step, args.t, rule), kernel);
    sync_cube();

    for s in first_step..last as usize {
        let time = time_of(up(s, last), args.t, rule);
        let from = if comptime!(kernel.buffers == 2) {
            ((s - first_step) % 2) * lhs_vectors
        } else {
            0usize.runtime()
        };
        let to = if comptime!(kernel.buffers == 2) {
            lhs_vectors - from
        } else {
            0usize.runtime()
        };

        // Loaded one step before it is used. A short product would not hide the latency.
        let next = load_p::<F>(&*args, time_of(up(s + 1, last), args.t, rule), kernel);
        let q = multiply::<F, R>(
            &lhs,
            from,
            args.w_hh,
            &weight,
            &mut partial,
            gates_product,
            threads,
        );
        if comptime!(kernel.buffers == 1 && threads.k_splits == 1 && rule.reset_after) {
            sync_cube();
        }

        let a = with_bias(&p, &owned, kernel);
        let (r, z) = reset_and_update::<R>(&a, &q, &owned, &mut lhs_n, kernel);
        let q_n = if comptime!(rule.reset_after) {
            candidate_sums::<R>(&q, kernel)
        } else {
            sync_cube();
            let zero = 0usize.runtime();
            multiply::<F, R>(
                &lhs_n,
                zero,
                args.w_hh,
                &weight_n,
                &mut partial,
                candidate_product,
                threads,
            )
        };
        let gates = Gates::<R> { a, r, z, q_n };
        let now = Now { s, time, to };
        store_step::<F, R>(args, &mut owned, &gates, &mut lhs, now, kernel);
        #[unroll]
        for i in 0..comptime!(threads.owned() * threads.rows * 3) {
            p[i] = next[i];
        }
        sync_cube();
    }
}

/// Loads mask, biases and the state before step `first`, and stores their lhs.
#[cube]
fn load_owned<F: Float, R: Size>(
    args: &Forward<F>,
    lhs: &mut Shared<[Vector<f32, R>]>,
    first: usize,
    #[comptime] kernel: SequenceKernel,
) -> Owned {
    let (rule, threads, hidden) = comptime!((kernel.rule, kernel.threads, kernel.rule.hidden));
    let (rows, width, vectors, columns) = comptime!((
        threads.rows,
        threads.width,
        threads.vectors(),
        threads.owned()
    ));
    let thread = UNIT_POS as usize;
    let row0 = CUBE_POS * rows;
    let mut state = Array::<f32>::new(comptime!(columns * rows));
    let mut mask = Array::<f32>::new(comptime!(columns * rows));
    let mut bias = Array::<f32>::new(comptime!(columns * 3));
    let mut bias_n = Array::<f32>::new(columns);
    #[unroll]
    for c in 0..columns {
        let j = min(
            thread + c * comptime!(threads.count()),
            comptime!(hidden - 1),
        );
        let of_column = biases::<F>(args.b_ih, args.b_hh, j, rule);
        #[unroll]
        for gate in 0..3usize {
            bias[comptime!(c * 3 + gate)] = of_column[gate];
        }
        bias_n[c] = of_column[3];
        #[unroll]
        for v in 0..vectors {
            let mut g = Vector::<f32, R>::new(0.0);
            #[unroll]
            for w in 0..width {
                let b = comptime!(v * width + w);
                let at = comptime!(c * rows + b);
                let row = min(row0 + b, args.n - 1);
                let place = place_at(first, row, j);
                state[at] = previous_state::<F>(
                    &*args.states,
                    args.h0,
                    args.step_mask,
                    place,
                    args.n,
                    args.t,
                    rule,
                );
                mask[at] = mask_of::<F>(args.recurrent_mask, row * hidden + j);
                g.insert(w, mask[at] * state[at]);
            }
            if thread + c * comptime!(threads.count()) < hidden {
                lhs[j * vectors + v] = g;
            }
        }
    }
    Owned {
        state,
        mask,
        bias,
        bias_n,
    }
}

/// `p` of a step: `[(c·rows + b)·3 + gate]`.
#[cube]
fn load_p<F: Float>(
    args: &Forward<F>,
    time: usize,
    #[comptime] kernel: SequenceKernel,
) -> Array<f32> {
    let (rule, threads, hidden) = comptime!((kernel.rule, kernel.threads, kernel.rule.hidden));
    let (rows, columns) = comptime!((threads.rows, threads.owned()));
    let (p_from, p_steps) = window(args.t, args.first, args.last, rule);
    let (n_stride, t_stride) = strides(args.n, p_steps, rule);
    let mut p = Array::<f32>::new(comptime!(columns * rows * 3));
    #[unroll]
    for c in 0..columns {
        let j = min(
            UNIT_POS as usize + c * comptime!(threads.count()),
            comptime!(hidden - 1),
        );
        #[unroll]
        for b in 0..rows {
            let row = min(CUBE_POS * rows + b, args.n - 1) * n_stride + (time - p_from) * t_stride;
            #[unroll]
            for gate in 0..3usize {
                p[comptime!((c * rows + b) * 3 + gate)] =
                    f32::cast_from(args.p[row * comptime!(3 * hidden) + gate * hidden + j]);
            }
        }
    }
    p
}

/// `p + b`.
#[cube]
fn with_bias(p: &Array<f32>, owned: &Owned, #[comptime] kernel: SequenceKernel) -> Array<f32> {
    let rows = comptime!(kernel.threads.rows);
    let len = comptime!(kernel.threads.owned() * rows * 3);
    let mut a = Array::<f32>::new(len);
    #[unroll]
    for i in 0..len {
        a[i] = p[i] + owned.bias[comptime!(i / 3 / rows * 3 + i % 3)];
    }
    a
}

/// What a step computes before the candidate.
#[derive(CubeType)]
struct Gates<R: Size> {
    /// `p + b`: `[(c·rows + b)·3 + gate]`.
    a: Array<f32>,
    /// `[c·rows + b]`.
    r: Array<f32>,
    z: Array<f32>,
    /// Recurrent product of the candidate: `[c·vectors + v]`.
    q_n: Array<Vector<f32, R>>,
}

/// The gates r and z: `[c·rows + b]`. If the reset comes before the product, also stores `r ⊙ g`, the lhs
/// of the candidate's product.
#[cube]
fn reset_and_update<R: Size>(
    a: &Array<f32>,
    q: &Array<Vector<f32, R>>,
    owned: &Owned,
    lhs_n: &mut Shared<[Vector<f32, R>]>,
    #[comptime] kernel: SequenceKernel,
) -> (Array<f32>, Array<f32>) {
    let (rule, threads) = comptime!((kernel.rule, kernel.threads));
    let (rows, width, vectors) = comptime!((threads.rows, threads.width, threads.vectors()));
    let (columns, outputs) = comptime!((threads.owned(), kernel.products(Pass::Forward).0.outputs));
    let mut z_of = Array::<f32>::new(comptime!(columns * rows));
    let mut r_of = Array::<f32>::new(comptime!(columns * rows));
    #[unroll]
    for c in 0..columns {
        let j = UNIT_POS as usize + c * comptime!(threads.count());
        #[unroll]
        for v in 0..vectors {
            let mut rg = Vector::<f32, R>::new(0.0);
            #[unroll]
            for w in 0..width {
                let at = comptime!(c * rows + v * width + w);
                let q_r = q[comptime!((c * outputs) * vectors + v)].extract(w);
                let q_z = q[comptime!((c * outputs + 1) * vectors + v)].extract(w);
                let r = gate_value(a[comptime!(at * 3)] + q_r, comptime!(rule.r));
                z_of[at] = gate_value(a[comptime!(at * 3 + 1)] + q_z, comptime!(rule.z));
                r_of[at] = r;
                rg.insert(w, r * owned.mask[at] * owned.state[at]);
            }
            if comptime!(!rule.reset_after) {
                if j < comptime!(rule.hidden) {
                    lhs_n[j * vectors + v] = rg;
                }
            }
        }
    }
    (r_of, z_of)
}

/// The candidate's part of the product of all gates.
#[cube]
fn candidate_sums<R: Size>(
    q: &Array<Vector<f32, R>>,
    #[comptime] kernel: SequenceKernel,
) -> Array<Vector<f32, R>> {
    let (vectors, columns) = comptime!((kernel.threads.vectors(), kernel.threads.owned()));
    let mut q_n = Array::<Vector<f32, R>>::new(comptime!(columns * vectors));
    #[unroll]
    for c in 0..columns {
        #[unroll]
        for v in 0..vectors {
            q_n[comptime!(c * vectors + v)] = q[comptime!((c * 3 + 2) * vectors + v)];
        }
    }
    q_n
}

/// A step, its index in time, and where in shared memory the lhs of the next step is stored.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct Now {
    s: usize,
    time: usize,
    to: usize,
}

/// Computes candidate and state, and stores gates, state and the lhs of the next step.
#[cube]
fn store_step<F: Float, R: Size>(
    args: &mut Forward<F>,
    owned: &mut Owned,
    gates: &Gates<R>,
    lhs: &mut Shared<[Vector<f32, R>]>,
    now: Now,
    #[comptime] kernel: SequenceKernel,
) {
    let Now { s, time, to } = now;
    let (rule, threads, hidden) = comptime!((kernel.rule, kernel.threads, kernel.rule.hidden));
    let (rows, width, vectors) = comptime!((threads.rows, threads.width, threads.vectors()));
    let (n_stride, t_stride) = strides(args.n, args.t, rule);
    let row0 = CUBE_POS * rows;
    #[unroll]
    for c in 0..comptime!(threads.owned()) {
        let j = UNIT_POS as usize + c * comptime!(threads.count());
        #[unroll]
        for v in 0..vectors {
            let mut g = Vector::<f32, R>::new(0.0);
            #[unroll]
            for w in 0..width {
                let b = comptime!(v * width + w);
                let at = comptime!(c * rows + b);
                let q_n = gates.q_n[comptime!(c * vectors + v)].extract(w) + owned.bias_n[c];
                let (r, z) = (gates.r[at], gates.z[at]);
                let new = candidate(gates.a[comptime!(at * 3 + 2)], q_n, r, rule);
                let row = min(row0 + b, args.n - 1) * n_stride + time * t_stride;
                let safe_j = min(j, comptime!(hidden - 1));
                let kept = kept_share::<F>(args.zoneout, row, safe_j, rule);
                let next = next_state(owned.state[at], z, new, kept, rule);
                let next = unless_skipped::<F>(args.step_mask, row, next, owned.state[at], rule);
                let carried = if comptime!(rule.starts == Starts::None) {
                    next
                } else {
                    // After the last step the value is not used.
                    let after = min(s + 1, args.t - 1);
                    let place = place_at(after, min(row0 + b, args.n - 1), safe_j);
                    after_start::<F>(next, args.h0, args.step_mask, place, args.n, args.t, rule)
                };
                owned.state[at] = carried;
                g.insert(w, owned.mask[at] * carried);
                if j < hidden && row0 + b < args.n {
                    args.states[row * hidden + j] = F::cast_from(next);
                    #[comptime]
                    if let ComptimeOption::Some(gates) = args.gates.as_mut() {
                        let at = row * comptime!(rule.saved() * hidden) + j;
                        gates[at] = F::cast_from(r);
                        gates[at + hidden] = F::cast_from(z);
                        gates[at + comptime!(2 * hidden)] = F::cast_from(new);
                        if comptime!(rule.reset_after) {
                            gates[at + comptime!(3 * hidden)] = F::cast_from(q_n);
                        }
                    }
                }
            }
            if j < hidden {
                lhs[to + j * vectors + v] = g;
            }
        }
    }
}
