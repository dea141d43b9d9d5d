//! The backward pass in steps.

use super::{Half, Steps};
use crate::kernel::{
    gate::gate_slope,
    left::{fetched_place, next_stage, put, shared_partial, shared_rows, shared_vectors},
    matrix::{accumulate_matrices, store_matrices, zero_matrices},
    meeting::{doubt, meet},
    product::{accumulate, load_weight, pair, pairs_of_partials, reduce_to_pairs, zero_sums},
    step::{blend_back, from_end, kept, state_before, strides},
};
use cubecl::prelude::*;

/// Steps `first..last` of [`backward`](crate::backward()), the last one first: each from `d_gates`
/// of the step after it and the carry of that step's blend to the same of its own. With more than
/// one product, the cubes of the same rows meet as in the forward pass. At the `end`, after step 0, the
/// carry becomes the gradient of the initial state; that is a step of its own, `0..1`, with the
/// first product alone. Matrix units multiply numbers of type `M`.
#[cfg_attr(
    test,
    cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")
)]
#[cfg_attr(not(test), cube(launch_unchecked, address_type = "dynamic"))]
pub(crate) fn gru_backward_step<F: Float, M: Float, R: Size>(
    gates: &[F],
    d_states: &[F],
    states: &[F],
    w_hh_t: &[F],
    h0: ComptimeOption<&[F]>,
    recurrent_mask: ComptimeOption<&[F]>,
    step_mask: ComptimeOption<&[F]>,
    zoneout: ComptimeOption<&[F]>,
    d_gates: &mut [F],
    carry: &mut [f32],
    d_h0: &mut [F],
    met: ComptimeOption<&[Atomic<u32>]>,
    n: u32,
    t: u32,
    first: u32,
    last: u32,
    #[comptime] steps: Steps,
    #[comptime] end: bool,
    #[define(F)] _dtype: ElemType,
    #[define(M)] _factors: ElemType,
) {
    let (rule, team, hidden) = comptime!((steps.rule, steps.team, steps.hidden));
    let (rows, pairs) = comptime!((team.rows, team.pairs()));
    let (first_product, second_product) = comptime!(steps.backward_products());
    let saved = comptime!(rule.saved() * hidden);
    let (n, t) = (n as usize, t as usize);
    let (per_n, per_t) = strides(n, t, rule);
    let j0 = CUBE_POS_X as usize * comptime!(team.columns);

    let mut left = shared_vectors::<R>(comptime!(steps.left_vectors(&first_product)));
    let mut left_rows = shared_rows::<M>(comptime!(steps.left_numbers(&first_product)));
    let mut partial = shared_partial(comptime!(steps.partial(&first_product)), team);
    let registers = load_weight::<F>(w_hh_t, j0, first_product, team);
    let registers_second = load_weight::<F>(w_hh_t, j0, second_product, team);
    let mut lost = Shared::<[u32]>::new_slice(1usize);
    if comptime!(steps.persistent) {
        if UNIT_POS == 0 {
            lost[0] = 0u32;
        }
        // A step without a sum would not meet before it looks.
        sync_cube();
    }

    for back in first as usize..last as usize {
        let s = first as usize + last as usize - 1 - back;
        let time = if comptime!(rule.reverse) {
            from_end(s, t)
        } else {
            s
        };
        // The step after in walking order; clamped where there is none.
        let after = if comptime!(end) {
            0usize.runtime()
        } else {
            min(s + 1, t - 1)
        };
        let time_after = if comptime!(rule.reverse) {
            from_end(after, t)
        } else {
            after
        };
        #[unroll]
        for index in 0..comptime!(steps.count()) {
            let half = comptime!(steps.half(index));
            let product = comptime!(steps.backward(half));
            let (stage, stages) = comptime!((product.padded_stage(&team), product.stages(&team)));
            // Nothing flows into the last step from behind: its sum has no stages.
            let flows = if comptime!(end || half == Half::Second) {
                true.runtime()
            } else {
                s + 1 < t
            };
            let time_left = if comptime!(half == Half::Second) {
                time
            } else {
                time_after
            };
            let mut row0 = CUBE_POS_Y as usize * rows;
            let mut fetched = Array::<f32>::new(comptime!(product.fetched(&team)));
            if flows {
                fetch_gradients::<F>(
                    &mut fetched,
                    d_gates,
                    time_left,
                    0usize.runtime(),
                    row0,
                    n,
                    t,
                    half,
                    steps,
                );
            }
            while row0 < n {
                let next_row0 = row0 + CUBE_COUNT_Y as usize * rows;

                // Asked for before the product, so that the product hides the way from memory.
                let mut read = Array::<f32>::new(comptime!(pairs * READ));
                #[unroll]
                for i in 0..pairs {
                    let (b, column) = pair(i, team);
                    let k = min(row0 + b, n - 1);
                    let j = min(j0 + column, comptime!(hidden - 1));
                    let to = comptime!(i * READ);
                    read[comptime!(to + 6)] = select(flows, carry[k * hidden + j], 0.0f32);
                    if comptime!(!end) {
                        let row = k * per_n + time * per_t;
                        #[unroll]
                        for gate in 0..comptime!(rule.saved()) {
                            read[comptime!(to + gate)] =
                                f32::cast_from(gates[row * saved + gate * hidden + j]);
                        }
                        read[comptime!(to + 4)] =
                            state_before::<F>(states, h0, s, k, j, n, t, hidden, rule);
                        read[comptime!(to + 5)] = f32::cast_from(d_states[row * hidden + j]);
                    }
                }

                let dg = if comptime!(team.matrices.is_some()) {
                    let sums = zero_matrices(product, team);
                    if flows {
                        for block in 0..stages {
                            let k0 = block * stage;
                            turn_gradients::<F, M, R>(
                                &mut fetched,
                                &mut left,
                                &mut left_rows,
                                d_gates,
                                time_left,
                                k0,
                                row0,
                                next_row0,
                                n,
                                t,
                                half,
                                steps,
                            );
                            accumulate_matrices::<F, M>(
                                &sums,
                                left_rows.as_ref().unwrap(),
                                w_hh_t,
                                k0,
                                j0,
                                product,
                                team,
                            );
                            sync_cube();
                        }
                    }
                    store_matrices(&sums, &mut partial, product, team);
                    sync_cube();
                    pairs_of_partials(&mut partial, product, team)
                } else {
                    let mut sums = zero_sums::<R>(product, team);
                    let zero = 0usize.runtime();
                    if flows {
                        if comptime!(product.resident) {
                            #[unroll]
                            for block in 0..stages {
                                let k0 = comptime!(block * stage).runtime();
                                turn_gradients::<F, M, R>(
                                    &mut fetched,
                                    &mut left,
                                    &mut left_rows,
                                    d_gates,
                                    time_left,
                                    k0,
                                    row0,
                                    next_row0,
                                    n,
                                    t,
                                    half,
                                    steps,
                                );
                                if comptime!(index == 0) {
                                    accumulate::<F, R>(
                                        &mut sums,
                                        left.as_ref().unwrap(),
                                        zero,
                                        w_hh_t,
                                        &registers,
                                        k0,
                                        j0,
                                        block,
                                        product,
                                        team,
                                    );
                                } else {
                                    accumulate::<F, R>(
                                        &mut sums,
                                        left.as_ref().unwrap(),
                                        zero,
                                        w_hh_t,
                                        &registers_second,
                                        k0,
                                        j0,
                                        block,
                                        product,
                                        team,
                                    );
                                }
                                sync_cube();
                            }
                        } else {
                            for block in 0..stages {
                                let k0 = block * stage;
                                turn_gradients::<F, M, R>(
                                    &mut fetched,
                                    &mut left,
                                    &mut left_rows,
                                    d_gates,
                                    time_left,
                                    k0,
                                    row0,
                                    next_row0,
                                    n,
                                    t,
                                    half,
                                    steps,
                                );
                                accumulate::<F, R>(
                                    &mut sums,
                                    left.as_ref().unwrap(),
                                    zero,
                                    w_hh_t,
                                    &registers,
                                    k0,
                                    j0,
                                    0usize,
                                    product,
                                    team,
                                );
                                sync_cube();
                            }
                        }
                    }
                    reduce_to_pairs::<R>(&sums, &mut partial, product, team)
                };

                #[unroll]
                for i in 0..pairs {
                    let (b, column) = pair(i, team);
                    let (k, j) = (row0 + b, j0 + column);
                    if b < rows && k < n && j < hidden {
                        let at = k * hidden + j;
                        let from = comptime!(i * READ);
                        let row = k * per_n + time * per_t;
                        let gate = row * saved + j;
                        let mut m = 1.0f32;
                        #[comptime]
                        if let ComptimeOption::Some(recurrent_mask) = &recurrent_mask {
                            m = f32::cast_from(recurrent_mask[at]);
                        }
                        #[comptime]
                        let skipped = match step_mask {
                            ComptimeOption::Some(step_mask) => {
                                f32::cast_from(step_mask[row]) == 0.0
                            }
                            ComptimeOption::None => false.runtime(),
                        };
                        // What came through the step after, if there was one that counts.
                        let mut through = m * dg[i];
                        #[comptime]
                        if let ComptimeOption::Some(step_mask) = &step_mask {
                            let row_after = k * per_n + time_after * per_t;
                            let skipped_after = f32::cast_from(step_mask[row_after]) == 0.0;
                            through = select(skipped_after, 0.0f32, through);
                        }
                        let r = read[from];
                        let before = read[comptime!(from + 4)];
                        let carried = read[comptime!(from + 6)];
                        if comptime!(end) {
                            d_h0[at] = F::cast_from(carried + through);
                        } else if comptime!(half == Half::Second) {
                            let ds = dg[i];
                            let dr = ds * m * before * gate_slope(r, comptime!(rule.r));
                            d_gates[gate] = F::cast_from(select(skipped, 0.0f32, dr));
                            carry[at] = carried + select(skipped, 0.0f32, m * ds * r);
                        } else {
                            let mut d = read[comptime!(from + 5)] + carried + through;
                            if comptime!(steps.persistent) {
                                d += doubt(lost[0]);
                            }
                            let z = read[comptime!(from + 1)];
                            let new = read[comptime!(from + 2)];
                            let kept = kept::<F>(zoneout, row, j, hidden, rule);
                            let back = blend_back(d, before, z, new, kept, skipped, rule);
                            carry[at] = back.carry;
                            d_gates[gate + hidden] = F::cast_from(back.dz);
                            d_gates[gate + comptime!(2 * hidden)] = F::cast_from(back.dn);
                            if comptime!(half == Half::Whole) {
                                let q_n = read[comptime!(from + 3)];
                                let dr = back.dn * q_n * gate_slope(r, comptime!(rule.r));
                                d_gates[gate] = F::cast_from(select(skipped, 0.0f32, dr));
                                d_gates[gate + comptime!(3 * hidden)] =
                                    F::cast_from(select(skipped, 0.0f32, back.dn * r));
                            }
                        }
                    }
                }
                row0 = next_row0;
            }
            #[comptime]
            if let ComptimeOption::Some(met) = &met {
                let per_step = comptime!(steps.count() as u32);
                let done = (back as u32 - first) * per_step + comptime!(index as u32 + 1);
                if done < (last - first) * per_step {
                    meet(&met[CUBE_POS_Y as usize], CUBE_COUNT_X * done, &mut lost);
                }
            }
        }
    }
}

