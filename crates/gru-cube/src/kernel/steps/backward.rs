//! The backward pass by step kernels.

use super::{
    Phase, StepMemory, Steps, Tile, Weight, accumulate_block, no_time_out, step_memory,
    step_weight, tile_results, tile_sums,
};
use crate::kernel::{
    gate::gate_slope,
    grid_barrier::{grid_barrier, poison},
    lhs::{next_block, prefetch_position, store_tile},
    product::{Block, pair},
    rule::{Pass, Rule, Starts},
    step::blend_back,
    tensors::{
        Backward, code_of, down, kept_share, mask_of, place_at, previous_state, skips, starts,
        strides, time_of, unless_skipped,
    },
};
use cubecl::prelude::*;

/// Steps `first..last` of a [backward pass](crate::Buffers::Backward), from the last to the first. Each step reads
/// `d_gates` and `d_h0` of the following step and writes its own. A persistent kernel synchronizes as in the
/// forward pass. `end` is one more launch after step 0, with steps `0..1`: it runs only the first product
/// and makes `d_h0` the gradient of the initial state. Matrix units multiply values of type `M`.
#[cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
pub(crate) fn gru_backward_step<F: Float, M: Float, R: Size>(
    args: &mut Backward<F>,
    barriers: ComptimeOption<&[Atomic<u32>]>,
    first: u32,
    last: u32,
    #[comptime] steps: Steps,
    #[comptime] end: bool,
    #[define(F)] _dtype: ElemType,
    #[define(M)] _factors: ElemType,
) {
    let (rule, threads) = comptime!((steps.rule, steps.threads));
    let (first_product, second_product) = comptime!(steps.products(Pass::Backward));
    let j0 = CUBE_POS_X as usize * comptime!(threads.columns);

    let mut memory = step_memory::<M, R>(first_product, steps);
    let mut weights = Sequence::<Weight<M>>::new();
    weights.push(step_weight::<F, M>(args.weight, j0, first_product, threads));
    weights.push(step_weight::<F, M>(
        args.weight,
        j0,
        second_product,
        threads,
    ));
    let mut timed_out = no_time_out(steps);

    for back in first as usize..last as usize {
        let s = down(back, first, last);
        // The following step, clamped at the last one.
        let after = if comptime!(end) {
            0usize.runtime()
        } else {
            min(s + 1, args.t - 1)
        };
        let times = Times {
            now: time_of(s, args.t, rule),
            after: time_of(after, args.t, rule),
        };
        #[unroll]
        for index in 0..comptime!(steps.count()) {
            let phase = comptime!(steps.phase(index));
            let len = comptime!(steps.product(Pass::Backward, phase).prefetch_len(&threads));
            // The last step has no following step and no product.
            let has_product = if comptime!(end || phase == Phase::Second) {
                true.runtime()
            } else {
                s + 1 < args.t
            };
            let lhs_time = if comptime!(phase == Phase::Second) {
                times.now
            } else {
                times.after
            };
            let mut prefetched = Array::<f32>::new(len);
            let mut row0 = CUBE_POS_Y as usize * threads.rows;
            if has_product {
                let start = LhsPlace {
                    time: lhs_time,
                    row0,
                    k0: 0usize.runtime(),
                };
                prefetch_lhs::<F>(&mut prefetched, &*args, start, phase, steps);
            }
            while row0 < args.rows {
                let next_row0 = row0 + CUBE_COUNT_Y as usize * threads.rows;
                let tile = Tile {
                    s,
                    row0,
                    next_row0,
                    j0,
                };
                // Loaded before the product, which hides their latency.
                let read = read_pairs::<F>(args, tile, times.now, has_product, end, steps);
                let mut dg = Array::<f32>::new(comptime!(threads.pairs()));
                #[unroll]
                for i in 0..comptime!(threads.pairs()) {
                    dg[i] = 0.0;
                }
                if has_product {
                    let product = multiply_tile::<F, M, R>(
                        &*args,
                        &mut prefetched,
                        &mut memory,
                        weights.index(index),
                        tile,
                        lhs_time,
                        phase,
                        steps,
                    );
                    #[unroll]
                    for i in 0..comptime!(threads.pairs()) {
                        dg[i] = product[i];
                    }
                }
                let variant = comptime!(Variant { phase, end, steps });
                store_pairs::<F>(args, &read, &dg, &timed_out, tile, times, variant);
                row0 = next_row0;
            }
            #[comptime]
            if let ComptimeOption::Some(barriers) = &barriers {
                let per_step = comptime!(steps.count() as u32);
                let done = (back as u32 - first) * per_step + comptime!(index as u32 + 1);
                if done < (last - first) * per_step {
                    let counter = &barriers[CUBE_POS_Y as usize];
                    grid_barrier(counter, CUBE_COUNT_X * done, &mut timed_out);
                }
            }
        }
    }
}

