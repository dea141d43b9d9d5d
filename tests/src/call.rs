//! One call of the operator with any options, forward and backward. The expected results are [`Call::outcome`], which
//! the float64 oracle computes.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use gru_op::{
    Checkpointing, GruWeights, Layout, SequenceOptions, composed, gru_packed, gru_sequence_with,
    pack, unpack,
};
use gru_testkit::{
    close::{Outcome, Tensors},
    inputs::{Inputs, poisoned},
    oracle::{Call, Skipped},
    problem::Problem,
};

use super::runs::{self, Leaves, expect_shape, loss, values};

/// How a call reaches the operator. Not all of it is in a [`Call`].
#[derive(Debug, Clone, Copy, Default)]
pub struct How<'a> {
    /// Lengths instead of a mask.
    pub lengths: Option<&'a [usize]>,
    /// Whether the rows of these lengths are packed.
    pub packed: bool,
    /// Whether all rows have one start state, the one of row 0.
    pub shared_start: bool,
    pub checkpointing: Checkpointing,
    /// Whether the sequence and the weights are stored with swapped dimensions, and the initial state and the biases
    /// are slices of wider tensors.
    pub views: bool,
    /// Whether Burn's operations compute the call, differentiated by Burn.
    pub composed: bool,
}

/// The call with rows of these lengths.
pub fn with_lengths(call: Call, lengths: &[usize]) -> Call {
    let (n, t) = (call.n, call.t);
    let valid = |place: usize| match call.order.layout {
        Layout::BatchMajor => place % t < lengths[place / t],
        Layout::TimeMajor => place / n < lengths[place % n],
    };
    let step_mask: Vec<f64> = (0..n * t).map(|place| f64::from(valid(place))).collect();
    Call {
        // A start past the end has no effect.
        starts: call
            .starts
            .map(|starts| starts.iter().zip(&step_mask).map(|(a, b)| a * b).collect()),
        step_mask: Some(step_mask),
        skipped: Skipped::Zero,
        ..call
    }
}

/// The expected results.
pub fn expected(call: &Call, upstream: [&[f64]; 2], how: &How) -> Outcome {
    let [d_y, d_h_t] = upstream;
    let mut outcome = call.outcome(d_y, d_h_t);
    if let (true, Some(d)) = (how.shared_start, outcome.gradients.get_mut("start_state")) {
        let of_unit = |unit| d.iter().skip(unit).step_by(call.h).sum();
        *d = (0..call.h).map(of_unit).collect();
    }
    outcome
}

/// [`on`] for a problem.
pub fn of(
    problem: &Problem,
    inputs: &Inputs,
    device: &Device,
    dtype: DType,
) -> Result<Outcome, String> {
    let how = How {
        checkpointing: problem.checkpointing,
        ..How::default()
    };
    let upstream = [&inputs.d_y[..], &inputs.d_h_t];
    on(device, dtype, &Call::of(problem, inputs), upstream, &how)
}

/// The outputs of a call on a device, and its gradients for the upstream gradients of `y` and `h_t`.
pub fn on(
    device: &Device,
    dtype: DType,
    call: &Call,
    upstream: [&[f64]; 2],
    how: &How,
) -> Result<Outcome, String> {
    let leaves = Leaves::of(call, how.shared_start, device, dtype);
    let (y, h_t) = run(call, how, &leaves)?;
    let mut loss = loss(&y, upstream[0]) + loss(&h_t, upstream[1]);
    if let (true, Some(start_state)) = (how.composed, &leaves.start_state) {
        // Without a start, Burn's graph has no gradient of the state.
        loss = loss + start_state.clone().sum() * 0.0;
    }
    let gradients = leaves.gradients(&loss.backward())?;
    let outputs = Tensors::from([("y".into(), values(y)), ("h_t".into(), values(h_t))]);
    Ok(Outcome { outputs, gradients })
}

/// The outputs of a call that nothing tracks.
pub fn infer(device: &Device, dtype: DType, call: &Call, how: &How) -> Result<Outcome, String> {
    let leaves = Leaves::of(call, how.shared_start, device, dtype).inner();
    let (y, h_t) = run(call, how, &leaves)?;
    let outputs = Tensors::from([("y".into(), values(y)), ("h_t".into(), values(h_t))]);
    Ok(Outcome {
        outputs,
        gradients: Tensors::new(),
    })
}

