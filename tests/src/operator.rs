//! Runs cases of the matrix through the operator, forward and backward.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use gru_op::{
    Checkpointing, GruWeights, Layout, SequenceOptions, composed, gru_cell, gru_packed,
    gru_sequence_with, pack, spec::Sizes, unpack,
};
use gru_testkit::{
    case::Case,
    close::{Outcome, Tensors},
    draw::Drawn,
};

use super::runs::{self, Leaves, expect_shape, loss, values};

/// How a case reaches the operator.
#[derive(Debug, Clone, Copy, Default)]
pub struct Way {
    /// What training keeps for backward.
    pub checkpointing: Checkpointing,
    /// Whether rows of different lengths are packed.
    pub packed: bool,
    /// Whether the sequence and the weights are stored with swapped dimensions, and the initial state and the biases
    /// are slices of wider tensors.
    pub views: bool,
    /// Whether Burn's operations compute the call, differentiated by Burn.
    pub composed: bool,
    /// Whether the only step is a call of `gru_cell`.
    pub cell: bool,
}

impl Way {
    /// The words that begin with a plus.
    pub fn of(case: &Case) -> Self {
        Self {
            checkpointing: case.checkpointing,
            packed: case.has("+packed"),
            views: case.has("+views"),
            composed: case.has("+composed"),
            cell: case.has("+cell"),
        }
    }
}

/// The outputs on a device, and the gradients of all inputs.
pub fn run(device: &Device, dtype: DType, drawn: &Drawn, way: Way) -> Result<Outcome, String> {
    let leaves = Leaves::new(drawn, device, dtype);
    let (y, h_t) = outputs(drawn, way, &leaves)?;
    // A sum of both losses does not work on wgpu: Burn 0.22.1 may fuse operations on empty and non-empty tensors, and
    // then the latter are wrong.
    let is_empty = y.shape().num_elements() == 0;
    let loss = if is_empty {
        loss(&h_t, &drawn.d_h_t)
    } else {
        loss(&y, &drawn.d_y) + loss(&h_t, &drawn.d_h_t)
    };
    let mut gradients = Tensors::new();
    if loss.is_tracked() {
        gradients = leaves.gradients(&loss.backward())?;
    } else if !way.composed {
        return Err("expected tracked outputs".into());
    }
    if is_empty || way.composed {
        // Without a path from an input, Burn's graph has no gradient of it.
        for (name, values) in drawn.call.differentiable() {
            let is_shared = drawn.shared_start && name == "start_state";
            let len = if is_shared {
                drawn.call.sizes.h
            } else {
                values.len()
            };
            let zeros = || vec![0.0; len];
            gradients.entry(name.into()).or_insert_with(zeros);
        }
    }
    Ok(Outcome {
        outputs: named(y, h_t),
        gradients,
    })
}

/// The outputs of a case that nothing tracks.
pub(crate) fn infer(
    device: &Device,
    dtype: DType,
    drawn: &Drawn,
    way: Way,
) -> Result<Outcome, String> {
    let leaves = Leaves::new(drawn, device, dtype).inner();
    let (y, h_t) = outputs(drawn, way, &leaves)?;
    Ok(Outcome {
        outputs: named(y, h_t),
        gradients: Tensors::new(),
    })
}

fn named(y: Tensor<3>, h_t: Tensor<2>) -> Tensors {
    Tensors::from([("y".into(), values(y)), ("h_t".into(), values(h_t))])
}

/// `y` and `h_t`.
pub(crate) fn outputs(
    drawn: &Drawn,
    way: Way,
    leaves: &Leaves,
) -> Result<(Tensor<3>, Tensor<2>), String> {
    let (x, weights, options) = arguments(drawn, way, leaves);
    let (call, Sizes { n, t, i, h }) = (&drawn.call, drawn.call.sizes);
    let [first, second] = call.order.layout.split([n, t]);
    let (y, h_t) = match &drawn.lengths {
        _ if way.cell => {
            let h_t = gru_cell(x.reshape([n, i]), leaves.h0.clone(), &weights, &call.spec);
            (h_t.clone().reshape([first, second, h]), h_t)
        }
        Some(lengths) if way.packed => {
            let (y, h_t) = gru_packed(pack(x, lengths), lengths, &weights, &call.spec, options);
            let y = unpack(y, lengths);
            let missing = [n, t - y.dims()[1], h];
            let place = (&y.device(), y.dtype());
            let y = match missing[1] {
                0 => y,
                _ => Tensor::cat(vec![y, Tensor::zeros(missing, place)], 1),
            };
            (y, h_t)
        }
        _ if way.composed => composed::gru_sequence_with(x, &weights, &call.spec, options),
        _ => gru_sequence_with(x, &weights, &call.spec, options),
    };
    expect_shape("y", &y, [first, second, h])?;
    expect_shape("h_t", &h_t, [n, h])?;
    Ok((y, h_t))
}

