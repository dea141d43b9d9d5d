//! Steps on a grid of row tiles by column tiles: the recurrent product with the gates as its
//! epilogue. For weights that no cube can read alone in good time. Either every step is a launch, or
//! all steps are one, in which the weight stays in registers and the cubes of the same rows meet
//! after each step. Reset after the product only: before it, a step has two products that wait for
//! each other.

use super::{
    gate::{blend, clip, gate_slope, gate_value},
    meeting::{doubt, meet},
    product::{Product, Team, accumulate, load_weight, reduce, zero_sums},
    step::{blend_back, strides},
};
use crate::rule::Rule;
use cubecl::prelude::*;

/// What a step is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Steps {
    pub(crate) rule: Rule,
    pub(crate) team: Team,
    /// H.
    pub(crate) hidden: usize,
    /// Terms of the sum whose left sides are in shared memory at a time.
    pub(crate) stage: usize,
    /// All steps are one launch.
    pub(crate) persistent: bool,
}

impl Steps {
    /// `q = g·w_hh`.
    pub(crate) fn forward(&self) -> Product {
        Product {
            depth: self.hidden,
            outs: 3,
            base: 0,
            per_k: 3 * self.hidden,
            per_out: self.hidden,
            per_j: 1,
            columns: self.hidden,
            stage: self.stage.min(self.hidden),
            resident: self.persistent,
        }
    }

    /// `dg = dq·w_hhᵀ`, with the weight as `[3H,H]`.
    pub(crate) fn backward(&self) -> Product {
        Product {
            depth: 3 * self.hidden,
            outs: 1,
            per_k: self.hidden,
            per_out: 0,
            stage: self.stage.min(3 * self.hidden),
            ..self.forward()
        }
    }

    /// Vectors of shared memory: a stage of the left side, partial sums, and whether a meeting was
    /// lost.
    pub(crate) fn shared_vectors(&self, product: &Product) -> usize {
        product.padded_stage(&self.team) * self.team.vectors()
            + self.team.partial_vectors(product.outs).max(1)
            + 1
    }

    /// Cubes that stand side by side along the hidden units.
    pub(crate) fn cubes_per_row(&self) -> usize {
        self.hidden.div_ceil(self.team.columns)
    }
}

