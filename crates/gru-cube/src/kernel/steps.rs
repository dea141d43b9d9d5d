//! One launch per step: the recurrent product with the gates as its epilogue, on a grid of row
//! tiles by column tiles. For weights that no cube can read alone in good time. Reset after the
//! product only: before it, a step has two products that wait for each other.

use super::{
    gate::{blend, clip, gate_slope, gate_value},
    product::{Product, Team, accumulate, reduce, zero_sums},
    step::blend_back,
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
            resident: false,
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

    /// Vectors of shared memory: a stage of the left side, and partial sums.
    pub(crate) fn shared_vectors(&self, product: &Product) -> usize {
        product.padded_stage(&self.team) * self.team.vectors()
            + self.team.partial_vectors(product.outs).max(1)
    }
}

/// Step `s` of [`forward`](crate::forward()): states, and gates on request.
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
    n: u32,
    t: u32,
    s: u32,
    #[comptime] steps: Steps,
    #[define(F)] _dtype: ElemType,
) {
    let (rule, team, hidden) = comptime!((steps.rule, steps.team, steps.hidden));
    let (rows, width, vectors) = comptime!((team.rows, team.width, team.vectors()));
    let product = comptime!(steps.forward());
    let stage = comptime!(product.padded_stage(&team));
    let saved = comptime!(rule.saved() * hidden);
    let (n, t, s) = (n as usize, t as usize, s as usize);
    let (per_n, per_t) = if comptime!(rule.time_major) {
        (1usize.runtime(), n)
    } else {
        (t, 1usize.runtime())
    };
    let unit = UNIT_POS as usize;
    let j0 = CUBE_POS_X as usize * comptime!(team.columns);
    let row0 = CUBE_POS_Y as usize * rows;
    let time = if comptime!(rule.reverse) {
        t - 1 - s
    } else {
        s
    };
    let time_before = if comptime!(rule.reverse) {
        t - s
    } else {
        max(s, 1) - 1
    };

    let mut left = Shared::<[Vector<f32, R>]>::new_slice(comptime!(stage * vectors));
    let mut partial =
        Shared::<[Vector<f32, R>]>::new_slice(comptime!(team.partial_vectors(3).max(1)));
    let no_registers = Array::<f32>::new(1usize);

    let mut sums = zero_sums::<R>(product, team);
    for block in 0..comptime!(product.stages(&team)) {
        let k0 = block * stage;
        let mut i = unit;
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
        sync_cube();
        let from = 0usize.runtime();
        accumulate::<F, R>(
            &mut sums,
            &left,
            from,
            w_hh,
            &no_registers,
            k0,
            j0,
            product,
            team,
        );
        sync_cube();
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
                    let a_n = f32::cast_from(p[at + comptime!(2 * hidden)]) + bias[2] + r * q_n;
                    let new = gate_value(a_n, comptime!(rule.n));
                    let u = clip(blend(before, z, new, rule), comptime!(rule.clip_state));
                    #[comptime]
                    let next = match valid {
                        ComptimeOption::Some(valid) => {
                            select(f32::cast_from(valid[row]) == 0.0, before, u)
                        }
                        ComptimeOption::None => u,
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
}

/// Step `s` of [`backward`](crate::backward()), from `d_gates` of step `s + 1` and the carry of
/// its blend to the same of step `s`. At the `end`, after step 0, the carry becomes the gradient of
/// the initial state, and `s` is not read.
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
    n: u32,
    t: u32,
    s: u32,
    #[comptime] steps: Steps,
    #[comptime] end: bool,
    #[define(F)] _dtype: ElemType,
) {
    let (rule, team, hidden) = comptime!((steps.rule, steps.team, steps.hidden));
    let (rows, width, vectors) = comptime!((team.rows, team.width, team.vectors()));
    let product = comptime!(steps.backward());
    let stage = comptime!(product.padded_stage(&team));
    let saved = comptime!(rule.saved() * hidden);
    let (n, t, s) = (n as usize, t as usize, s as usize);
    let (per_n, per_t) = if comptime!(rule.time_major) {
        (1usize.runtime(), n)
    } else {
        (t, 1usize.runtime())
    };
    let unit = UNIT_POS as usize;
    let j0 = CUBE_POS_X as usize * comptime!(team.columns);
    let row0 = CUBE_POS_Y as usize * rows;
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

    let mut left = Shared::<[Vector<f32, R>]>::new_slice(comptime!(stage * vectors));
    let mut partial =
        Shared::<[Vector<f32, R>]>::new_slice(comptime!(team.partial_vectors(1).max(1)));
    let no_registers = Array::<f32>::new(1usize);

    // Nothing flows into the last step from behind: its sum has no stages.
    let stages = if comptime!(end) {
        comptime!(product.stages(&team)).runtime()
    } else {
        select(
            s + 1 < t,
            comptime!(product.stages(&team)).runtime(),
            0usize.runtime(),
        )
    };
    let mut sums = zero_sums::<R>(product, team);
    for block in 0..stages {
        let k0 = block * stage;
        let mut i = unit;
        while i < stage {
            let k = k0 + i;
            #[unroll]
            for v in 0..vectors {
                let mut dq = Vector::<f32, R>::new(0.0);
                if k < comptime!(3 * hidden) {
                    // dq = [dr̄, dz̄, dn̄⊙r] stands in columns 0..2H and 3H..4H.
                    let column = select(k < comptime!(2 * hidden), k, k + hidden);
                    #[unroll]
                    for w in 0..width {
                        let row = min(row0 + comptime!(v * width + w), n - 1);
                        let at = (row * per_n + time_after * per_t) * saved + column;
                        dq.insert(w, f32::cast_from(d_gates[at]));
                    }
                }
                left[i * vectors + v] = dq;
            }
            i += comptime!(team.units());
        }
        sync_cube();
        let from = 0usize.runtime();
        accumulate::<F, R>(
            &mut sums,
            &left,
            from,
            w_hh_t,
            &no_registers,
            k0,
            j0,
            product,
            team,
        );
        sync_cube();
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
                            ComptimeOption::Some(valid) => f32::cast_from(valid[row]) != 0.0,
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