/// Numbers that a backward step reads per pair: r, z, n, q_n if there is one, the state before, the
/// upstream gradient, and the carry.
const READ: usize = 7;

/// Puts the stage from `k0` on of the tile from `row0` on into shared memory, where all units see it, and
/// fetches what comes after.
#[cube]
#[allow(clippy::too_many_arguments)]
fn turn_gradients<F: Float, M: Float, R: Size>(
    fetched: &mut Array<f32>,
    left: &mut ComptimeOption<Shared<[Vector<f32, R>]>>,
    left_rows: &mut ComptimeOption<Shared<[M]>>,
    d_gates: &mut [F],
    time: usize,
    k0: usize,
    row0: usize,
    next_row0: usize,
    n: usize,
    t: usize,
    #[comptime] half: Half,
    #[comptime] steps: Steps,
) {
    let (team, product) = comptime!((steps.team, steps.backward(half)));
    put::<M, R>(&*fetched, left, left_rows, product, team);
    sync_cube();
    let (k0, row0) = next_stage(k0, row0, next_row0, product, team);
    if row0 < n {
        fetch_gradients::<F>(fetched, d_gates, time, k0, row0, n, t, half, steps);
    }
}

/// Fetches a unit's numbers of a stage of a backward product's left side, of columns from `k0` on and rows from
/// `row0` on.
#[cube]
#[allow(clippy::too_many_arguments)]
fn fetch_gradients<F: Float>(
    fetched: &mut Array<f32>,
    d_gates: &mut [F],
    time: usize,
    k0: usize,
    row0: usize,
    n: usize,
    t: usize,
    #[comptime] half: Half,
    #[comptime] steps: Steps,
) {
    let (team, product) = comptime!((steps.team, steps.backward(half)));
    #[unroll]
    for i in 0..comptime!(product.fetched(&team)) {
        let (b, in_stage) = fetched_place(i, product, team);
        let (row, k) = (min(row0 + b, n - 1), k0 + in_stage);
        let term = min(k, comptime!(product.depth - 1));
        let x = f32::cast_from(d_gates[gate_at(row, time, term, n, t, half, steps)]);
        fetched[i] = select(k < comptime!(product.depth), x, 0.0f32);
    }
}

/// Where term `k` of a backward product's left side stands: of `[dr̄, dz̄, dn̄⊙r]` of a step, or reset
/// before the product of `[dr̄, dz̄]` or `dn̄`.
#[cube]
fn gate_at(
    row: usize,
    time: usize,
    k: usize,
    n: usize,
    t: usize,
    #[comptime] half: Half,
    #[comptime] steps: Steps,
) -> usize {
    let (rule, hidden) = comptime!((steps.rule, steps.hidden));
    let (per_n, per_t) = strides(n, t, rule);
    let column = match comptime!(half) {
        // They stand in columns 0..2H and 3H..4H.
        Half::Whole => select(k < comptime!(2 * hidden), k, k + hidden),
        Half::First => k,
        Half::Second => k + comptime!(2 * hidden),
    };
    (row * per_n + time * per_t) * comptime!(rule.saved() * hidden) + column
}
