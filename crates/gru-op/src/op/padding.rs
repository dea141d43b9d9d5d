//! Skipped steps: from lengths, or from a mask with holes.

use crate::op::options::{Padding, Starts};
use burn::tensor::{Bool, Int, Tensor, TensorData};
use gru_spec::{Direction, Layout, Order};

/// Lengths or a mask as tensors, prepared once per call of a block.
pub(crate) struct PreparedPadding {
    /// 1 at valid steps, 0 at skipped ones, `[N,T]` or `[T,N]`.
    pub(crate) step_mask: Tensor<2>,
    skipped: Tensor<2, Bool>,
    /// Whether the output of a skipped step repeats the previous output, for a mask. It is zero for lengths.
    pub(crate) repeats: bool,
}

impl PreparedPadding {
    /// `None` if no step is skipped. The arguments were checked.
    pub(crate) fn new(padding: &Padding, layout: Layout, x: &Tensor<3>) -> Option<Self> {
        let [first, second, _] = x.dims();
        let [n, t] = layout.split([first, second]);
        if n == 0 || t == 0 {
            return None;
        }
        let (skipped, repeats) = match padding {
            Padding::None => return None,
            Padding::Lengths(lengths) if lengths.iter().all(|&len| len == t) => return None,
            Padding::Lengths(lengths) => (past_the_end(lengths, layout, x), false),
            Padding::Mask(mask) => (mask.clone().bool_not(), true),
        };
        let step_mask = skipped.clone().bool_not().float().cast(x.dtype());
        Some(Self {
            step_mask,
            skipped,
            repeats,
        })
    }

    /// The input with zeros at skipped steps. It may be NaN there, so a product with 0 does not mask it.
    pub(crate) fn input(&self, x: Tensor<3>) -> Tensor<3> {
        zeroed(x, self.skipped.clone())
    }

    /// Removes the starts past the end of a row. A mask keeps its starts: the row restarts, and then skips.
    pub(crate) fn drop_starts<const D: usize>(&self, starts: &mut Starts<D>) {
        if !self.repeats {
            let flags = starts.flags.take();
            let valid = || self.skipped.clone().bool_not();
            starts.flags = flags.map(|flags| flags.bool_and(valid()));
        }
    }

    /// The output for these states.
    pub(crate) fn output(
        &self,
        states: Tensor<3>,
        order: Order,
        starts: Option<Tensor<2, Bool>>,
    ) -> Tensor<3> {
        let zero = if self.repeats {
            before_the_first(self.skipped.clone().bool_not(), starts, order)
        } else {
            self.skipped.clone()
        };
        zeroed(states, zero)
    }
}

/// The sequence with zeros at these steps.
fn zeroed(sequence: Tensor<3>, steps: Tensor<2, Bool>) -> Tensor<3> {
    match sequence.dims() {
        // Burn panics when it expands to zero features.
        [_, _, 0] => sequence,
        shape => sequence.mask_fill(steps.unsqueeze_dim::<3>(2).expand(shape), 0),
    }
}

fn past_the_end(lengths: &[usize], layout: Layout, x: &Tensor<3>) -> Tensor<2, Bool> {
    let [first, second, _] = x.dims();
    let places = (0..first).flat_map(|first| (0..second).map(move |second| [first, second]));
    let past = places.map(|place| {
        let [n, t] = layout.split(place);
        t >= lengths[n]
    });
    Tensor::from_data(
        TensorData::new(past.collect(), [first, second]),
        &x.device(),
    )
}

/// The steps before the first valid step of each sequence, in the direction of time.
fn before_the_first(
    mask: Tensor<2, Bool>,
    starts: Option<Tensor<2, Bool>>,
    order: Order,
) -> Tensor<2, Bool> {
    let dim = order.layout.time_dim();
    let in_order = |steps: Tensor<2, Int>| match order.direction {
        Direction::Forward => steps,
        Direction::Reverse => steps.flip([dim]),
    };
    let valid = in_order(mask.int());
    let count = valid.clone().cumsum(dim);
    let count = match starts {
        None => count,
        Some(starts) => {
            let starts = match order.direction {
                Direction::Forward => starts.int(),
                // The start at time t lies before the step at t − 1.
                Direction::Reverse => {
                    let t = starts.dims()[dim];
                    let all = starts.int().flip([dim]);
                    let none = all.clone().narrow(dim, 0, 1).zeros_like();
                    Tensor::cat(vec![none, all.narrow(dim, 0, t - 1)], dim)
                }
            };
            // The valid steps before the latest start.
            let earlier = ((count.clone() - valid) * starts).cummax(dim);
            count - earlier
        }
    };
    in_order(count).equal_elem(0)
}
