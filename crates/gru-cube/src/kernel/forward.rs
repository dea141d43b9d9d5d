//! The forward walk: one launch for a whole sequence.

use super::{
    gate::{blend, clip, gate_value},
    product::{load_weight, multiply},
    step::{biases, from_end, kept, state_before, strides, window, zone_out},
    team::{Product, Team},
};
use crate::kernel::rule::Rule;
use cubecl::prelude::*;

/// What the forward walk is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ForwardWalk {
    pub(crate) rule: Rule,
    pub(crate) team: Team,
    /// H.
    pub(crate) hidden: usize,
    /// The weight stays in registers.
    pub(crate) resident: bool,
    /// Buffers of the left side. With one split, and the reset gate after the product, a second
    /// one keeps a fast unit's new state apart from the old one that a slow unit still reads;
    /// with a single one a step has one more barrier.
    pub(crate) buffers: usize,
}

impl ForwardWalk {
    /// The product with `w_hh`'s gates `first..first + outs`.
    fn product(&self, first: usize, outs: usize) -> Product {
        Product {
            depth: self.hidden,
            outs,
            base: first * self.hidden,
            per_k: 3 * self.hidden,
            per_out: self.hidden,
            per_j: 1,
            columns: self.hidden,
            stage: self.hidden,
            resident: self.resident,
        }
    }

    /// The first product of a step: all gates, or r and z where r changes the left side of n's.
    pub(crate) fn first(&self) -> Product {
        self.product(0, if self.rule.reset_after { 3 } else { 2 })
    }

    /// The product of the candidate, where it stands alone.
    pub(crate) fn second(&self) -> Product {
        self.product(2, 1)
    }

    /// Vectors of one buffer of the left side.
    fn left_vectors(&self) -> usize {
        self.first().padded_stage(&self.team) * self.team.vectors()
    }

    /// Vectors of shared memory: left sides and partial sums.
    pub(crate) fn shared_vectors(&self) -> usize {
        let lefts = self.buffers + usize::from(!self.rule.reset_after);
        let partial = self.team.partial_vectors(self.first().outs).max(1);
        lefts * self.left_vectors() + partial
    }
}