/// Indices in time of a step and of the following step.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct Times {
    now: usize,
    after: usize,
}

/// What the epilogue of a product is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Variant {
    phase: Phase,
    end: bool,
    steps: Steps,
}

/// Values that a step reads per pair: r, z, n, q_n if there is one, the previous state, the upstream
/// gradient, and the gradient of the state after the step.
const READ: usize = 7;

#[cube]
fn read_pairs<F: Float>(
    args: &mut Backward<F>,
    tile: Tile,
    time: usize,
    has_product: bool,
    #[comptime] end: bool,
    #[comptime] steps: Steps,
) -> Array<f32> {
    let (rule, threads, hidden) = comptime!((steps.rule, steps.threads, steps.rule.hidden));
    let pairs = comptime!(threads.pairs());
    let (n_stride, t_stride) = strides(args.n, args.t, rule);
    let mut read = Array::<f32>::new(comptime!(pairs * READ));
    #[unroll]
    for i in 0..pairs {
        let (b, column) = pair(i, threads);
        let k = min(tile.row0 + b, args.n - 1);
        let j = min(tile.j0 + column, comptime!(hidden - 1));
        let to = comptime!(i * READ);
        read[comptime!(to + 6)] = select(has_product, args.d_h0[k * hidden + j], 0.0f32);
        if comptime!(!end) {
            let row = k * n_stride + time * t_stride;
            #[unroll]
            for gate in 0..comptime!(rule.saved()) {
                let at = row * comptime!(rule.saved() * hidden) + gate * hidden + j;
                read[comptime!(to + gate)] = f32::cast_from(args.gates[at]);
            }
            let place = place_at(tile.s, k, j);
            let (states, h0, step_mask) = (args.states, args.h0, args.step_mask);
            read[comptime!(to + 4)] =
                previous_state::<F>(states, h0, step_mask, place, args.n, args.t, rule);
            read[comptime!(to + 5)] = f32::cast_from(args.d_states[row * hidden + j]);
        }
    }
    read
}

/// The product of a tile for the pairs that a thread owns.
#[cube]
#[allow(clippy::too_many_arguments)]
fn multiply_tile<F: Float, M: Float, R: Size>(
    args: &Backward<F>,
    prefetched: &mut Array<f32>,
    memory: &mut StepMemory<M, R>,
    weight: &Weight<M>,
    tile: Tile,
    lhs_time: usize,
    #[comptime] phase: Phase,
    #[comptime] steps: Steps,
) -> Array<f32> {
    let (threads, product) = comptime!((steps.threads, steps.product(Pass::Backward, phase)));
    let mut sums = tile_sums::<R>(product, threads);
    #[unroll(comptime!(product.resident))]
    for index in 0..comptime!(product.blocks(&threads)) {
        let k0 = index * comptime!(product.padded_block(&threads));
        store_tile::<M, R>(&*prefetched, &mut memory.lhs, product, threads);
        sync_cube();
        let (next_k0, row0) = next_block(k0, tile.row0, tile.next_row0, product, threads);
        if row0 < args.rows {
            let next = LhsPlace {
                time: lhs_time,
                row0,
                k0: next_k0,
            };
            prefetch_lhs::<F>(prefetched, args, next, phase, steps);
        }
        let block = Block {
            index,
            k0,
            j0: tile.j0,
            from: 0usize.runtime(),
        };
        let lhs = &memory.lhs;
        accumulate_block::<F, M, R>(&mut sums, lhs, args.weight, weight, block, product, threads);
        sync_cube();
    }
    tile_results::<R>(&sums, &mut memory.partial, product, threads)
}

