//! The forward pass in steps.

use super::{Half, Steps};
use crate::kernel::rule::Rule;
use crate::kernel::{
    gate::{blend, clip, gate_value},
    left::{fetched_place, next_stage, put, shared_partial, shared_rows, shared_vectors},
    matrix::{accumulate_matrices, store_matrices, zero_matrices},
    meeting::{doubt, meet},
    product::{accumulate, load_weight, pair, pairs_of_partials, reduce_to_pairs, zero_sums},
    step::{biases, from_end, kept, state_before, strides, window, zone_out},
};
use cubecl::prelude::*;

/// Steps `first..last` of [`forward`](crate::forward()): states, and gates on request. With more
/// than one product, the cubes of the same rows meet at a counter in `met`, zero at first. Reset
/// before the product, `between` holds `r ⊙ g | z` of each row, `[N,2H]`. Where states are stored in 16 bits,
/// `exact` holds those before and after the step in float32, `[2,N,H]`. Matrix units multiply numbers of
/// type `M`.
#[cfg_attr(
    test,
    cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")
)]
#[cfg_attr(not(test), cube(launch_unchecked, address_type = "dynamic"))]
pub(crate) fn gru_forward_step<F: Float, M: Float, R: Size>(
    p: &[F],
    w_hh: &[F],
    b_ih: ComptimeOption<&[F]>,
    b_hh: ComptimeOption<&[F]>,
    h0: ComptimeOption<&[F]>,
    recurrent_mask: ComptimeOption<&[F]>,
    step_mask: ComptimeOption<&[F]>,
    zoneout: ComptimeOption<&[F]>,
    states: &mut [F],
    mut gates: ComptimeOption<&mut [F]>,
    mut between: ComptimeOption<&mut [f32]>,
    mut exact: ComptimeOption<&mut [f32]>,
    met: ComptimeOption<&[Atomic<u32>]>,
    n: u32,
    t: u32,
    p_first: u32,
    p_last: u32,
    first: u32,
    last: u32,
    #[comptime] steps: Steps,
    #[define(F)] _dtype: ElemType,
    #[define(M)] _factors: ElemType,
) {
    let (rule, team, hidden) = comptime!((steps.rule, steps.team, steps.hidden));
    let (rows, pairs) = comptime!((team.rows, team.pairs()));
    let (first_product, second_product) = comptime!(steps.forward_products());
    let saved = comptime!(rule.saved() * hidden);
    let (n, t) = (n as usize, t as usize);
    let (per_n, per_t) = strides(n, t, rule);
    let (p_from, p_steps) = window(t, p_first as usize, p_last as usize, rule);
    let (p_per_n, p_per_t) = strides(n, p_steps, rule);
    let j0 = CUBE_POS_X as usize * comptime!(team.columns);

    let mut left = shared_vectors::<R>(comptime!(steps.left_vectors(&first_product)));
    let mut left_rows = shared_rows::<M>(comptime!(steps.left_numbers(&first_product)));
    let mut partial = shared_partial(comptime!(steps.partial(&first_product)), team);
    let registers = load_weight::<F>(w_hh, j0, first_product, team);
    let registers_second = load_weight::<F>(w_hh, j0, second_product, team);
    let mut lost = Shared::<[u32]>::new_slice(1usize);
    if comptime!(steps.persistent) {
        if UNIT_POS == 0 {
            lost[0] = 0u32;
        }
        // A step without a sum would not meet before it looks.
        sync_cube();
    }
    let mut bias = Array::<f32>::new(comptime!(pairs * 4));
    #[unroll]
    for i in 0..pairs {
        // Pairs of one column share its biases.
        let from = comptime!(if team.finishes_its_sums() {
            i / rows * rows
        } else {
            i
        });
        if comptime!(from == i) {
            let (_, column) = pair(i, team);
            let j = min(j0 + column, comptime!(hidden - 1));
            let of_column = biases::<F>(b_ih, b_hh, j, hidden, rule);
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

    for s in first as usize..last as usize {
        let time = if comptime!(rule.reverse) {
            from_end(s, t)
        } else {
            s
        };
        #[unroll]
        for index in 0..comptime!(steps.count()) {
            let half = comptime!(steps.half(index));
            let product = comptime!(steps.forward(half));
            let (outs, stage) = comptime!((product.outs, product.padded_stage(&team)));
            let stages = comptime!(product.stages(&team));
            let first_gate = comptime!(if half == Half::Second { 2 } else { 0 });
            let mut row0 = CUBE_POS_Y as usize * rows;
            let mut fetched = Array::<f32>::new(comptime!(product.fetched(&team)));
            fetch_left::<F>(
                &mut fetched,
                states,
                h0,
                recurrent_mask,
                &mut between,
                &mut exact,
                p_first,
                s,
                0usize.runtime(),
                row0,
                n,
                t,
                half,
                steps,
            );
            while row0 < n {
                let next_row0 = row0 + CUBE_COUNT_Y as usize * rows;

                // Asked for before the product, so that the product hides the way from memory.
                let mut a = Array::<f32>::new(comptime!(pairs * outs));
                let mut before = Array::<f32>::new(pairs);
                let mut z_between = Array::<f32>::new(pairs);
                #[unroll]
                for i in 0..pairs {
                    let (b, column) = pair(i, team);
                    let k = min(row0 + b, n - 1);
                    let j = min(j0 + column, comptime!(hidden - 1));
                    let row = k * p_per_n + (time - p_from) * p_per_t;
                    #[unroll]
                    for out in 0..outs {
                        let gate = comptime!(first_gate + out);
                        a[comptime!(i * outs + out)] =
                            f32::cast_from(p[row * comptime!(3 * hidden) + gate * hidden + j])
                                + bias[comptime!(i * 4 + gate)];
                    }
                    before[i] = exact_before::<F>(
                        states, &mut exact, h0, s, p_first, k, j, n, t, hidden, rule,
                    );
                    z_between[i] = 0.0;
                    if comptime!(half == Half::Second) {
                        #[comptime]
                        if let ComptimeOption::Some(between) = between.as_mut() {
                            z_between[i] = between[k * comptime!(2 * hidden) + hidden + j];
                        }
                    }
                }

                let q = if comptime!(team.matrices.is_some()) {
                    let sums = zero_matrices(product, team);
                    for block in 0..stages {
                        let k0 = block * stage;
                        turn_left::<F, M, R>(
                            &mut fetched,
                            &mut left,
                            &mut left_rows,
                            states,
                            h0,
                            recurrent_mask,
                            &mut between,
                            &mut exact,
                            p_first,
                            s,
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
                            w_hh,
                            k0,
                            j0,
                            product,
                            team,
                        );
                        sync_cube();
                    }
                    store_matrices(&sums, &mut partial, product, team);
                    sync_cube();
                    pairs_of_partials(&mut partial, product, team)
                } else {
                    let mut sums = zero_sums::<R>(product, team);
                    let zero = 0usize.runtime();
                    if comptime!(product.resident) {
                        #[unroll]
                        for block in 0..stages {
                            let k0 = comptime!(block * stage).runtime();
                            turn_left::<F, M, R>(
                                &mut fetched,
                                &mut left,
                                &mut left_rows,
                                states,
                                h0,
                                recurrent_mask,
                                &mut between,
                                &mut exact,
                                p_first,
                                s,
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
                                    w_hh,
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
                                    w_hh,
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
                            turn_left::<F, M, R>(
                                &mut fetched,
                                &mut left,
                                &mut left_rows,
                                states,
                                h0,
                                recurrent_mask,
                                &mut between,
                                &mut exact,
                                p_first,
                                s,
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
                                w_hh,
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
                    reduce_to_pairs::<R>(&sums, &mut partial, product, team)
                };

                #[unroll]
                for i in 0..pairs {
                    let (b, column) = pair(i, team);
                    let (k, j) = (row0 + b, j0 + column);
                    if b < rows && k < n && j < hidden {
                        let row = k * per_n + time * per_t;
                        let at = row * saved + j;
                        let before = before[i];
                        let mut r = 0.0f32;
                        let mut z = z_between[i];
                        if comptime!(half != Half::Second) {
                            let a_r = a[comptime!(i * outs)] + q[comptime!(i * outs)];
                            let a_z = a[comptime!(i * outs + 1)] + q[comptime!(i * outs + 1)];
                            r = gate_value(a_r, comptime!(rule.r));
                            z = gate_value(a_z, comptime!(rule.z));
                            #[comptime]
                            if let ComptimeOption::Some(gates) = gates.as_mut() {
                                gates[at] = F::cast_from(r);
                                gates[at + hidden] = F::cast_from(z);
                            }
                        }
                        if comptime!(half == Half::First) {
                            let mut g = before;
                            #[comptime]
                            if let ComptimeOption::Some(recurrent_mask) = &recurrent_mask {
                                g *= f32::cast_from(recurrent_mask[k * hidden + j]);
                            }
                            #[comptime]
                            if let ComptimeOption::Some(between) = between.as_mut() {
                                between[k * comptime!(2 * hidden) + j] = r * g;
                                between[k * comptime!(2 * hidden) + hidden + j] = z;
                            }
                        } else {
                            let last_out = comptime!(i * outs + outs - 1);
                            let q_n = q[last_out] + bias[comptime!(i * 4 + 3)];
                            let a_n = if comptime!(half == Half::Whole) {
                                a[last_out] + r * q_n
                            } else {
                                a[last_out] + q_n
                            };
                            let new = gate_value(a_n, comptime!(rule.n));
                            let u = clip(blend(before, z, new, rule), comptime!(rule.clip_state));
                            let kept = kept::<F>(zoneout, row, j, hidden, rule);
                            let u = zone_out(u, before, kept, rule);
                            #[comptime]
                            let next = match step_mask {
                                ComptimeOption::Some(step_mask) => {
                                    select(f32::cast_from(step_mask[row]) == 0.0, before, u)
                                }
                                ComptimeOption::None => u,
                            };
                            let next = if comptime!(steps.persistent) {
                                next + doubt(lost[0])
                            } else {
                                next
                            };
                            states[row * hidden + j] = F::cast_from(next);
                            #[comptime]
                            if let ComptimeOption::Some(exact) = exact.as_mut() {
                                exact[((s + 1) % 2 * n + k) * hidden + j] = next;
                            }
                            #[comptime]
                            if let ComptimeOption::Some(gates) = gates.as_mut() {
                                gates[at + comptime!(2 * hidden)] = F::cast_from(new);
                                if comptime!(half == Half::Whole) {
                                    gates[at + comptime!(3 * hidden)] = F::cast_from(q_n);
                                }
                            }
                        }
                    }
                }
                row0 = next_row0;
            }
            #[comptime]
            if let ComptimeOption::Some(met) = &met {
                let per_step = comptime!(steps.count() as u32);
                let done = (s as u32 - first) * per_step + comptime!(index as u32 + 1);
                if done < (last - first) * per_step {
                    meet(&met[CUBE_POS_Y as usize], CUBE_COUNT_X * done, &mut lost);
                }
            }
        }
    }
}

/// Puts the stage from `k0` on of the tile from `row0` on into shared memory, where all units see it, and
/// fetches what comes after.
#[cube]
#[allow(clippy::too_many_arguments)]
fn turn_left<F: Float, M: Float, R: Size>(
    fetched: &mut Array<f32>,
    left: &mut ComptimeOption<Shared<[Vector<f32, R>]>>,
    left_rows: &mut ComptimeOption<Shared<[M]>>,
    states: &mut [F],
    h0: ComptimeOption<&[F]>,
    recurrent_mask: ComptimeOption<&[F]>,
    between: &mut ComptimeOption<&mut [f32]>,
    exact: &mut ComptimeOption<&mut [f32]>,
    p_first: u32,
    s: usize,
    k0: usize,
    row0: usize,
    next_row0: usize,
    n: usize,
    t: usize,
    #[comptime] half: Half,
    #[comptime] steps: Steps,
) {
    let (team, product) = comptime!((steps.team, steps.forward(half)));
    put::<M, R>(&*fetched, left, left_rows, product, team);
    sync_cube();
    let (k0, row0) = next_stage(k0, row0, next_row0, product, team);
    if row0 < n {
        fetch_left::<F>(
            fetched,
            states,
            h0,
            recurrent_mask,
            between,
            exact,
            p_first,
            s,
            k0,
            row0,
            n,
            t,
            half,
            steps,
        );
    }
}

/// Fetches a unit's numbers of a stage of a forward product's left side, of hidden units from `k0` on and rows
/// from `row0` on.
#[cube]
#[allow(clippy::too_many_arguments)]
fn fetch_left<F: Float>(
    fetched: &mut Array<f32>,
    states: &mut [F],
    h0: ComptimeOption<&[F]>,
    recurrent_mask: ComptimeOption<&[F]>,
    between: &mut ComptimeOption<&mut [f32]>,
    exact: &mut ComptimeOption<&mut [f32]>,
    p_first: u32,
    s: usize,
    k0: usize,
    row0: usize,
    n: usize,
    t: usize,
    #[comptime] half: Half,
    #[comptime] steps: Steps,
) {
    let (team, product) = comptime!((steps.team, steps.forward(half)));
    #[unroll]
    for i in 0..comptime!(product.fetched(&team)) {
        let (b, in_stage) = fetched_place(i, product, team);
        let (row, k) = (min(row0 + b, n - 1), k0 + in_stage);
        let x = left_number::<F>(
            states,
            h0,
            recurrent_mask,
            between,
            exact,
            p_first,
            s,
            row,
            min(k, comptime!(product.depth - 1)),
            n,
            t,
            half,
            steps,
        );
        fetched[i] = select(k < comptime!(product.depth), x, 0.0f32);
    }
}

/// A number of a forward product's left side: `g = recurrent_mask ⊙ h₋₁` of step `s`, or for the second product
/// `r ⊙ g`; of a row of the batch and unit `k`.
#[cube]
#[allow(clippy::too_many_arguments)]
fn left_number<F: Float>(
    states: &mut [F],
    h0: ComptimeOption<&[F]>,
    recurrent_mask: ComptimeOption<&[F]>,
    between: &mut ComptimeOption<&mut [f32]>,
    exact: &mut ComptimeOption<&mut [f32]>,
    p_first: u32,
    s: usize,
    row: usize,
    k: usize,
    n: usize,
    t: usize,
    #[comptime] half: Half,
    #[comptime] steps: Steps,
) -> f32 {
    let (rule, hidden) = comptime!((steps.rule, steps.hidden));
    let mut x = 0.0f32;
    if comptime!(half == Half::Second) {
        #[comptime]
        if let ComptimeOption::Some(between) = between.as_mut() {
            x = between[row * comptime!(2 * hidden) + k];
        }
    } else {
        x = exact_before::<F>(states, exact, h0, s, p_first, row, k, n, t, hidden, rule);
        #[comptime]
        if let ComptimeOption::Some(recurrent_mask) = &recurrent_mask {
            x *= f32::cast_from(recurrent_mask[row * hidden + k]);
        }
    }
    x
}

/// The state before step `s`, in float32 if it was made by this call.
#[cube]
#[allow(clippy::too_many_arguments)]
fn exact_before<F: Float>(
    states: &mut [F],
    exact: &mut ComptimeOption<&mut [f32]>,
    h0: ComptimeOption<&[F]>,
    s: usize,
    p_first: u32,
    row: usize,
    j: usize,
    n: usize,
    t: usize,
    #[comptime] hidden: usize,
    #[comptime] rule: Rule,
) -> f32 {
    #[comptime]
    match exact.as_mut() {
        ComptimeOption::Some(exact) => {
            let is_made = s > p_first as usize;
            let mut before = 0.0f32;
            if is_made {
                before = exact[(s % 2 * n + row) * hidden + j];
            }
            if !is_made {
                before = state_before::<F>(&*states, h0, s, row, j, n, t, hidden, rule);
            }
            before
        }
        ComptimeOption::None => state_before::<F>(&*states, h0, s, row, j, n, t, hidden, rule),
    }
}
