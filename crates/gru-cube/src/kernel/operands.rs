//! The lhs operands of the weight gradients, element by element.

use super::{
    rule::Starts,
    small::Small,
    tensors::{code_of, skips, starts},
};
use cubecl::prelude::*;

/// What the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OperandRule {
    /// Columns of the gates, counted in H.
    pub(crate) saved: usize,
    /// `[T,N,·]` instead of `[N,T,·]`.
    pub(crate) time_major: bool,
    /// Steps are computed from the last in time to the first.
    pub(crate) reverse: bool,
    pub(crate) starts: Starts,
}

/// Tensors and sizes.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Operands<F: Float> {
    pub(crate) states: &'static [F],
    pub(crate) h0: ComptimeOption<Small<F>>,
    pub(crate) recurrent_mask: ComptimeOption<Small<F>>,
    pub(crate) step_mask: ComptimeOption<Small<F>>,
    pub(crate) gates: ComptimeOption<&'static [F]>,
    pub(crate) g: &'static mut [F],
    pub(crate) n: usize,
    pub(crate) t: usize,
    pub(crate) h: usize,
}

/// See [`recurrent_inputs`](crate::recurrent_inputs()).
#[cube(launch_unchecked, create_dummy_kernel, address_type = "dynamic")]
pub(crate) fn gru_recurrent_inputs<F: Float>(
    args: &mut Operands<F>,
    #[comptime] rule: OperandRule,
    #[define(F)] _dtype: ElemType,
) {
    let (n, t, h) = (args.n, args.t, args.h);
    if ABSOLUTE_POS < n * t * h {
        let (row, j) = (ABSOLUTE_POS / h, ABSOLUTE_POS % h);
        let (k, time) = if comptime!(rule.time_major) {
            (row % n, row / n)
        } else {
            (row / t, row % t)
        };
        let per_t = if comptime!(rule.time_major) {
            n
        } else {
            1usize.runtime()
        };
        let first = if comptime!(rule.reverse) {
            t - 1
        } else {
            0usize.runtime()
        };
        let mut x = 0.0f32;
        if time == first {
            #[comptime]
            if let ComptimeOption::Some(h0) = &args.h0 {
                x = h0.at(k * h + j);
            }
        } else {
            // Mesa's software driver may read for a branch that no thread takes.
            let before = if comptime!(rule.reverse) {
                min(row + per_t, n * t - 1)
            } else {
                max(row, per_t) - per_t
            };
            x = f32::cast_from(args.states[before * h + j]);
        }
        if comptime!(rule.starts != Starts::None) {
            if starts(code_of::<F>(args.step_mask, row)) {
                x = 0.0;
                if comptime!(rule.starts == Starts::FromState) {
                    #[comptime]
                    if let ComptimeOption::Some(h0) = &args.h0 {
                        x = h0.at((n + k) * h + j);
                    }
                }
            }
        }
        #[comptime]
        if let ComptimeOption::Some(recurrent_mask) = &args.recurrent_mask {
            x *= recurrent_mask.at(k * h + j);
        }
        #[comptime]
        if let ComptimeOption::Some(gates) = &args.gates {
            x *= f32::cast_from(gates[row * comptime!(rule.saved) * h + j]);
        }
        #[comptime]
        if let ComptimeOption::Some(step_mask) = &args.step_mask {
            let skipped = skips(step_mask.at(row), rule.starts);
            x = select(skipped, 0.0f32, x);
        }
        args.g[ABSOLUTE_POS] = F::cast_from(x);
    }
}
