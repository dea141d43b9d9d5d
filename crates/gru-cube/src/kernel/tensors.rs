//! The tensors of a sequence, and where a kernel reads and writes them.

use super::{
    rule::{Rule, Starts, ZoneoutKind},
    small::Small,
};
use cubecl::prelude::*;

/// Tensors and sizes of a forward pass. `H` is in the [`Rule`].
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Forward<F: Float> {
    /// `x·w_ih` of the steps `first..last`.
    pub(crate) p: &'static [F],
    pub(crate) w_hh: &'static [F],
    pub(crate) b_ih: ComptimeOption<Small<F>>,
    pub(crate) b_hh: ComptimeOption<Small<F>>,
    pub(crate) h0: ComptimeOption<Small<F>>,
    pub(crate) recurrent_mask: ComptimeOption<Small<F>>,
    pub(crate) step_mask: ComptimeOption<Small<F>>,
    pub(crate) zoneout: ComptimeOption<Small<F>>,
    pub(crate) states: &'static mut [F],
    pub(crate) gates: ComptimeOption<&'static mut [F]>,
    /// Scratch memory of step kernels. With the reset before the product: `r ⊙ g | z` of each row, `[N,2H]`.
    /// Then, with 16-bit states: the state before and after the step in float32, `[2,N,H]`.
    pub(crate) scratch: ComptimeOption<&'static mut [f32]>,
    pub(crate) n: usize,
    pub(crate) t: usize,
    /// Rows of the batch that step kernels compute: the first rows. The others have no steps in this launch.
    pub(crate) rows: usize,
    /// First step of the call, in the order of computation.
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// Tensors and sizes of a backward pass.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Backward<F: Float> {
    /// The first buffer, because `d_gates` may be an alias of buffer 0.
    pub(crate) gates: &'static [F],
    pub(crate) d_states: &'static [F],
    pub(crate) states: &'static [F],
    /// `w_hh`, transposed to `[3H,H]` if the kernel requires it.
    pub(crate) weight: &'static [F],
    pub(crate) h0: ComptimeOption<Small<F>>,
    pub(crate) recurrent_mask: ComptimeOption<Small<F>>,
    pub(crate) step_mask: ComptimeOption<Small<F>>,
    pub(crate) zoneout: ComptimeOption<Small<F>>,
    pub(crate) d_gates: &'static mut [F],
    /// `[N,H]`. Rows N..2N: the gradient of the start state, if there is one. Step kernels store the gradient
    /// of the previous state here, as far as it does not need the next product.
    pub(crate) d_h0: &'static mut [f32],
    pub(crate) n: usize,
    pub(crate) t: usize,
    /// Rows of the batch that step kernels compute: the first rows. The others have no steps in this launch.
    pub(crate) rows: usize,
}

/// Distance between two rows of the batch, and between two steps.
#[cube]
pub(crate) fn strides(n: usize, t: usize, #[comptime] rule: Rule) -> (usize, usize) {
    if comptime!(rule.time_major) {
        (1usize.runtime(), n)
    } else {
        (t, 1usize.runtime())
    }
}

/// Index in time of step `s` in the order of computation.
#[cube]
pub(crate) fn time_of(s: usize, t: usize, #[comptime] rule: Rule) -> usize {
    if comptime!(rule.reverse) {
        from_end(s, t)
    } else {
        s
    }
}

/// `t − 1 − s`, or 0 for s = t.
#[cube]
pub(crate) fn from_end(s: usize, t: usize) -> usize {
    max(t - 1, s) - s
}

/// Step `s`, or the last step of a launch that ends before step `last`. Mesa's software driver runs one more iteration of a
/// loop over steps with all threads disabled, and still reads. Backward, [`from_end`] and [`down`] have the same purpose.
#[cube]
pub(crate) fn up(s: usize, last: u32) -> usize {
    min(s, last as usize - 1)
}

/// The step at the place of `back` among `first..last` from the last to the first.
#[cube]
pub(crate) fn down(back: usize, first: u32, last: u32) -> usize {
    max(first as usize + last as usize - 1, back) - back
}

/// First index in time of the steps `first..last`, and their number.
#[cube]
pub(crate) fn window(
    t: usize,
    first: usize,
    last: usize,
    #[comptime] rule: Rule,
) -> (usize, usize) {
    let from = if comptime!(rule.reverse) {
        t - last
    } else {
        first
    };
    (from, last - first)
}

/// A hidden unit of a row of the batch at step `s`.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct Place {
    pub(crate) s: usize,
    pub(crate) row: usize,
    pub(crate) j: usize,
}

#[cube]
pub(crate) fn place_at(s: usize, row: usize, j: usize) -> Place {
    Place { s, row, j }
}

/// The state before step `s`: the start state if the row starts there.
#[cube]
pub(crate) fn previous_state<F: Float>(
    states: &[F],
    h0: ComptimeOption<Small<F>>,
    step_mask: ComptimeOption<Small<F>>,
    place: Place,
    n: usize,
    t: usize,
    #[comptime] rule: Rule,
) -> f32 {
    let stored = stored_state::<F>(states, h0, place, n, t, rule);
    after_start::<F>(stored, h0, step_mask, place, n, t, rule)
}