fn run(call: &Call, how: &How, leaves: &Leaves) -> Result<(Tensor<3>, Tensor<2>), String> {
    let (x, weights, options) = arguments(call, how, leaves);
    let (y, h_t) = match (how.lengths, how.composed) {
        (Some(lengths), _) if how.packed => {
            let (y, h_t) = gru_packed(pack(x, lengths), lengths, &weights, &call.spec, options);
            let y = unpack(y, lengths);
            let [n, longest, h] = y.dims();
            let missing = [n, call.t - longest, h];
            let place = (&y.device(), y.dtype());
            let y = match missing[1] {
                0 => y,
                _ => Tensor::cat(vec![y, Tensor::zeros(missing, place)], 1),
            };
            (y, h_t)
        }
        (_, true) => composed::gru_sequence_with(x, &weights, &call.spec, options),
        (_, false) => gru_sequence_with(x, &weights, &call.spec, options),
    };
    let [first, second] = call.order.layout.split([call.n, call.t]);
    expect_shape("y", &y, [first, second, call.h])?;
    expect_shape("h_t", &h_t, [call.n, call.h])?;
    Ok((y, h_t))
}

/// The arguments of the operator.
pub fn arguments(
    call: &Call,
    how: &How,
    leaves: &Leaves,
) -> (Tensor<3>, GruWeights, SequenceOptions<2>) {
    let &Call { n, t, h, order, .. } = call;
    let (device, dtype) = (leaves.x.device(), leaves.x.dtype());
    let [first, second] = order.layout.split([n, t]);
    let flags = |flags: &Vec<f64>| -> Tensor<2, Bool> {
        let flags: Vec<bool> = flags.iter().map(|&flag| flag != 0.0).collect();
        Tensor::from_data(TensorData::new(flags, [first, second]), &device)
    };
    // Everything past the end of a row is a start, without effect.
    let starts = call.starts.clone().map(|mut starts| {
        let valid = call.step_mask.as_ref().filter(|_| how.lengths.is_some());
        for (start, valid) in starts.iter_mut().zip(valid.into_iter().flatten()) {
            *start = (*start).max(1.0 - valid);
        }
        starts
    });
    let mask = call.recurrent_mask.as_ref();
    let zoneout = call.zoneout.as_ref().map(|zoneout| {
        let units = zoneout.len() / (n * t);
        runs::tensor::<3>(zoneout, [first, second, units], &device, dtype)
    });
    let options = SequenceOptions::new()
        .layout(order.layout)
        .direction(order.direction)
        .checkpointing(how.checkpointing)
        .state(leaves.h0.clone().map(|h0| slice(h0, how)))
        .recurrent_mask(mask.map(|mask| runs::tensor::<2>(mask, [n, h], &device, dtype)))
        .zoneout(zoneout)
        .starts(starts.as_ref().map(flags))
        .start_state(leaves.start_state.clone());
    let options = match (how.lengths, &call.step_mask) {
        (Some(_), _) if how.packed => options,
        (Some(lengths), _) => options.lengths(lengths),
        (None, Some(valid)) => options.mask(flags(valid)),
        (None, None) => options,
    };
    let weights = leaves.weights.clone();
    let weights = GruWeights {
        w_ih: weights.w_ih.map(|w_ih| swapped(w_ih, 1, how)),
        w_hh: swapped(weights.w_hh, 1, how),
        b_ih: weights.b_ih.map(|bias| slice(bias, how)),
        b_hh: weights.b_hh.map(|bias| slice(bias, how)),
    };
    // A batch-major sequence is stored in the other layout, a time-major sequence with its features first.
    let dim = match order.layout {
        Layout::BatchMajor => 1,
        Layout::TimeMajor => 2,
    };
    (swapped(leaves.x.clone(), dim, how), weights, options)
}

/// The tensor, or a view of a copy that is stored with dimensions 0 and `dim` swapped. Burn 0.22.1 cannot multiply a
/// transposed tensor without elements on a GPU.
fn swapped<const D: usize>(tensor: Tensor<D>, dim: usize, how: &How) -> Tensor<D> {
    if !how.views || tensor.shape().num_elements() == 0 {
        return tensor;
    }
    contiguous(tensor.swap_dims(0, dim)).swap_dims(0, dim)
}

/// The tensor, or a slice of a copy with columns of NaN on both sides.
fn slice<const D: usize>(tensor: Tensor<D>, how: &How) -> Tensor<D> {
    if !how.views {
        return tensor;
    }
    let [left, right] = [2, 3].map(|columns| {
        let mut shape = tensor.dims();
        shape[D - 1] = columns;
        let values = poisoned(shape.iter().product());
        runs::tensor(&values, shape, &tensor.device(), tensor.dtype())
    });
    let columns = tensor.dims()[D - 1];
    let wide = contiguous(Tensor::cat(vec![left, tensor, right], D - 1));
    wide.narrow(D - 1, 2, columns)
}

/// A tensor whose values are stored in order, as in a flat tensor.
fn contiguous<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    let shape = tensor.dims();
    let len = tensor.shape().num_elements();
    tensor.reshape([len]).reshape(shape)
}
