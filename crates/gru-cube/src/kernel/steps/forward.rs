//! The forward pass by step kernels.

use super::{
    Phase, StepMemory, Steps, Tile, Weight, accumulate_block, no_time_out, step_memory,
    step_weight, tile_results, tile_sums,
};
use crate::kernel::{
    gate::gate_value,
    grid_barrier::{grid_barrier, poison},
    lhs::{next_block, prefetch_position, store_tile},
    product::{Block, pair},
    rule::{Pass, Rule},
    step::{candidate, next_state},
    tensors::{
        Forward, Place, after_start, biases, kept_share, masked, place_at, previous_state,
        stored_state, strides, time_of, unless_skipped, up, window,
    },
};
use cubecl::prelude::*;

/// Steps `first..last` of a [forward pass](crate::Buffers::Forward). In a persistent kernel the cubes of the same rows
/// synchronize at a counter of `barriers`, which starts at zero. Matrix units multiply values of type `M`.
#[cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")]
pub(crate) fn gru_forward_step<F: Float, M: Float, R: Size>(
    args: &mut Forward<F>,
    barriers: ComptimeOption<&[Atomic<u32>]>,
    first: u32,
    last: u32,
    #[comptime] steps: Steps,
    #[define(F)] _dtype: ElemType,
    #[define(M)] _factors: ElemType,
) {
    let (rule, threads) = comptime!((steps.rule, steps.threads));
    let (first_product, second_product) = comptime!(steps.products(Pass::Forward));
    let j0 = CUBE_POS_X as usize * comptime!(threads.columns);

    let mut memory = step_memory::<M, R>(first_product, steps);
    let mut weights = Sequence::<Weight<M>>::new();
    weights.push(step_weight::<F, M>(args.w_hh, j0, first_product, threads));
    weights.push(step_weight::<F, M>(args.w_hh, j0, second_product, threads));
    let mut timed_out = no_time_out(steps);
    let bias = pair_biases::<F>(&*args, j0, steps);

    for s in first as usize..last as usize {
        let time = time_of(up(s, last), args.t, rule);
        #[unroll]
        for index in 0..comptime!(steps.count()) {
            let phase = comptime!(steps.phase(index));
            let len = comptime!(steps.product(Pass::Forward, phase).prefetch_len(&threads));
            let mut prefetched = Array::<f32>::new(len);
            let mut row0 = CUBE_POS_Y as usize * threads.rows;
            let start = place_at(s, row0, 0usize.runtime());
            prefetch_lhs::<F>(&mut prefetched, args, start, phase, steps);
            while row0 < args.rows {
                let next_row0 = row0 + CUBE_COUNT_Y as usize * threads.rows;
                let tile = Tile {
                    s,
                    row0,
                    next_row0,
                    j0,
                };
                // Loaded before the product, which hides their latency.
                let read = read_pairs::<F>(args, &bias, tile, time, phase, steps);
                let q = multiply_tile::<F, M, R>(
                    args,
                    &mut prefetched,
                    &mut memory,
                    weights.index(index),
                    tile,
                    phase,
                    steps,
                );
                store_pairs::<F>(args, &read, &q, &timed_out, tile, time, phase, steps);
                row0 = next_row0;
            }
            #[comptime]
            if let ComptimeOption::Some(barriers) = &barriers {
                let per_step = comptime!(steps.count() as u32);
                let done = (s as u32 - first) * per_step + comptime!(index as u32 + 1);
                if done < (last - first) * per_step {
                    let counter = &barriers[CUBE_POS_Y as usize];
                    grid_barrier(counter, CUBE_COUNT_X * done, &mut timed_out);
                }
            }
        }
    }
}

/// The biases of the pairs that a thread owns: `[i·4 + gate]`.
#[cube]
fn pair_biases<F: Float>(args: &Forward<F>, j0: usize, #[comptime] steps: Steps) -> Array<f32> {
    let (rule, threads) = comptime!((steps.rule, steps.threads));
    let mut bias = Array::<f32>::new(comptime!(threads.pairs() * 4));
    #[unroll]
    for i in 0..comptime!(threads.pairs()) {
        // Pairs of the same column have the same biases.
        let from = comptime!(if threads.owns_its_sums() {
            i / threads.rows * threads.rows
        } else {
            i
        });
        if comptime!(from == i) {
            let (_, column) = pair(i, threads);
            let j = min(j0 + column, comptime!(rule.hidden - 1));
            let of_column = biases::<F>(args.b_ih, args.b_hh, j, rule);
            #[unroll]
            for gate in 0..4usize {
                bias[comptime!(i * 4 + gate)] = of_column[gate];
            }
        } else {
            #[unroll]
            for gate in 0..4usize {
                bias[comptime!(i * 4 + gate)] = bias[comptime!(from * 4 + gate)];
            }
        }
    }
    bias
}

/// Values that the gates of a thread's pairs read.
#[derive(CubeType)]
struct Read {
    /// `p + b` of the gates of the phase: `[i·outputs + out]`.
    a: Array<f32>,
    previous: Array<f32>,
    /// In the second phase, z of the first.
    z: Array<f32>,
    /// Added to the recurrent product of the candidate.
    bias_n: Array<f32>,
}