/// The arguments of the operator.
pub(crate) fn arguments(
    drawn: &Drawn,
    way: Way,
    leaves: &Leaves,
) -> (Tensor<3>, GruWeights, SequenceOptions<2>) {
    let (order, Sizes { n, t, h, .. }) = (drawn.call.order, drawn.call.sizes);
    let (device, dtype) = (leaves.x.device(), leaves.x.dtype());
    let [first, second] = order.layout.split([n, t]);
    let flags = |flags: &Vec<f64>| -> Tensor<2, Bool> {
        let flags: Vec<bool> = flags.iter().map(|&flag| flag != 0.0).collect();
        Tensor::from_data(TensorData::new(flags, [first, second]), &device)
    };
    let sequence = &drawn.call.inputs.sequence;
    // Everything past the end of a row is a start, without effect.
    let mut starts = sequence.starts.clone();
    if let (Some(starts), Some(_)) = (&mut starts, &drawn.lengths) {
        drawn.fill_skipped(starts, 1.0);
    }
    let mask = sequence.recurrent_mask.as_ref();
    let zoneout = sequence.zoneout.as_ref().map(|zoneout| {
        let units = if zoneout.len() == n * t { 1 } else { h };
        runs::tensor::<3>(zoneout, [first, second, units], &device, dtype)
    });
    let options = SequenceOptions::new()
        .layout(order.layout)
        .direction(order.direction)
        .checkpointing(way.checkpointing)
        .state(leaves.h0.clone().map(|h0| slice(h0, way)))
        .recurrent_mask(mask.map(|mask| runs::tensor::<2>(mask, [n, h], &device, dtype)))
        .zoneout(zoneout)
        .starts(starts.as_ref().map(flags))
        .start_state(leaves.start_state.clone());
    let options = match (&drawn.lengths, &sequence.step_mask) {
        (Some(_), _) if way.packed => options,
        (Some(lengths), _) => options.lengths(lengths),
        (None, Some(valid)) => options.mask(flags(valid)),
        (None, None) => options,
    };
    let weights = leaves.weights.clone();
    let w_ih = weights.w_ih.map(|w_ih| swapped(w_ih, 1, way));
    let weights = GruWeights::new(w_ih, swapped(weights.w_hh, 1, way))
        .with_b_ih(weights.b_ih.map(|bias| slice(bias, way)))
        .with_b_hh(weights.b_hh.map(|bias| slice(bias, way)));
    // A batch-major sequence is stored in the other layout, a time-major sequence with its features first.
    let dim = match order.layout {
        Layout::BatchMajor => 1,
        Layout::TimeMajor => 2,
    };
    (swapped(leaves.x.clone(), dim, way), weights, options)
}

/// The tensor, or a view of a copy that is stored with dimensions 0 and `dim` swapped. Burn 0.22.1 cannot multiply a
/// transposed tensor without elements on a GPU.
fn swapped<const D: usize>(tensor: Tensor<D>, dim: usize, way: Way) -> Tensor<D> {
    if !way.views || tensor.shape().num_elements() == 0 {
        return tensor;
    }
    contiguous(tensor.swap_dims(0, dim)).swap_dims(0, dim)
}

/// The tensor, or a slice of a copy with columns of NaN on both sides.
fn slice<const D: usize>(tensor: Tensor<D>, way: Way) -> Tensor<D> {
    if !way.views {
        return tensor;
    }
    let [left, right] = [2, 3].map(|columns| {
        let mut shape = tensor.dims();
        shape[D - 1] = columns;
        let values = vec![f64::NAN; shape.iter().product()];
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
