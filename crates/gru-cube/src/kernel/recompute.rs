//! Recomputes the gates of any number of steps, element by element, from their products.

use super::{gate::gate_value, rule::Rule, small::Small, tensors::biases};
use cubecl::prelude::*;

/// Which gates are recomputed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Reset after the product: r, z, n and q_n, from `q` of three gates.
    All,
    /// Reset before the product: r and z from `q` of two gates, and `r ⊙ g`, the lhs of the candidate's
    /// product.
    ResetAndUpdate,
    /// Reset before the product: n, from the candidate's product.
    Candidate,
}

impl Part {
    /// Columns of `q`, counted in H.
    pub(crate) fn products(self) -> usize {
        match self {
            Self::All => 3,
            Self::ResetAndUpdate => 2,
            Self::Candidate => 1,
        }
    }
}

/// Tensors and sizes.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Recomputed<F: Float> {
    pub(crate) p: &'static [F],
    pub(crate) q: &'static [F],
    pub(crate) b_ih: ComptimeOption<Small<F>>,
    pub(crate) b_hh: ComptimeOption<Small<F>>,
    pub(crate) g: ComptimeOption<&'static mut [F]>,
    pub(crate) gates: &'static mut [F],
    pub(crate) rows: usize,
}

/// See [`gates`](crate::gates()).
#[cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")]
pub(crate) fn gru_gates<F: Float>(
    args: &mut Recomputed<F>,
    #[comptime] rule: Rule,
    #[comptime] part: Part,
    #[define(F)] _dtype: ElemType,
) {
    let hidden = comptime!(rule.hidden);
    if ABSOLUTE_POS < args.rows * hidden {
        let (row, j) = (ABSOLUTE_POS / hidden, ABSOLUTE_POS % hidden);
        let bias = biases::<F>(args.b_ih, args.b_hh, j, rule);
        let p_at = row * comptime!(3 * hidden) + j;
        let q_at = row * comptime!(part.products() * hidden) + j;
        let at = row * comptime!(rule.saved() * hidden) + j;
        let mut r = 0.0f32;
        if comptime!(part != Part::Candidate) {
            let a_r = f32::cast_from(args.p[p_at]) + bias[0] + f32::cast_from(args.q[q_at]);
            let a_z = f32::cast_from(args.p[p_at + hidden])
                + bias[1]
                + f32::cast_from(args.q[q_at + hidden]);
            r = gate_value(a_r, comptime!(rule.r));
            args.gates[at] = F::cast_from(r);
            args.gates[at + hidden] = F::cast_from(gate_value(a_z, comptime!(rule.z)));
        }
        if comptime!(part == Part::ResetAndUpdate) {
            #[comptime]
            if let ComptimeOption::Some(g) = args.g.as_mut() {
                let old = f32::cast_from(g[ABSOLUTE_POS]);
                g[ABSOLUTE_POS] = F::cast_from(r * old);
            }
        } else {
            let p_n = f32::cast_from(args.p[p_at + comptime!(2 * hidden)]) + bias[2];
            let a_n = if comptime!(part == Part::All) {
                let q_n = f32::cast_from(args.q[q_at + comptime!(2 * hidden)]) + bias[3];
                args.gates[at + comptime!(3 * hidden)] = F::cast_from(q_n);
                p_n + r * q_n
            } else {
                p_n + f32::cast_from(args.q[q_at])
            };
            args.gates[at + comptime!(2 * hidden)] =
                F::cast_from(gate_value(a_n, comptime!(rule.n)));
        }
    }
}