#[cube]
fn read_pairs<F: Float>(
    args: &mut Forward<F>,
    bias: &Array<f32>,
    tile: Tile,
    time: usize,
    #[comptime] phase: Phase,
    #[comptime] steps: Steps,
) -> Read {
    let (rule, threads, hidden) = comptime!((steps.rule, steps.threads, steps.rule.hidden));
    let (pairs, outputs) =
        comptime!((threads.pairs(), steps.product(Pass::Forward, phase).outputs));
    let first_gate = comptime!(if phase == Phase::Second { 2 } else { 0 });
    let (p_from, p_steps) = window(args.t, args.first, args.last, rule);
    let (n_stride, t_stride) = strides(args.n, p_steps, rule);
    let mut a = Array::<f32>::new(comptime!(pairs * outputs));
    let mut previous = Array::<f32>::new(pairs);
    let mut z = Array::<f32>::new(pairs);
    let mut bias_n = Array::<f32>::new(pairs);
    #[unroll]
    for i in 0..pairs {
        let (b, column) = pair(i, threads);
        let row = min(tile.row0 + b, args.n - 1);
        let j = min(tile.j0 + column, comptime!(hidden - 1));
        let of_p = row * n_stride + (time - p_from) * t_stride;
        #[unroll]
        for out in 0..outputs {
            let gate = comptime!(first_gate + out);
            a[comptime!(i * outputs + out)] =
                f32::cast_from(args.p[of_p * comptime!(3 * hidden) + gate * hidden + j])
                    + bias[comptime!(i * 4 + gate)];
        }
        let place = place_at(tile.s, row, j);
        previous[i] = previous_state_f32::<F>(args, place, rule);
        z[i] = 0.0;
        if comptime!(phase == Phase::Second) {
            #[comptime]
            if let ComptimeOption::Some(scratch) = args.scratch.as_mut() {
                z[i] = scratch[row * comptime!(2 * hidden) + hidden + j];
            }
        }
        bias_n[i] = bias[comptime!(i * 4 + 3)];
    }
    Read {
        a,
        previous,
        z,
        bias_n,
    }
}

/// The recurrent product of a tile: `[i·outputs + out]` of the pairs that a thread owns.
#[cube]
fn multiply_tile<F: Float, M: Float, R: Size>(
    args: &mut Forward<F>,
    prefetched: &mut Array<f32>,
    memory: &mut StepMemory<M, R>,
    weight: &Weight<M>,
    tile: Tile,
    #[comptime] phase: Phase,
    #[comptime] steps: Steps,
) -> Array<f32> {
    let (threads, product) = comptime!((steps.threads, steps.product(Pass::Forward, phase)));
    let mut sums = tile_sums::<R>(product, threads);
    #[unroll(comptime!(product.resident))]
    for index in 0..comptime!(product.blocks(&threads)) {
        let k0 = index * comptime!(product.padded_block(&threads));
        store_tile::<M, R>(&*prefetched, &mut memory.lhs, product, threads);
        sync_cube();
        let (next_k0, row) = next_block(k0, tile.row0, tile.next_row0, product, threads);
        if row < args.rows {
            let next = place_at(tile.s, row, next_k0);
            prefetch_lhs::<F>(prefetched, args, next, phase, steps);
        }
        let block = Block {
            index,
            k0,
            j0: tile.j0,
            from: 0usize.runtime(),
        };
        let lhs = &memory.lhs;
        accumulate_block::<F, M, R>(&mut sums, lhs, args.w_hh, weight, block, product, threads);
        sync_cube();
    }
    tile_results::<R>(&sums, &mut memory.partial, product, threads)
}

