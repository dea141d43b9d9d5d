//! Skipped steps of a mask with holes, and the final state of rows of different lengths.

use crate::{backend::padded::row_numbers, op::shape};
use burn::{
    backend::Dispatch,
    tensor::{Bool, Int, IntDType, Tensor, TensorData},
};
use gru_spec::{Direction, Lengths, Order, Sizes};

/// The state `[N,H]` after the last step of each row of at most `t` steps, or its initial state if it has no steps.
pub(crate) fn state_at_the_end(
    states: &Tensor<3>,
    lengths: &Lengths,
    t: usize,
    order: Order,
    h0: Option<Tensor<2>>,
) -> Tensor<2> {
    let ([first, second, h], device) = (states.dims(), states.device());
    let of_rows = lengths.of_rows().unwrap_or_default();
    let n = of_rows.len();
    if n * h == 0 {
        return shape::reshape(states.clone(), [n, h]);
    }
    let places = lengths.last_places(Sizes { n, t, i: 0, h }, order);
    // The state of a row without steps is replaced below.
    let last = places.map(|place| place.unwrap_or(0) as i64).collect();
    let rows = states.clone().reshape([first * second, h]);
    let last = row_numbers::<Dispatch>(last, device.as_dispatch());
    let last = rows.select(0, Tensor::from_dispatch(last));
    if of_rows.iter().all(|&len| len > 0) {
        return last;
    }
    let is_empty: Vec<bool> = of_rows.iter().map(|&len| len == 0).collect();
    let is_empty = Tensor::<2, Bool>::from_data(TensorData::new(is_empty, [n, 1]), &device);
    let is_empty = is_empty.expand([n, h]);
    match h0 {
        Some(h0) => last.mask_where(is_empty, h0),
        None => last.mask_fill(is_empty, 0),
    }
}

/// The sequence with zeros at these steps.
pub(crate) fn zeroed(sequence: Tensor<3>, steps: Tensor<2, Bool>) -> Tensor<3> {
    match sequence.dims() {
        // Burn panics when it expands to zero features.
        [_, _, 0] => sequence,
        shape => sequence.mask_fill(steps.unsqueeze_dim::<3>(2).expand(shape), 0),
    }
}

/// The steps before the first valid step of each sequence, in the direction of time. A skipped step repeats the previous
/// output, which is the state. Before the first valid step there is none.
pub(crate) fn before_the_first(
    mask: Tensor<2, Bool>,
    starts: Option<Tensor<2, Bool>>,
    order: Order,
) -> Tensor<2, Bool> {
    let dim = order.layout.time_dim();
    // The device's integers may have 8 bits, which cannot count the steps.
    let int = |steps: Tensor<2, Bool>| steps.int().cast(IntDType::I32);
    let in_order = |steps: Tensor<2, Int>| match order.direction {
        Direction::Forward => steps,
        Direction::Reverse => steps.flip([dim]),
    };
    let valid = in_order(int(mask));
    let count = valid.clone().cumsum(dim);
    let count = match starts {
        None => count,
        Some(starts) => {
            let starts = match order.direction {
                Direction::Forward => int(starts),
                // The start at time t lies before the step at t − 1.
                Direction::Reverse => {
                    let t = starts.dims()[dim];
                    let all = int(starts).flip([dim]);
                    let none = all.clone().narrow(dim, 0, 1).zeros_like();
                    Tensor::cat(vec![none, all], dim).narrow(dim, 0, t)
                }
            };
            // The valid steps before the latest start.
            let earlier = ((count.clone() - valid) * starts).cummax(dim);
            count - earlier
        }
    };
    in_order(count).equal_elem(0)
}