/// Steps `first..last` of [`forward`](crate::forward()): states, and gates on request. With more
/// than one, the cubes of the same rows meet at a counter in `met`, zero at first.
#[cfg_attr(
    test,
    cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")
)]
#[cfg_attr(not(test), cube(launch_unchecked, address_type = "dynamic"))]
pub(crate) fn gru_forward_step<F: Float, R: Size>(
    p: &[F],
    w_hh: &[F],
    b_ih: ComptimeOption<&[F]>,
    b_hh: ComptimeOption<&[F]>,
    h0: ComptimeOption<&[F]>,
    mask: ComptimeOption<&[F]>,
    valid: ComptimeOption<&[F]>,
    states: &mut [F],
    mut gates: ComptimeOption<&mut [F]>,
    met: ComptimeOption<&[Atomic<u32>]>,
    n: u32,
    t: u32,
    first: u32,
    last: u32,
    #[comptime] steps: Steps,
    #[define(F)] _dtype: ElemType,
) {
    let (rule, team, hidden) = comptime!((steps.rule, steps.team, steps.hidden));
    let (rows, width, vectors) = comptime!((team.rows, team.width, team.vectors()));
    let product = comptime!(steps.forward());
    let stage = comptime!(product.padded_stage(&team));
    let saved = comptime!(rule.saved() * hidden);
    let (n, t) = (n as usize, t as usize);
    let (per_n, per_t) = strides(n, t, rule);
    let unit = UNIT_POS as usize;
    let j0 = CUBE_POS_X as usize * comptime!(team.columns);

    let mut left = Shared::<[Vector<f32, R>]>::new_slice(comptime!(stage * vectors));
    let mut partial =
        Shared::<[Vector<f32, R>]>::new_slice(comptime!(team.partial_vectors(3).max(1)));
    let registers = load_weight::<F>(w_hh, j0, product, team);
    // Seen by all before the first step ends.
    let mut lost = Shared::<[u32]>::new_slice(1usize);
    if UNIT_POS == 0 {
        lost[0] = 0u32;
    }

    for s in first as usize..last as usize {
        let time = if comptime!(rule.reverse) {
            t - 1 - s
        } else {
            s
        };
        let time_before = time_before(s, t, rule);
        let mut tile = CUBE_POS_Y as usize;
        while tile * rows < n {
            let row0 = tile * rows;
            let mut sums = zero_sums::<R>(product, team);
            if comptime!(product.resident) {
                #[unroll]
                for block in 0..comptime!(product.stages(&team)) {
                    let k0 = comptime!(block * stage).runtime();
                    states_before::<F, R>(&mut left, states, h0, mask, s, k0, row0, n, t, steps);
                    sync_cube();
                    let from = 0usize.runtime();
                    accumulate::<F, R>(
                        &mut sums, &left, from, w_hh, &registers, k0, j0, block, product, team,
                    );
                    sync_cube();
                }
            } else {
                for block in 0..comptime!(product.stages(&team)) {
                    let k0 = block * stage;
                    states_before::<F, R>(&mut left, states, h0, mask, s, k0, row0, n, t, steps);
                    sync_cube();
                    let from = 0usize.runtime();
                    accumulate::<F, R>(
                        &mut sums, &left, from, w_hh, &registers, k0, j0, 0usize, product, team,
                    );
                    sync_cube();
                }
            }
            let q = reduce::<R>(sums, &mut partial, product, team);

            #[unroll]
            for c in 0..comptime!(team.owned()) {
                let in_tile = unit + c * comptime!(team.units());
                let j = j0 + in_tile;
                if in_tile < comptime!(team.columns) && j < hidden {
                    let mut bias = Array::<f32>::new(3usize);
                    let mut bias_n = 0.0f32;
                    #[unroll]
                    for gate in 0..3usize {
                        bias[gate] = 0.0;
                        #[comptime]
                        if let ComptimeOption::Some(b_ih) = &b_ih {
                            bias[gate] += f32::cast_from(b_ih[gate * hidden + j]);
                        }
                        #[comptime]
                        if let ComptimeOption::Some(b_hh) = &b_hh {
                            let b_hh = f32::cast_from(b_hh[gate * hidden + j]);
                            if comptime!(gate == 2) {
                                bias_n = b_hh;
                            } else {
                                bias[gate] += b_hh;
                            }
                        }
                    }
                    #[unroll]
                    for b in 0..rows {
                        if row0 + b < n {
                            let row = (row0 + b) * per_n + time * per_t;
                            let mut before = 0.0f32;
                            if s > 0 {
                                let at = ((row0 + b) * per_n + time_before * per_t) * hidden + j;
                                before = f32::cast_from(states[at]);
                            } else {
                                #[comptime]
                                if let ComptimeOption::Some(h0) = &h0 {
                                    before = f32::cast_from(h0[(row0 + b) * hidden + j]);
                                }
                            }
                            let at = row * comptime!(3 * hidden) + j;
                            let (v, w) = comptime!((b / width, b % width));
                            let q_r = q[comptime!((c * 3) * vectors + v)].extract(w);
                            let q_z = q[comptime!((c * 3 + 1) * vectors + v)].extract(w);
                            let q_n = q[comptime!((c * 3 + 2) * vectors + v)].extract(w) + bias_n;
                            let a_r = f32::cast_from(p[at]) + bias[0] + q_r;
                            let a_z = f32::cast_from(p[at + hidden]) + bias[1] + q_z;
                            let r = gate_value(a_r, comptime!(rule.r));
                            let z = gate_value(a_z, comptime!(rule.z));
                            let a_n =
                                f32::cast_from(p[at + comptime!(2 * hidden)]) + bias[2] + r * q_n;
                            let new = gate_value(a_n, comptime!(rule.n));
                            let u = clip(blend(before, z, new, rule), comptime!(rule.clip_state));
                            #[comptime]
                            let next = match valid {
                                ComptimeOption::Some(valid) => {
                                    select(f32::cast_from(valid[row]) == 0.0, before, u)
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
                            if let ComptimeOption::Some(gates) = gates.as_mut() {
                                let at = row * saved + j;
                                gates[at] = F::cast_from(r);
                                gates[at + hidden] = F::cast_from(z);
                                gates[at + comptime!(2 * hidden)] = F::cast_from(new);
                                gates[at + comptime!(3 * hidden)] = F::cast_from(q_n);
                            }
                        }
                    }
                }
            }
            tile += CUBE_COUNT_Y as usize;
        }
        #[comptime]
        if let ComptimeOption::Some(met) = &met {
            let done = s as u32 + 1 - first;
            if done < last - first {
                meet(&met[CUBE_POS_Y as usize], CUBE_COUNT_X * done, &mut lost);
            }
        }
    }
}

/// Loads a stage of the forward product's left side: `mask ⊙ h₋₁` of step `s`, units from `k0` on,
/// rows from `row0` on.
#[cube]
#[allow(clippy::too_many_arguments)]
fn states_before<F: Float, R: Size>(
    left: &mut Shared<[Vector<f32, R>]>,
    states: &mut [F],
    h0: ComptimeOption<&[F]>,
    mask: ComptimeOption<&[F]>,
    s: usize,
    k0: usize,
    row0: usize,
    n: usize,
    t: usize,
    #[comptime] steps: Steps,
) {
    let (rule, team, hidden) = comptime!((steps.rule, steps.team, steps.hidden));
    let (width, vectors) = comptime!((team.width, team.vectors()));
    let stage = comptime!(steps.forward().padded_stage(&team));
    let (per_n, per_t) = strides(n, t, rule);
    let time_before = time_before(s, t, rule);
    let mut i = UNIT_POS as usize;
    while i < stage {
        let k = k0 + i;
        #[unroll]
        for v in 0..vectors {
            let mut g = Vector::<f32, R>::new(0.0);
            if k < hidden {
                #[unroll]
                for w in 0..width {
                    let row = min(row0 + comptime!(v * width + w), n - 1);
                    let mut x = 0.0f32;
                    if s > 0 {
                        let at = (row * per_n + time_before * per_t) * hidden + k;
                        x = f32::cast_from(states[at]);
                    } else {
                        #[comptime]
                        if let ComptimeOption::Some(h0) = &h0 {
                            x = f32::cast_from(h0[row * hidden + k]);
                        }
                    }
                    #[comptime]
                    if let ComptimeOption::Some(mask) = &mask {
                        x *= f32::cast_from(mask[row * hidden + k]);
                    }
                    g.insert(w, x);
                }
            }
            left[i * vectors + v] = g;
        }
        i += comptime!(team.units());
    }
}

/// Where the step before `s` stands in time; anywhere for the first.
#[cube]
fn time_before(s: usize, t: usize, #[comptime] rule: Rule) -> usize {
    if comptime!(rule.reverse) {
        t - s
    } else {
        max(s, 1) - 1
    }
}

/// Steps `first..last` of [`backward`](crate::backward()), the last one first: each from `d_gates`
/// of the step after it and the carry of that step's blend to the same of its own. With more than
/// one, the cubes of the same rows meet as in the forward pass. At the `end`, after step 0, the
/// carry becomes the gradient of the initial state; that is a step of its own, `0..1`.
#[cfg_attr(
    test,
    cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")
)]
#[cfg_attr(not(test), cube(launch_unchecked, address_type = "dynamic"))]
pub(crate) fn gru_backward_step<F: Float, R: Size>(
    gates: &[F],
    d_states: &[F],
    states: &[F],
    w_hh_t: &[F],
    h0: ComptimeOption<&[F]>,
    mask: ComptimeOption<&[F]>,
    valid: ComptimeOption<&[F]>,
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
) {
    let (rule, team, hidden) = comptime!((steps.rule, steps.team, steps.hidden));
    let (rows, width, vectors) = comptime!((team.rows, team.width, team.vectors()));
    let product = comptime!(steps.backward());
    let stage = comptime!(product.padded_stage(&team));
    let saved = comptime!(rule.saved() * hidden);
    let (n, t) = (n as usize, t as usize);
    let (per_n, per_t) = strides(n, t, rule);
    let unit = UNIT_POS as usize;
    let j0 = CUBE_POS_X as usize * comptime!(team.columns);

    let mut left = Shared::<[Vector<f32, R>]>::new_slice(comptime!(stage * vectors));
    let mut partial =
        Shared::<[Vector<f32, R>]>::new_slice(comptime!(team.partial_vectors(1).max(1)));
    let registers = load_weight::<F>(w_hh_t, j0, product, team);
    // Seen by all before the first step ends.
    let mut lost = Shared::<[u32]>::new_slice(1usize);
    if UNIT_POS == 0 {
        lost[0] = 0u32;
    }

    for back in first as usize..last as usize {
        let s = (first + last) as usize - 1 - back;
        // The step after in walking order; clamped where there is none.
        let after = if comptime!(end) {
            0usize.runtime()
        } else {
            min(s + 1, t - 1)
        };
        let time_after = if comptime!(rule.reverse) {
            t - 1 - after
        } else {
            after
        };
        let mut tile = CUBE_POS_Y as usize;
        while tile * rows < n {
            let row0 = tile * rows;
            let mut sums = zero_sums::<R>(product, team);
            // Nothing flows into the last step from behind: its sum has no stages.
            let flows = if comptime!(end) {
                true.runtime()
            } else {
                s + 1 < t
            };
            if flows {
                if comptime!(product.resident) {
                    #[unroll]
                    for block in 0..comptime!(product.stages(&team)) {
                        let k0 = comptime!(block * stage).runtime();
                        gradients_after::<F, R>(
                            &mut left, d_gates, time_after, k0, row0, n, t, steps,
                        );
                        sync_cube();
                        let from = 0usize.runtime();
                        accumulate::<F, R>(
                            &mut sums, &left, from, w_hh_t, &registers, k0, j0, block, product,
                            team,
                        );
                        sync_cube();
                    }
                } else {
                    for block in 0..comptime!(product.stages(&team)) {
                        let k0 = block * stage;
                        gradients_after::<F, R>(
                            &mut left, d_gates, time_after, k0, row0, n, t, steps,
                        );
                        sync_cube();
                        let from = 0usize.runtime();
                        accumulate::<F, R>(
                            &mut sums, &left, from, w_hh_t, &registers, k0, j0, 0usize, product,
                            team,
                        );
                        sync_cube();
                    }
                }
            }
            let dg = reduce::<R>(sums, &mut partial, product, team);

            #[unroll]
            for c in 0..comptime!(team.owned()) {
                let in_tile = unit + c * comptime!(team.units());
                let j = j0 + in_tile;
                if in_tile < comptime!(team.columns) && j < hidden {
                    #[unroll]
                    for b in 0..rows {
                        if row0 + b < n {
                            let at = (row0 + b) * hidden + j;
                            let (v, w) = comptime!((b / width, b % width));
                            let mut through = dg[comptime!(c * vectors + v)].extract(w);
                            #[comptime]
                            if let ComptimeOption::Some(mask) = &mask {
                                through *= f32::cast_from(mask[at]);
                            }
                            if comptime!(end) {
                                d_h0[at] = F::cast_from(carry[at] + through);
                            } else {
                                let time = if comptime!(rule.reverse) {
                                    t - 1 - s
                                } else {
                                    s
                                };
                                let row = (row0 + b) * per_n + time * per_t;
                                let mut d = f32::cast_from(d_states[row * hidden + j]);
                                if comptime!(steps.persistent) {
                                    d += doubt(lost[0]);
                                }
                                if s + 1 < t {
                                    d += carry[at] + through;
                                }
                                let mut before = 0.0f32;
                                if s > 0 {
                                    let row_before = if comptime!(rule.reverse) {
                                        row + per_t
                                    } else {
                                        row - per_t
                                    };
                                    before = f32::cast_from(states[row_before * hidden + j]);
                                } else {
                                    #[comptime]
                                    if let ComptimeOption::Some(h0) = &h0 {
                                        before = f32::cast_from(h0[at]);
                                    }
                                }
                                let gate = row * saved + j;
                                let r = f32::cast_from(gates[gate]);
                                let z = f32::cast_from(gates[gate + hidden]);
                                let new = f32::cast_from(gates[gate + comptime!(2 * hidden)]);
                                let q_n = f32::cast_from(gates[gate + comptime!(3 * hidden)]);
                                #[comptime]
                                let counts = match valid {
                                    ComptimeOption::Some(valid) => {
                                        f32::cast_from(valid[row]) != 0.0
                                    }
                                    ComptimeOption::None => true.runtime(),
                                };
                                let back = blend_back(d, before, z, new, counts, rule);
                                let dr = back.dn * q_n * gate_slope(r, comptime!(rule.r));
                                carry[at] = back.carry;
                                d_gates[gate] = F::cast_from(select(counts, dr, 0.0f32));
                                d_gates[gate + hidden] = F::cast_from(back.dz);
                                d_gates[gate + comptime!(2 * hidden)] = F::cast_from(back.dn);
                                d_gates[gate + comptime!(3 * hidden)] =
                                    F::cast_from(select(counts, back.dn * r, 0.0f32));
                            }
                        }
                    }
                }
            }
            tile += CUBE_COUNT_Y as usize;
        }
        #[comptime]
        if let ComptimeOption::Some(met) = &met {
            let done = back as u32 + 1 - first;
            if done < last - first {
                meet(&met[CUBE_POS_Y as usize], CUBE_COUNT_X * done, &mut lost);
            }
        }
    }
}