/// The state that the step before `s` has stored, or the initial state.
#[cube]
pub(crate) fn stored_state<F: Float>(
    states: &[F],
    h0: ComptimeOption<Small<F>>,
    place: Place,
    n: usize,
    t: usize,
    #[comptime] rule: Rule,
) -> f32 {
    let Place { s, row, j } = place;
    let (n_stride, t_stride) = strides(n, t, rule);
    let mut previous = 0.0f32;
    if s > 0 {
        // Mesa's software driver may read for a branch that no thread takes. So step 0 reads at step 0.
        let time = time_of(max(s, 1) - 1, t, rule);
        let at = (row * n_stride + time * t_stride) * comptime!(rule.hidden) + j;
        previous = f32::cast_from(states[at]);
    } else {
        #[comptime]
        if let ComptimeOption::Some(h0) = &h0 {
            previous = h0.at(row * comptime!(rule.hidden) + j);
        }
    }
    previous
}

/// `state`, or the start state if the row starts before step `s`. A branch, not a product: NaN does not cross.
#[cube]
pub(crate) fn after_start<F: Float>(
    state: f32,
    h0: ComptimeOption<Small<F>>,
    step_mask: ComptimeOption<Small<F>>,
    place: Place,
    n: usize,
    t: usize,
    #[comptime] rule: Rule,
) -> f32 {
    if comptime!(rule.starts == Starts::None) {
        state
    } else {
        let (n_stride, t_stride) = strides(n, t, rule);
        let at = place.row * n_stride + time_of(place.s, t, rule) * t_stride;
        let mut after = state;
        if starts(code_of::<F>(step_mask, at)) {
            after = 0.0;
            if comptime!(rule.starts == Starts::FromState) {
                #[comptime]
                if let ComptimeOption::Some(h0) = &h0 {
                    let of_start = (n + place.row) * comptime!(rule.hidden) + place.j;
                    after = h0.at(of_start);
                }
            }
        }
        after
    }
}

/// The code of a step, see [`Starts`]: of a valid step without a start, if there is no mask.
#[cube]
pub(crate) fn code_of<F: Float>(step_mask: ComptimeOption<Small<F>>, row: usize) -> f32 {
    #[comptime]
    match step_mask {
        ComptimeOption::Some(step_mask) => step_mask.at(row),
        ComptimeOption::None => 1.0f32.runtime(),
    }
}

/// Whether this is the code of a step before which the row starts.
#[cube]
pub(crate) fn starts(code: f32) -> bool {
    code >= 2.0
}

/// Whether this is the code of a skipped step.
#[cube]
pub(crate) fn skips(code: f32, #[comptime] starts: Starts) -> bool {
    if comptime!(starts == Starts::None) {
        code == 0.0
    } else {
        code == 0.0 || code == 2.0
    }
}

/// The share of the previous state that is kept. `row` counts batch rows and steps in the order of the
/// states.
#[cube]
pub(crate) fn kept_share<F: Float>(
    zoneout: ComptimeOption<Small<F>>,
    row: usize,
    j: usize,
    #[comptime] rule: Rule,
) -> f32 {
    #[comptime]
    match zoneout {
        ComptimeOption::Some(zoneout) => {
            if comptime!(rule.zoneout == ZoneoutKind::OfUnit) {
                zoneout.at(row * comptime!(rule.hidden) + j)
            } else {
                zoneout.at(row)
            }
        }
        ComptimeOption::None => 0.0f32.runtime(),
    }
}

/// `value`, or `otherwise` if a step of a row is skipped.
#[cube]
pub(crate) fn unless_skipped<F: Float>(
    step_mask: ComptimeOption<Small<F>>,
    row: usize,
    value: f32,
    otherwise: f32,
    #[comptime] rule: Rule,
) -> f32 {
    #[comptime]
    match step_mask {
        ComptimeOption::Some(step_mask) => {
            let skipped = skips(step_mask.at(row), rule.starts);
            select(skipped, otherwise, value)
        }
        ComptimeOption::None => value,
    }
}

/// A state times the recurrent mask, if there is one.
#[cube]
pub(crate) fn masked<F: Float>(
    state: f32,
    recurrent_mask: ComptimeOption<Small<F>>,
    at: usize,
) -> f32 {
    #[comptime]
    match recurrent_mask {
        ComptimeOption::Some(recurrent_mask) => state * recurrent_mask.at(at),
        ComptimeOption::None => state,
    }
}

/// The recurrent mask of a row and hidden unit, or 1.
#[cube]
pub(crate) fn mask_of<F: Float>(recurrent_mask: ComptimeOption<Small<F>>, at: usize) -> f32 {
    #[comptime]
    match recurrent_mask {
        ComptimeOption::Some(recurrent_mask) => recurrent_mask.at(at),
        ComptimeOption::None => 1.0f32.runtime(),
    }
}

/// The biases of a hidden unit: what is added to `p` for each gate, and for the reset after the product
/// the part of the candidate's bias that r multiplies.
#[cube]
pub(crate) fn biases<F: Float>(
    b_ih: ComptimeOption<Small<F>>,
    b_hh: ComptimeOption<Small<F>>,
    j: usize,
    #[comptime] rule: Rule,
) -> Array<f32> {
    let mut bias = Array::<f32>::new(4usize);
    #[unroll]
    for gate in 0..4usize {
        bias[gate] = 0.0;
    }
    #[unroll]
    for gate in 0..3usize {
        #[comptime]
        if let ComptimeOption::Some(b_ih) = &b_ih {
            bias[gate] += b_ih.at(gate * comptime!(rule.hidden) + j);
        }
        #[comptime]
        if let ComptimeOption::Some(b_hh) = &b_hh {
            let to = comptime!(if rule.reset_after && gate == 2 {
                3
            } else {
                gate
            });
            bias[to] += b_hh.at(gate * comptime!(rule.hidden) + j);
        }
    }
    bias
}
