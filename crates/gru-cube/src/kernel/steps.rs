//! Steps on a grid of row tiles by column tiles: the recurrent product with the gates as its
//! epilogue. For weights that no cube can read alone in good time. Either every step is a launch, or
//! all steps are one, in which the weight stays in registers and the cubes of the same rows meet
//! after each step. Reset after the product only: before it, a step has two products that wait for
//! each other.

use super::{
    gate::{blend, clip, gate_slope, gate_value},
    meeting::{doubt, meet},
    product::{Product, Team, accumulate, load_weight, pair, reduce_to_pairs, zero_sums},
    step::{biases, blend_back, state_before, strides, window},
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
            + self.partial(product).div_ceil(self.team.width)
            + 1
    }

    /// Partial sums in shared memory.
    fn partial(&self, product: &Product) -> usize {
        match self.team.splits {
            1 => 1,
            splits => splits * product.outs * self.team.rows * self.team.columns,
        }
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
    p_first: u32,
    p_last: u32,
    first: u32,
    last: u32,
    #[comptime] steps: Steps,
    #[define(F)] _dtype: ElemType,
) {
    let (rule, team, hidden) = comptime!((steps.rule, steps.team, steps.hidden));
    let (rows, vectors, pairs) = comptime!((team.rows, team.vectors(), team.pairs()));
    let product = comptime!(steps.forward());
    let stage = comptime!(product.padded_stage(&team));
    let saved = comptime!(rule.saved() * hidden);
    let (n, t) = (n as usize, t as usize);
    let (per_n, per_t) = strides(n, t, rule);
    let (p_from, p_steps) = window(t, p_first as usize, p_last as usize, rule);
    let (p_per_n, p_per_t) = strides(n, p_steps, rule);
    let j0 = CUBE_POS_X as usize * comptime!(team.columns);

    let mut left = Shared::<[Vector<f32, R>]>::new_slice(comptime!(stage * vectors));
    let mut partial = Shared::<[f32]>::new_slice(comptime!(steps.partial(&product)));
    let registers = load_weight::<F>(w_hh, j0, product, team);
    // Seen by all before the first step ends.
    let mut lost = Shared::<[u32]>::new_slice(1usize);
    if UNIT_POS == 0 {
        lost[0] = 0u32;
    }
    let mut bias = Array::<f32>::new(comptime!(pairs * 4));
    #[unroll]
    for i in 0..pairs {
        // Pairs of one column share its biases.
        let from = comptime!(if team.splits == 1 { i / rows * rows } else { i });
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
            t - 1 - s
        } else {
            s
        };
        let mut tile = CUBE_POS_Y as usize;
        while tile * rows < n {
            let row0 = tile * rows;

            // Asked for before the product, so that the product hides the way from memory.
            let mut a = Array::<f32>::new(comptime!(pairs * 3));
            let mut before = Array::<f32>::new(pairs);
            #[unroll]
            for i in 0..pairs {
                let (b, column) = pair(i, team);
                let k = min(row0 + b, n - 1);
                let j = min(j0 + column, comptime!(hidden - 1));
                let row = k * p_per_n + (time - p_from) * p_per_t;
                #[unroll]
                for gate in 0..3usize {
                    a[comptime!(i * 3 + gate)] =
                        f32::cast_from(p[row * comptime!(3 * hidden) + gate * hidden + j])
                            + bias[comptime!(i * 4 + gate)];
                }
                before[i] = state_before::<F>(&*states, h0, s, k, j, n, t, hidden, rule);
            }

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
            let q = reduce_to_pairs::<R>(&sums, &mut partial, product, team);

            #[unroll]
            for i in 0..pairs {
                let (b, column) = pair(i, team);
                let (k, j) = (row0 + b, j0 + column);
                if b < rows && k < n && j < hidden {
                    let row = k * per_n + time * per_t;
                    let before = before[i];
                    let q_n = q[comptime!(i * 3 + 2)] + bias[comptime!(i * 4 + 3)];
                    let a_r = a[comptime!(i * 3)] + q[comptime!(i * 3)];
                    let a_z = a[comptime!(i * 3 + 1)] + q[comptime!(i * 3 + 1)];
                    let r = gate_value(a_r, comptime!(rule.r));
                    let z = gate_value(a_z, comptime!(rule.z));
                    let a_n = a[comptime!(i * 3 + 2)] + r * q_n;
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
                    let mut x = state_before::<F>(&*states, h0, s, row, k, n, t, hidden, rule);
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
    let (rows, vectors, pairs) = comptime!((team.rows, team.vectors(), team.pairs()));
    let product = comptime!(steps.backward());
    let stage = comptime!(product.padded_stage(&team));
    let saved = comptime!(rule.saved() * hidden);
    let (n, t) = (n as usize, t as usize);
    let (per_n, per_t) = strides(n, t, rule);
    let j0 = CUBE_POS_X as usize * comptime!(team.columns);

    let mut left = Shared::<[Vector<f32, R>]>::new_slice(comptime!(stage * vectors));
    let mut partial = Shared::<[f32]>::new_slice(comptime!(steps.partial(&product)));
    let registers = load_weight::<F>(w_hh_t, j0, product, team);
    // Seen by all before the first step ends.
    let mut lost = Shared::<[u32]>::new_slice(1usize);
    if UNIT_POS == 0 {
        lost[0] = 0u32;
    }

    for back in first as usize..last as usize {
        let s = (first + last) as usize - 1 - back;
        let time = if comptime!(rule.reverse) {
            t - 1 - s
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
            t - 1 - after
        } else {
            after
        };
        // Nothing flows into the last step from behind: its sum has no stages.
        let flows = if comptime!(end) {
            true.runtime()
        } else {
            s + 1 < t
        };
        let mut tile = CUBE_POS_Y as usize;
        while tile * rows < n {
            let row0 = tile * rows;

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
                    for gate in 0..4usize {
                        read[comptime!(to + gate)] =
                            f32::cast_from(gates[row * saved + gate * hidden + j]);
                    }
                    read[comptime!(to + 4)] =
                        state_before::<F>(states, h0, s, k, j, n, t, hidden, rule);
                    read[comptime!(to + 5)] = f32::cast_from(d_states[row * hidden + j]);
                }
            }

            let mut sums = zero_sums::<R>(product, team);
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
            let dg = reduce_to_pairs::<R>(&sums, &mut partial, product, team);

            #[unroll]
            for i in 0..pairs {
                let (b, column) = pair(i, team);
                let (k, j) = (row0 + b, j0 + column);
                if b < rows && k < n && j < hidden {
                    let at = k * hidden + j;
                    let from = comptime!(i * READ);
                    let mut through = dg[i];
                    #[comptime]
                    if let ComptimeOption::Some(mask) = &mask {
                        through *= f32::cast_from(mask[at]);
                    }
                    through += read[comptime!(from + 6)];
                    if comptime!(end) {
                        d_h0[at] = F::cast_from(through);
                    } else {
                        let row = k * per_n + time * per_t;
                        let mut d = read[comptime!(from + 5)] + through;
                        if comptime!(steps.persistent) {
                            d += doubt(lost[0]);
                        }
                        let r = read[from];
                        let z = read[comptime!(from + 1)];
                        let new = read[comptime!(from + 2)];
                        let q_n = read[comptime!(from + 3)];
                        let before = read[comptime!(from + 4)];
                        #[comptime]
                        let counts = match valid {
                            ComptimeOption::Some(valid) => f32::cast_from(valid[row]) != 0.0,
                            ComptimeOption::None => true.runtime(),
                        };
                        let back = blend_back(d, before, z, new, counts, rule);
                        let dr = back.dn * q_n * gate_slope(r, comptime!(rule.r));
                        carry[at] = back.carry;
                        let gate = row * saved + j;
                        d_gates[gate] = F::cast_from(select(counts, dr, 0.0f32));
                        d_gates[gate + hidden] = F::cast_from(back.dz);
                        d_gates[gate + comptime!(2 * hidden)] = F::cast_from(back.dn);
                        d_gates[gate + comptime!(3 * hidden)] =
                            F::cast_from(select(counts, back.dn * r, 0.0f32));
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

/// Numbers that a backward step reads per pair: r, z, n, q_n, the state before, the upstream
/// gradient, and the carry.
const READ: usize = 7;

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