/// Loads a stage of the backward product's left side: `dq = [dr̄, dz̄, dn̄⊙r]` of a step, columns from
/// `k0` on, rows from `row0` on.
#[cube]
#[allow(clippy::too_many_arguments)]
fn gradients_after<F: Float, R: Size>(
    left: &mut Shared<[Vector<f32, R>]>,
    d_gates: &mut [F],
    time: usize,
    k0: usize,
    row0: usize,
    n: usize,
    t: usize,
    #[comptime] steps: Steps,
) {
    let (rule, team, hidden) = comptime!((steps.rule, steps.team, steps.hidden));
    let (width, vectors) = comptime!((team.width, team.vectors()));
    let stage = comptime!(steps.backward().padded_stage(&team));
    let (per_n, per_t) = strides(n, t, rule);
    let mut i = UNIT_POS as usize;
    while i < stage {
        let k = k0 + i;
        #[unroll]
        for v in 0..vectors {
            let mut dq = Vector::<f32, R>::new(0.0);
            if k < comptime!(3 * hidden) {
                // They stand in columns 0..2H and 3H..4H.
                let column = select(k < comptime!(2 * hidden), k, k + hidden);
                #[unroll]
                for w in 0..width {
                    let row = min(row0 + comptime!(v * width + w), n - 1);
                    let at = (row * per_n + time * per_t) * comptime!(rule.saved() * hidden);
                    dq.insert(w, f32::cast_from(d_gates[at + column]));
                }
            }
            left[i * vectors + v] = dq;
        }
        i += comptime!(team.units());
    }
}

