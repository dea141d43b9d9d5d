//! The backward walk: one launch for a whole sequence.

use super::{
    gate::gate_slope,
    product::{load_weight, multiply},
    step::{blend_back, from_end, kept, state_before, strides},
    team::{Product, Team},
};
use crate::kernel::rule::Rule;
use cubecl::prelude::*;

/// What the backward walk is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BackwardWalk {
    pub(crate) rule: Rule,
    pub(crate) team: Team,
    /// H.
    pub(crate) hidden: usize,
    /// The weight stays in registers.
    pub(crate) resident: bool,
    /// The weight is `[3H,H]`, so that neighbouring units read neighbours.
    pub(crate) transposed: bool,
    /// Buffers of the left side, as in the forward walk.
    pub(crate) buffers: usize,
}

impl BackwardWalk {
    /// The product with the transpose of `w_hh`'s gates `first..first + gates`.
    fn product(&self, first: usize, gates: usize) -> Product {
        let (per_k, per_j) = if self.transposed {
            (self.hidden, 1)
        } else {
            (1, 3 * self.hidden)
        };
        Product {
            depth: gates * self.hidden,
            outs: 1,
            base: first * self.hidden * per_k,
            per_k,
            per_out: 0,
            per_j,
            columns: self.hidden,
            stage: gates * self.hidden,
            resident: self.resident,
        }
    }

    /// The last product of a step: of all gates, or of r and z.
    pub(crate) fn last(&self) -> Product {
        self.product(0, if self.rule.reset_after { 3 } else { 2 })
    }

    /// The product of the candidate, where it comes first because dr̄ waits for it.
    pub(crate) fn candidate(&self) -> Product {
        self.product(2, 1)
    }

    fn left_vectors(&self) -> usize {
        self.last().padded_stage(&self.team) * self.team.vectors()
    }

    fn left_n_vectors(&self) -> usize {
        if self.rule.reset_after {
            1
        } else {
            self.candidate().padded_stage(&self.team) * self.team.vectors()
        }
    }

    /// Vectors of shared memory: left sides and partial sums.
    pub(crate) fn shared_vectors(&self) -> usize {
        self.buffers * self.left_vectors()
            + self.left_n_vectors()
            + self.team.partial_vectors(1).max(1)
    }
}

/// Numbers that a step reads per row and hidden unit: r, z, n, q_n, the state before, the upstream
/// gradient, and 1 where the step is skipped.
const READ: usize = 7;

/// Reads what step `s` needs, `[(c·rows + b)·READ + …]` for the columns `c` that a unit owns.
#[cube]
#[allow(clippy::too_many_arguments)]
fn read_step<F: Float>(
    gates: &[F],
    d_states: &[F],
    states: &[F],
    h0: ComptimeOption<&[F]>,
    step_mask: ComptimeOption<&[F]>,
    s: usize,
    n: usize,
    t: usize,
    #[comptime] walk: BackwardWalk,
) -> Array<f32> {
    let (rule, team, hidden) = comptime!((walk.rule, walk.team, walk.hidden));
    let (rows, owned) = comptime!((team.rows, team.owned()));
    let (per_n, per_t) = strides(n, t, rule);
    let time = if comptime!(rule.reverse) {
        from_end(s, t)
    } else {
        s
    };
    let mut read = Array::<f32>::new(comptime!(owned * rows * READ));
    #[unroll]
    for c in 0..owned {
        let j = min(
            UNIT_POS as usize + c * comptime!(team.units()),
            comptime!(hidden - 1),
        );
        #[unroll]
        for b in 0..rows {
            let to = comptime!((c * rows + b) * READ);
            let k = min(CUBE_POS * rows + b, n - 1);
            let row = k * per_n + time * per_t;
            #[unroll]
            for gate in 0..comptime!(rule.saved()) {
                let at = (row * comptime!(rule.saved()) + gate) * hidden + j;
                read[comptime!(to + gate)] = f32::cast_from(gates[at]);
            }
            read[comptime!(to + 4)] = state_before::<F>(states, h0, s, k, j, n, t, hidden, rule);
            read[comptime!(to + 5)] = f32::cast_from(d_states[row * hidden + j]);
            read[comptime!(to + 6)] = 0.0;
            #[comptime]
            if let ComptimeOption::Some(step_mask) = &step_mask {
                read[comptime!(to + 6)] =
                    select(f32::cast_from(step_mask[row]) == 0.0, 1.0f32, 0.0f32);
            }
        }
    }
    read
}

