//! Skipped steps: from lengths, or from a mask with holes.

use crate::op::options::Padding;
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

    /// The output for these states.
    pub(crate) fn output(&self, states: Tensor<3>, order: Order) -> Tensor<3> {
        let zero = if self.repeats {
            before_the_first(self.skipped.clone().bool_not(), order)
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

/// The steps before the first valid step, in the direction of time.
fn before_the_first(mask: Tensor<2, Bool>, order: Order) -> Tensor<2, Bool> {
    let dim = order.layout.time_dim();
    let count = |steps: Tensor<2, Int>| steps.cumsum(dim);
    let counted = match order.direction {
        Direction::Forward => count(mask.int()),
        Direction::Reverse => count(mask.int().flip([dim])).flip([dim]),
    };
    counted.equal_elem(0)
}