/// `w_hh_t [3H,H]` from `w_hh [H,3H]`, through a tile of shared memory, so that reads and writes
/// both run along memory. Cubes of `TRANSPOSE × TRANSPOSE` units.
#[cfg_attr(
    test,
    cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")
)]
#[cfg_attr(not(test), cube(launch_unchecked, address_type = "dynamic"))]
pub(crate) fn gru_transpose<F: Float>(
    w_hh: &[F],
    w_hh_t: &mut [F],
    hidden: u32,
    #[define(F)] _dtype: ElemType,
) {
    let side = comptime!(TRANSPOSE as usize);
    // One column of padding keeps a column of the tile out of a single bank.
    let mut tile = Shared::<[F]>::new_slice(comptime!(side * (side + 1)));
    let (rows, columns) = (hidden as usize, hidden as usize * 3);
    let (x, y) = (UNIT_POS_X as usize, UNIT_POS_Y as usize);
    let (row0, column0) = (CUBE_POS_Y as usize * side, CUBE_POS_X as usize * side);
    if row0 + y < rows && column0 + x < columns {
        tile[y * comptime!(side + 1) + x] = w_hh[(row0 + y) * columns + column0 + x];
    }
    sync_cube();
    if row0 + x < rows && column0 + y < columns {
        w_hh_t[(column0 + y) * rows + row0 + x] = tile[x * comptime!(side + 1) + y];
    }
}

/// Side of a transposed tile; its square is the fewest units that WebGPU promises.
pub(crate) const TRANSPOSE: u32 = 16;