/// Computes the gradients of a thread's pairs and stores them.
#[cube]
fn store_pairs<F: Float>(
    args: &mut Backward<F>,
    read: &Array<f32>,
    dg: &Array<f32>,
    timed_out: &Shared<[u32]>,
    tile: Tile,
    times: Times,
    #[comptime] variant: Variant,
) {
    let Variant { phase, end, steps } = comptime!(variant);
    let (rule, threads, hidden) = comptime!((steps.rule, steps.threads, steps.rule.hidden));
    let (n_stride, t_stride) = strides(args.n, args.t, rule);
    #[unroll]
    for i in 0..comptime!(threads.pairs()) {
        let (b, column) = pair(i, threads);
        let (k, j) = (tile.row0 + b, tile.j0 + column);
        if b < threads.rows && k < args.n && j < hidden {
            let at = k * hidden + j;
            let from = comptime!(i * READ);
            let row = k * n_stride + times.now * t_stride;
            let gate = row * comptime!(rule.saved() * hidden) + j;
            let mask = mask_of::<F>(args.recurrent_mask, at);
            let skipped = skips(code_of::<F>(args.step_mask, row), rule.starts);
            // The gradient through the following step, unless that step is skipped.
            let row_after = k * n_stride + times.after * t_stride;
            let zero = 0.0f32.runtime();
            let through = unless_skipped::<F>(args.step_mask, row_after, mask * dg[i], zero, rule);
            let r = read[from];
            let previous = read[comptime!(from + 4)];
            let carried = read[comptime!(from + 6)];
            let (carried, through) =
                if comptime!(rule.starts == Starts::None || phase == Phase::Second) {
                    (carried, through)
                } else {
                    // The gradient does not cross a start before the following step.
                    let cuts = starts(code_of::<F>(args.step_mask, row_after));
                    let d_start = select(cuts, carried + through, 0.0f32);
                    if comptime!(rule.starts == Starts::FromState) {
                        add_to_start::<F>(args, tile.s, at, d_start, variant);
                    }
                    (select(cuts, 0.0f32, carried), select(cuts, 0.0f32, through))
                };
            if comptime!(end) {
                args.d_h0[at] = carried + through;
            } else if comptime!(phase == Phase::Second) {
                // The product reads the gradients of all cubes.
                let (ds, carried) = if comptime!(steps.persistent) {
                    let lost = poison(timed_out[0]);
                    (dg[i] + lost, carried + lost)
                } else {
                    (dg[i], carried)
                };
                let dr = ds * mask * previous * gate_slope(r, comptime!(rule.r));
                args.d_gates[gate] = F::cast_from(select(skipped, 0.0f32, dr));
                let through_n = select(skipped, 0.0f32, mask * ds * r);
                args.d_h0[at] = carried + through_n;
            } else {
                let mut d = read[comptime!(from + 5)] + carried + through;
                if comptime!(steps.persistent) {
                    d += poison(timed_out[0]);
                }
                let z = read[comptime!(from + 1)];
                let new = read[comptime!(from + 2)];
                let kept = kept_share::<F>(args.zoneout, row, j, rule);
                let back = blend_back(d, previous, z, new, kept, skipped, rule);
                args.d_h0[at] = back.dh;
                args.d_gates[gate + hidden] = F::cast_from(back.dz);
                args.d_gates[gate + comptime!(2 * hidden)] = F::cast_from(back.dn);
                if comptime!(phase == Phase::Whole) {
                    let q_n = read[comptime!(from + 3)];
                    let dr = back.dn * q_n * gate_slope(r, comptime!(rule.r));
                    args.d_gates[gate] = F::cast_from(select(skipped, 0.0f32, dr));
                    args.d_gates[gate + comptime!(3 * hidden)] =
                        F::cast_from(select(skipped, 0.0f32, back.dn * r));
                }
            }
        }
    }
}

/// Adds to the gradient of the start state, which begins as zero at the last step.
#[cube]
fn add_to_start<F: Float>(
    args: &mut Backward<F>,
    s: usize,
    at: usize,
    value: f32,
    #[comptime] variant: Variant,
) {
    let at = args.n * comptime!(variant.steps.rule.hidden) + at;
    let sum = args.d_h0[at] + value;
    args.d_h0[at] = if comptime!(variant.end) {
        sum
    } else {
        select(s + 1 == args.t, 0.0f32, sum)
    };
}

/// Where a block of the lhs begins.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct LhsPlace {
    time: usize,
    row0: usize,
    k0: usize,
}

/// Prefetches a thread's values of a block of the lhs.
#[cube]
fn prefetch_lhs<F: Float>(
    prefetched: &mut Array<f32>,
    args: &Backward<F>,
    place: LhsPlace,
    #[comptime] phase: Phase,
    #[comptime] steps: Steps,
) {
    let (threads, product) = comptime!((steps.threads, steps.product(Pass::Backward, phase)));
    let rule = comptime!(steps.rule);
    let (n_stride, t_stride) = strides(args.n, args.t, rule);
    #[unroll]
    for i in 0..comptime!(product.prefetch_len(&threads)) {
        let (b, in_block) = prefetch_position(i, product, threads);
        let (row, k) = (min(place.row0 + b, args.n - 1), place.k0 + in_block);
        let column = lhs_column(min(k, comptime!(product.k - 1)), phase, rule);
        let at = (row * n_stride + place.time * t_stride) * comptime!(rule.saved() * rule.hidden)
            + column;
        let x = f32::cast_from(args.d_gates[at]);
        prefetched[i] = select(k < comptime!(product.k), x, 0.0f32);
    }
}

/// Column of `d_gates` of term `k`: of `[dr̄, dz̄, dn̄⊙r]`, or with the reset before the product of
/// `[dr̄, dz̄]` or `dn̄`.
#[cube]
fn lhs_column(k: usize, #[comptime] phase: Phase, #[comptime] rule: Rule) -> usize {
    let hidden = comptime!(rule.hidden);
    match comptime!(phase) {
        // Columns 0..2H and 3H..4H.
        Phase::Whole => select(k < comptime!(2 * hidden), k, k + hidden),
        Phase::First => k,
        Phase::Second => k + comptime!(2 * hidden),
    }
}
