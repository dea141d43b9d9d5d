//! Which steps of which rows count: lengths, and masks with holes.

use crate::{op::check::Checked, op::options::Padding};
use burn::tensor::{Bool, Int, Tensor, TensorData};
use gru_spec::{Direction, Order};
use std::cell::OnceCell;

/// What the layers of a block share in a call.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    /// Made by the first of them, after its checks.
    pub(crate) skips: &'a OnceCell<Option<Skips>>,
    /// Whether this is not the first layer, and its sequence therefore an output of another one.
    pub(crate) above: bool,
}

/// What skipped steps ask of a call.
pub(crate) struct Skips {
    /// 1 where the step counts, 0 elsewhere; `[N,T]` or `[T,N]`.
    pub(crate) step_mask: Tensor<2>,
    /// Where it does not.
    skipped: Tensor<2, Bool>,
    /// Whether a step that does not count repeats the output before, or is zero: a mask, or lengths.
    repeats: bool,
}

impl Skips {
    /// None where every step counts, or there is none.
    pub(crate) fn new(
        padding: &Padding,
        sizes: &Checked,
        order: Order,
        x: &Tensor<3>,
    ) -> Option<Self> {
        if sizes.n == 0 || sizes.t == 0 {
            return None;
        }
        let (skipped, repeats) = match padding {
            Padding::None => return None,
            Padding::Lengths(lengths) if lengths.iter().all(|&len| len == sizes.t) => return None,
            Padding::Lengths(lengths) => (past_the_end(lengths, sizes, order, x), false),
            Padding::Mask(mask) => (mask.clone().bool_not(), true),
        };
        let step_mask = skipped.clone().bool_not().float().cast(x.dtype());
        Some(Self {
            step_mask,
            skipped,
            repeats,
        })
    }

    /// A sequence with zeros at the steps that do not count. Padding may hold anything, and
    /// nothing times zero is not always nothing. An output of the layer below is zero there already, if
    /// lengths say which steps count.
    pub(crate) fn silence(&self, x: Tensor<3>, above: bool) -> Tensor<3> {
        if above && !self.repeats {
            x
        } else {
            without(x, self.skipped.clone())
        }
    }

    /// The output for these states.
    pub(crate) fn output(&self, states: Tensor<3>, order: Order) -> Tensor<3> {
        let zero = if self.repeats {
            before_the_first(self.skipped.clone().bool_not(), order)
        } else {
            self.skipped.clone()
        };
        without(states, zero)
    }
}

/// The sequence with zeros at these steps.
fn without(sequence: Tensor<3>, steps: Tensor<2, Bool>) -> Tensor<3> {
    match sequence.dims() {
        // Nothing to fill, and Burn expands to no feature at all by a panic.
        [_, _, 0] => sequence,
        shape => sequence.mask_fill(steps.unsqueeze_dim::<3>(2).expand(shape), 0),
    }
}

fn past_the_end(
    lengths: &[usize],
    sizes: &Checked,
    order: Order,
    x: &Tensor<3>,
) -> Tensor<2, Bool> {
    let (n, t) = (sizes.n, sizes.t);
    let shape = order.layout.split([n, t]);
    let places = (0..shape[0]).flat_map(|first| (0..shape[1]).map(move |second| [first, second]));
    let past = places.map(|place| {
        let [n, t] = order.layout.split(place);
        t >= lengths[n]
    });
    Tensor::from_data(TensorData::new(past.collect(), shape), &x.device())
}

/// Where no step counted yet, in the direction of the walk.
fn before_the_first(mask: Tensor<2, Bool>, order: Order) -> Tensor<2, Bool> {
    let dim = order.layout.time_dim();
    let count = |steps: Tensor<2, Int>| steps.cumsum(dim);
    let counted = match order.direction {
        Direction::Forward => count(mask.int()),
        Direction::Reverse => count(mask.int().flip([dim])).flip([dim]),
    };
    counted.equal_elem(0)
}