/// Computes the gates of a thread's pairs, and stores them with the state.
#[cube]
#[allow(clippy::too_many_arguments)]
fn store_pairs<F: Float>(
    args: &mut Forward<F>,
    read: &Read,
    q: &Array<f32>,
    timed_out: &Shared<[u32]>,
    tile: Tile,
    time: usize,
    #[comptime] phase: Phase,
    #[comptime] steps: Steps,
) {
    let (rule, threads, hidden) = comptime!((steps.rule, steps.threads, steps.rule.hidden));
    let outputs = comptime!(steps.product(Pass::Forward, phase).outputs);
    let (n_stride, t_stride) = strides(args.n, args.t, rule);
    #[unroll]
    for i in 0..comptime!(threads.pairs()) {
        let (b, column) = pair(i, threads);
        let (k, j) = (tile.row0 + b, tile.j0 + column);
        if b < threads.rows && k < args.n && j < hidden {
            let row = k * n_stride + time * t_stride;
            let at = row * comptime!(rule.saved() * hidden) + j;
            let previous = read.previous[i];
            let mut r = 0.0f32;
            let mut z = read.z[i];
            if comptime!(phase != Phase::Second) {
                let a_r = read.a[comptime!(i * outputs)] + q[comptime!(i * outputs)];
                let a_z = read.a[comptime!(i * outputs + 1)] + q[comptime!(i * outputs + 1)];
                r = gate_value(a_r, comptime!(rule.r));
                z = gate_value(a_z, comptime!(rule.z));
                #[comptime]
                if let ComptimeOption::Some(gates) = args.gates.as_mut() {
                    gates[at] = F::cast_from(r);
                    gates[at + hidden] = F::cast_from(z);
                }
            }
            if comptime!(phase == Phase::First) {
                let g = masked::<F>(previous, args.recurrent_mask, k * hidden + j);
                #[comptime]
                if let ComptimeOption::Some(scratch) = args.scratch.as_mut() {
                    scratch[k * comptime!(2 * hidden) + j] = r * g;
                    scratch[k * comptime!(2 * hidden) + hidden + j] = z;
                }
            } else {
                let last_out = comptime!(i * outputs + outputs - 1);
                let q_n = q[last_out] + read.bias_n[i];
                let new = candidate(read.a[last_out], q_n, r, rule);
                let kept = kept_share::<F>(args.zoneout, row, j, rule);
                let next = next_state(previous, z, new, kept, rule);
                let next = unless_skipped::<F>(args.step_mask, row, next, previous, rule);
                let next = if comptime!(steps.persistent) {
                    next + poison(timed_out[0])
                } else {
                    next
                };
                args.states[row * hidden + j] = F::cast_from(next);
                if comptime!(rule.narrow) {
                    let place = place_in_scratch(place_at(tile.s + 1, k, j), args.n, rule);
                    #[comptime]
                    if let ComptimeOption::Some(scratch) = args.scratch.as_mut() {
                        scratch[place] = next;
                    }
                }
                #[comptime]
                if let ComptimeOption::Some(gates) = args.gates.as_mut() {
                    gates[at + comptime!(2 * hidden)] = F::cast_from(new);
                    if comptime!(phase == Phase::Whole) {
                        gates[at + comptime!(3 * hidden)] = F::cast_from(q_n);
                    }
                }
            }
        }
    }
}

/// Prefetches a thread's values of a block of the lhs, from the row and the hidden unit of `place` on.
#[cube]
fn prefetch_lhs<F: Float>(
    prefetched: &mut Array<f32>,
    args: &mut Forward<F>,
    place: Place,
    #[comptime] phase: Phase,
    #[comptime] steps: Steps,
) {
    let (threads, product) = comptime!((steps.threads, steps.product(Pass::Forward, phase)));
    #[unroll]
    for i in 0..comptime!(product.prefetch_len(&threads)) {
        let (b, in_block) = prefetch_position(i, product, threads);
        let k = place.j + in_block;
        let of_value = place_at(
            place.s,
            min(place.row + b, args.n - 1),
            min(k, comptime!(product.k - 1)),
        );
        let x = lhs_value::<F>(args, of_value, phase, comptime!(steps.rule));
        prefetched[i] = select(k < comptime!(product.k), x, 0.0f32);
    }
}

/// A value of the lhs: `g = recurrent_mask ⊙ h₋₁`, or `r ⊙ g` for the second product.
#[cube]
fn lhs_value<F: Float>(
    args: &mut Forward<F>,
    place: Place,
    #[comptime] phase: Phase,
    #[comptime] rule: Rule,
) -> f32 {
    let mut x = 0.0f32;
    if comptime!(phase == Phase::Second) {
        #[comptime]
        if let ComptimeOption::Some(scratch) = args.scratch.as_mut() {
            x = scratch[place.row * comptime!(2 * rule.hidden) + place.j];
        }
    } else {
        let state = previous_state_f32::<F>(args, place, rule);
        let at = place.row * comptime!(rule.hidden) + place.j;
        x = masked::<F>(state, args.recurrent_mask, at);
    }
    x
}

/// The state before a step, in float32 if this call computed it.
#[cube]
fn previous_state_f32<F: Float>(
    args: &mut Forward<F>,
    place: Place,
    #[comptime] rule: Rule,
) -> f32 {
    let (n, t, h0, step_mask) = (args.n, args.t, args.h0, args.step_mask);
    if comptime!(rule.narrow) {
        let mut previous = 0.0f32;
        if place.s > args.first {
            let stored = place_in_scratch(place, n, rule);
            #[comptime]
            if let ComptimeOption::Some(scratch) = args.scratch.as_mut() {
                previous = scratch[stored];
            }
        } else {
            previous = stored_state::<F>(&*args.states, h0, place, n, t, rule);
        }
        after_start::<F>(previous, h0, step_mask, place, n, t, rule)
    } else {
        previous_state::<F>(&*args.states, h0, step_mask, place, n, t, rule)
    }
}

/// Index in the scratch memory of the state before a step.
#[cube]
fn place_in_scratch(place: Place, n: usize, #[comptime] rule: Rule) -> usize {
    let row = place.s % 2 * n + place.row;
    let row = if comptime!(rule.reset_after) {
        row
    } else {
        // Behind `r ⊙ g | z`.
        row + 2 * n
    };
    row * comptime!(rule.hidden) + place.j
}