/// See [`backward`](crate::backward()).
#[cfg_attr(
    test,
    cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")
)]
#[cfg_attr(not(test), cube(launch_unchecked, address_type = "dynamic"))]
pub(crate) fn gru_backward_walk<F: Float, R: Size>(
    gates: &[F],
    d_states: &[F],
    states: &[F],
    weight: &[F],
    h0: ComptimeOption<&[F]>,
    recurrent_mask: ComptimeOption<&[F]>,
    step_mask: ComptimeOption<&[F]>,
    zoneout: ComptimeOption<&[F]>,
    d_gates: &mut [F],
    d_h0: &mut [F],
    n: u32,
    t: u32,
    #[comptime] walk: BackwardWalk,
    #[define(F)] _dtype: ElemType,
) {
    let (rule, team, hidden) = comptime!((walk.rule, walk.team, walk.hidden));
    let (rows, width, vectors, owned) =
        comptime!((team.rows, team.width, team.vectors(), team.owned()));
    let (last, candidate) = comptime!((walk.last(), walk.candidate()));
    let left_vectors = comptime!(walk.left_vectors());
    let saved = comptime!(rule.saved() * hidden);
    let (n, t) = (n as usize, t as usize);
    let (per_n, per_t) = strides(n, t, rule);
    let unit = UNIT_POS as usize;
    let row0 = CUBE_POS * rows;

    let mut left = Shared::<[Vector<f32, R>]>::new_slice(comptime!(walk.buffers * left_vectors));
    let mut left_n = Shared::<[Vector<f32, R>]>::new_slice(comptime!(walk.left_n_vectors()));
    let mut partial =
        Shared::<[Vector<f32, R>]>::new_slice(comptime!(team.partial_vectors(1).max(1)));

    let registers = load_weight::<F>(weight, 0usize.runtime(), last, team);
    let registers_n = load_weight::<F>(
        weight,
        0usize.runtime(),
        comptime!(Product {
            resident: candidate.resident && !rule.reset_after,
            ..candidate
        }),
        team,
    );

    // Rows of the left sides past their depth stay zero for the whole walk.
    let mut i = unit;
    while i < comptime!(walk.buffers * left_vectors) {
        left[i] = Vector::new(0.0);
        i += comptime!(team.units());
    }
    let mut i = unit;
    while i < comptime!(walk.left_n_vectors()) {
        left_n[i] = Vector::new(0.0);
        i += comptime!(team.units());
    }
    sync_cube();

    let mut dh = Array::<f32>::new(comptime!(owned * rows));
    let mut m = Array::<f32>::new(comptime!(owned * rows));
    #[unroll]
    for c in 0..owned {
        let j = min(unit + c * comptime!(team.units()), comptime!(hidden - 1));
        #[unroll]
        for b in 0..rows {
            let at = comptime!(c * rows + b);
            dh[at] = 0.0;
            m[at] = 1.0;
            #[comptime]
            if let ComptimeOption::Some(recurrent_mask) = &recurrent_mask {
                m[at] = f32::cast_from(recurrent_mask[min(row0 + b, n - 1) * hidden + j]);
            }
        }
    }

    let mut now = read_step::<F>(gates, d_states, states, h0, step_mask, t - 1, n, t, walk);
    for back in 0..t {
        let s = from_end(back, t);
        let time = if comptime!(rule.reverse) { back } else { s };
        let to = if comptime!(walk.buffers == 2) {
            (s % 2) * left_vectors
        } else {
            0usize.runtime()
        };

        // Through the blend.
        let mut r_of = Array::<f32>::new(comptime!(owned * rows));
        let mut g_of = Array::<f32>::new(comptime!(owned * rows));
        let mut skipped = Array::<f32>::new(comptime!(owned * rows));
        #[unroll]
        for c in 0..owned {
            let j = unit + c * comptime!(team.units());
            let safe_j = min(j, comptime!(hidden - 1));
            #[unroll]
            for v in 0..vectors {
                let mut left_r = Vector::<f32, R>::new(0.0);
                let mut left_z = Vector::<f32, R>::new(0.0);
                let mut left_dn = Vector::<f32, R>::new(0.0);
                #[unroll]
                for w in 0..width {
                    let b = comptime!(v * width + w);
                    let at = comptime!(c * rows + b);
                    let safe_n = min(row0 + b, n - 1);
                    let row = safe_n * per_n + time * per_t;
                    let gate = row * saved + safe_j;
                    let from = comptime!(at * READ);
                    let r = now[from];
                    let z = now[comptime!(from + 1)];
                    let new = now[comptime!(from + 2)];
                    let before = now[comptime!(from + 4)];
                    let skips = now[comptime!(from + 6)] == 1.0;
                    let d = dh[at] + now[comptime!(from + 5)];
                    let kept = kept::<F>(zoneout, row, safe_j, hidden, rule);
                    let back = blend_back(d, before, z, new, kept, skips, rule);
                    dh[at] = back.carry;
                    r_of[at] = r;
                    g_of[at] = m[at] * before;
                    skipped[at] = now[comptime!(from + 6)];
                    let inside = j < hidden && row0 + b < n;
                    if inside {
                        d_gates[gate + hidden] = F::cast_from(back.dz);
                        d_gates[gate + comptime!(2 * hidden)] = F::cast_from(back.dn);
                    }
                    left_z.insert(w, back.dz);
                    if comptime!(rule.reset_after) {
                        let q_n = now[comptime!(from + 3)];
                        let dr = back.dn * q_n * gate_slope(r, comptime!(rule.r));
                        let dr = select(skips, 0.0f32, dr);
                        let dq_n = select(skips, 0.0f32, back.dn * r);
                        if inside {
                            d_gates[gate] = F::cast_from(dr);
                            d_gates[gate + comptime!(3 * hidden)] = F::cast_from(dq_n);
                        }
                        left_r.insert(w, dr);
                        left_dn.insert(w, dq_n);
                    } else {
                        left_dn.insert(w, back.dn);
                    }
                }
                if j < hidden {
                    left[to + (hidden + j) * vectors + v] = left_z;
                    if comptime!(rule.reset_after) {
                        left[to + j * vectors + v] = left_r;
                        left[to + (comptime!(2 * hidden) + j) * vectors + v] = left_dn;
                    } else {
                        left_n[j * vectors + v] = left_dn;
                    }
                }
            }
        }
        sync_cube();

        // Asked for before the products, so that they hide the way from memory. In place this
        // reads ahead of what the step has written; after step 0 nobody uses it.
        let next = read_step::<F>(
            gates,
            d_states,
            states,
            h0,
            step_mask,
            max(s, 1) - 1,
            n,
            t,
            walk,
        );

        // Reset before the product: through the candidate's, which tells dr̄.
        if comptime!(!rule.reset_after) {
            let ds = multiply::<F, R>(
                &left_n,
                0usize.runtime(),
                weight,
                &registers_n,
                &mut partial,
                candidate,
                team,
            );
            #[unroll]
            for c in 0..owned {
                let j = unit + c * comptime!(team.units());
                #[unroll]
                for v in 0..vectors {
                    let mut left_r = Vector::<f32, R>::new(0.0);
                    #[unroll]
                    for w in 0..width {
                        let b = comptime!(v * width + w);
                        let at = comptime!(c * rows + b);
                        let r = r_of[at];
                        let ds = ds[comptime!(c * vectors + v)].extract(w);
                        let dr = ds * g_of[at] * gate_slope(r, comptime!(rule.r));
                        let skips = skipped[at] == 1.0;
                        let dr = select(skips, 0.0f32, dr);
                        let through = select(skips, 0.0f32, ds * r);
                        dh[at] += m[at] * through;
                        if j < hidden && row0 + b < n {
                            let row = (row0 + b) * per_n + time * per_t;
                            d_gates[row * saved + j] = F::cast_from(dr);
                        }
                        left_r.insert(w, dr);
                    }
                    if j < hidden {
                        left[j * vectors + v] = left_r;
                    }
                }
            }
            sync_cube();
        }

        // Through the last product.
        let dg = multiply::<F, R>(&left, to, weight, &registers, &mut partial, last, team);
        #[unroll]
        for c in 0..owned {
            #[unroll]
            for v in 0..vectors {
                #[unroll]
                for w in 0..width {
                    let at = comptime!(c * rows + v * width + w);
                    let through = m[at] * dg[comptime!(c * vectors + v)].extract(w);
                    dh[at] += select(skipped[at] == 1.0, 0.0f32, through);
                }
            }
        }
        #[unroll]
        for i in 0..comptime!(owned * rows * READ) {
            now[i] = next[i];
        }
        // A fast unit must not write a left side that a slow one still reads.
        if comptime!(walk.buffers == 1 && team.splits == 1) {
            sync_cube();
        }
    }

    #[unroll]
    for c in 0..owned {
        let j = unit + c * comptime!(team.units());
        #[unroll]
        for b in 0..rows {
            if j < hidden && row0 + b < n {
                d_h0[(row0 + b) * hidden + j] = F::cast_from(dh[comptime!(c * rows + b)]);
            }
        }
    }
}