/// See [`forward`](crate::forward()).
#[cfg_attr(
    test,
    cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")
)]
#[cfg_attr(not(test), cube(launch_unchecked, address_type = "dynamic"))]
pub(crate) fn gru_forward_walk<F: Float, R: Size>(
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
    n: u32,
    t: u32,
    first_step: u32,
    last_step: u32,
    #[comptime] walk: ForwardWalk,
    #[define(F)] _dtype: ElemType,
) {
    let (rule, team, hidden) = comptime!((walk.rule, walk.team, walk.hidden));
    let (rows, width, vectors, owned) =
        comptime!((team.rows, team.width, team.vectors(), team.owned()));
    let (first, second) = comptime!((walk.first(), walk.second()));
    let outs = comptime!(first.outs);
    let left_vectors = comptime!(walk.left_vectors());
    let saved = comptime!(rule.saved());
    let (n, t) = (n as usize, t as usize);
    let (per_n, per_t) = strides(n, t, rule);
    let (first_step, last_step) = (first_step as usize, last_step as usize);
    let (p_from, p_steps) = window(t, first_step, last_step, rule);
    let (p_per_n, p_per_t) = strides(n, p_steps, rule);
    let unit = UNIT_POS as usize;
    let row0 = CUBE_POS * rows;

    let mut left = Shared::<[Vector<f32, R>]>::new_slice(comptime!(walk.buffers * left_vectors));
    let mut left_n = Shared::<[Vector<f32, R>]>::new_slice(comptime!(if rule.reset_after {
        1
    } else {
        left_vectors
    }));
    let mut partial =
        Shared::<[Vector<f32, R>]>::new_slice(comptime!(team.partial_vectors(outs).max(1)));

    let weight = load_weight::<F>(w_hh, 0usize.runtime(), first, team);
    let weight_n = load_weight::<F>(
        w_hh,
        0usize.runtime(),
        comptime!(Product {
            resident: second.resident && !rule.reset_after,
            ..second
        }),
        team,
    );

    // Rows of the left side past H stay zero for the whole walk.
    let mut i = unit;
    while i < comptime!(walk.buffers * left_vectors) {
        left[i] = Vector::new(0.0);
        i += comptime!(team.units());
    }
    if comptime!(!rule.reset_after) {
        let mut i = unit;
        while i < left_vectors {
            left_n[i] = Vector::new(0.0);
            i += comptime!(team.units());
        }
    }
    sync_cube();

    // What a unit keeps of the columns it owns.
    let mut h = Array::<f32>::new(comptime!(owned * rows));
    let mut m = Array::<f32>::new(comptime!(owned * rows));
    let mut bias = Array::<f32>::new(comptime!(owned * 3));
    let mut bias_n = Array::<f32>::new(owned);
    #[unroll]
    for c in 0..owned {
        let j = min(unit + c * comptime!(team.units()), comptime!(hidden - 1));
        let of_column = biases::<F>(b_ih, b_hh, j, hidden, rule);
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
                let row = min(row0 + b, n - 1);
                h[at] = state_before::<F>(&*states, h0, first_step, row, j, n, t, hidden, rule);
                m[at] = 1.0;
                #[comptime]
                if let ComptimeOption::Some(recurrent_mask) = recurrent_mask {
                    m[at] = f32::cast_from(recurrent_mask[row * hidden + j]);
                }
                g.insert(w, m[at] * h[at]);
            }
            if unit + c * comptime!(team.units()) < hidden {
                left[j * vectors + v] = g;
            }
        }
    }
    sync_cube();

    for s in first_step..last_step {
        let time = if comptime!(rule.reverse) {
            from_end(s, t)
        } else {
            s
        };
        let from = if comptime!(walk.buffers == 2) {
            ((s - first_step) % 2) * left_vectors
        } else {
            0usize.runtime()
        };
        let to = if comptime!(walk.buffers == 2) {
            left_vectors - from
        } else {
            0usize.runtime()
        };

        // Asked for before the product, so that the product hides the way from memory.
        let mut a = Array::<f32>::new(comptime!(owned * rows * 3));
        #[unroll]
        for c in 0..owned {
            let j = min(unit + c * comptime!(team.units()), comptime!(hidden - 1));
            #[unroll]
            for b in 0..rows {
                let row = min(row0 + b, n - 1) * p_per_n + (time - p_from) * p_per_t;
                #[unroll]
                for gate in 0..3usize {
                    a[comptime!((c * rows + b) * 3 + gate)] =
                        f32::cast_from(p[row * comptime!(3 * hidden) + gate * hidden + j])
                            + bias[comptime!(c * 3 + gate)];
                }
            }
        }

        let q = multiply::<F, R>(&left, from, w_hh, &weight, &mut partial, first, team);
        if comptime!(walk.buffers == 1 && team.splits == 1 && rule.reset_after) {
            sync_cube();
        }

        // Reset before the product: r changes the left side of the candidate's product.
        let mut z_of = Array::<f32>::new(comptime!(owned * rows));
        let mut r_of = Array::<f32>::new(comptime!(owned * rows));
        #[unroll]
        for c in 0..owned {
            let j = unit + c * comptime!(team.units());
            #[unroll]
            for v in 0..vectors {
                let mut rg = Vector::<f32, R>::new(0.0);
                #[unroll]
                for w in 0..width {
                    let b = comptime!(v * width + w);
                    let at = comptime!(c * rows + b);
                    let q_r = q[comptime!((c * outs) * vectors + v)].extract(w);
                    let q_z = q[comptime!((c * outs + 1) * vectors + v)].extract(w);
                    let r = gate_value(a[comptime!(at * 3)] + q_r, comptime!(rule.r));
                    z_of[at] = gate_value(a[comptime!(at * 3 + 1)] + q_z, comptime!(rule.z));
                    r_of[at] = r;
                    rg.insert(w, r * m[at] * h[at]);
                }
                if comptime!(!rule.reset_after) {
                    if j < hidden {
                        left_n[j * vectors + v] = rg;
                    }
                }
            }
        }
        let q_n = if comptime!(rule.reset_after) {
            let mut q_n = Array::<Vector<f32, R>>::new(comptime!(owned * vectors));
            #[unroll]
            for c in 0..owned {
                #[unroll]
                for v in 0..vectors {
                    q_n[comptime!(c * vectors + v)] = q[comptime!((c * outs + 2) * vectors + v)];
                }
            }
            q_n
        } else {
            sync_cube();
            multiply::<F, R>(
                &left_n,
                0usize.runtime(),
                w_hh,
                &weight_n,
                &mut partial,
                second,
                team,
            )
        };

        #[unroll]
        for c in 0..owned {
            let j = unit + c * comptime!(team.units());
            #[unroll]
            for v in 0..vectors {
                let mut g = Vector::<f32, R>::new(0.0);
                #[unroll]
                for w in 0..width {
                    let b = comptime!(v * width + w);
                    let at = comptime!(c * rows + b);
                    let q = q_n[comptime!(c * vectors + v)].extract(w) + bias_n[c];
                    let (r, z) = (r_of[at], z_of[at]);
                    let a_n = if comptime!(rule.reset_after) {
                        a[comptime!(at * 3 + 2)] + r * q
                    } else {
                        a[comptime!(at * 3 + 2)] + q
                    };
                    let new = gate_value(a_n, comptime!(rule.n));
                    let u = clip(blend(h[at], z, new, rule), comptime!(rule.clip_state));
                    let row = min(row0 + b, n - 1) * per_n + time * per_t;
                    let safe_j = min(j, comptime!(hidden - 1));
                    let kept = kept::<F>(zoneout, row, safe_j, hidden, rule);
                    let u = zone_out(u, h[at], kept, rule);
                    #[comptime]
                    let next = match step_mask {
                        ComptimeOption::Some(step_mask) => {
                            select(f32::cast_from(step_mask[row]) == 0.0, h[at], u)
                        }
                        ComptimeOption::None => u,
                    };
                    h[at] = next;
                    g.insert(w, m[at] * next);
                    if j < hidden && row0 + b < n {
                        states[row * hidden + j] = F::cast_from(next);
                        #[comptime]
                        if let ComptimeOption::Some(gates) = gates.as_mut() {
                            let at = row * comptime!(saved * hidden) + j;
                            gates[at] = F::cast_from(r);
                            gates[at + hidden] = F::cast_from(z);
                            gates[at + comptime!(2 * hidden)] = F::cast_from(new);
                            if comptime!(rule.reset_after) {
                                gates[at + comptime!(3 * hidden)] = F::cast_from(q);
                            }
                        }
                    }
                }
                if j < hidden {
                    left[to + j * vectors + v] = g;
                }
            }
        }
        sync_cube();
    }
}
