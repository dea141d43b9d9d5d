//! Configurations, weights and calls of a block.

use super::{H, I, Misuse, N, T, ndarray, zeros};
use burn::{
    module::{Module, Param},
    tensor::{DType, Device, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig, GruLayer, Precision, SequenceOptions};

fn block() -> GruBlock {
    GruBlockConfig::new(I, H).init(&Device::flex())
}

/// Two layers. `change` modifies the second layer.
fn changed(change: impl FnOnce(&mut GruLayer)) -> GruBlock {
    let config = GruBlockConfig::new(I, H).with_num_layers(2);
    let mut block = config.init(&Device::flex());
    change(&mut block.layers[1]);
    block
}

pub const ALL: &[Misuse] = &[
    misuse!(
        "block-start-state-shape",
        block().forward_with(
            zeros([N, T, I]),
            SequenceOptions::new()
                .starts(zeros([N, T]).greater_elem(1))
                .start_state(zeros([2, 1, H]))
        ),
        "GruBlock::forward_with: start_state [L·D, N, H] or [L·D, 1, H] must be [1, 1, 5], got [2, 1, 5]"
    ),
    misuse!(
        "block-lengths",
        block().forward_with(zeros([N, T, I]), SequenceOptions::new().lengths(&[3, 9])),
        "GruBlock::forward_with: lengths[1] must be at most T, expected 0 to 3, got 9"
    ),
    misuse!(
        "reverse-and-bidirectional",
        GruBlockConfig::new(I, H)
            .with_reverse(true)
            .with_bidirectional(true)
            .init(&Device::flex()),
        "GruBlockConfig: expected reverse or bidirectional, got both"
    ),
    misuse!(
        "per-layer",
        {
            let config = GruBlockConfig::new(I, H).with_num_layers(3);
            let options = config.layer_options();
            config
                .with_per_layer(vec![options; 2])
                .init(&Device::flex())
        },
        "GruBlockConfig: per_layer must be empty or have one entry for each layer and \
         direction, expected 3, got 2"
    ),
    misuse!(
        "step-recurrent-dropout",
        {
            let device = Device::flex().autodiff();
            let config = GruBlockConfig::new(I, H).with_recurrent_dropout(0.5);
            config
                .init(&device)
                .step(Tensor::zeros([N, I], &device), None)
        },
        "GruBlock::step: recurrent dropout is drawn once per sequence, expected 0 in training, \
         got 0.5"
    ),
    misuse!(
        "block-features",
        {
            block().forward(zeros([N, T, I + 1]), None);
        },
        "GruBlock::forward: the last dimension of x must be [4], got [5]"
    ),
    misuse!(
        "block-state",
        {
            block().forward(zeros([N, T, I]), Some(zeros([2, N, H])));
        },
        "GruBlock::forward: state [L·D, N, H] must be [1, 2, 5], got [2, 2, 5]"
    ),
    misuse!(
        "block-state-dtype",
        block().forward(zeros([N, T, I]), Some(zeros([1, N, H]).cast(DType::F64))),
        "GruBlock::forward: state must have the dtype of x, expected F32, got F64"
    ),
    misuse!(
        "block-state-device",
        {
            let state = Tensor::zeros([1, N, H], &ndarray());
            let options = SequenceOptions::new().lengths(&[1, 2]).state(state);
            block().forward_with(zeros([N, T, I]), options)
        },
        "GruBlock::forward_with: state must be on the device of x"
    ),
    misuse!(
        "step-state-dtype",
        block().step(zeros([N, I]), Some(zeros([1, N, H]).cast(DType::F64))),
        "GruBlock::step: state must have the dtype of x, expected F32, got F64"
    ),
    misuse!(
        "block-weight-dtype",
        changed(|layer| layer.w_hh = layer.w_hh.clone().map(|w| w.cast(DType::F64)))
            .forward(zeros([N, T, I]), None),
        "GruBlock::forward: layers.1.w_hh must have the dtype of x, expected F32, got F64"
    ),
    misuse!(
        "block-weight-device",
        changed(|layer| *layer = layer.clone().to_device(&ndarray()))
            .forward(zeros([N, T, I]), None),
        "GruBlock::forward: layers.1.w_ih must be on the device of x",
        "Flex",
        "NdArray"
    ),
    misuse!(
        "block-weight-shape",
        changed(|layer| layer.w_hh = Param::from_tensor(zeros([H, 2 * H])))
            .forward(zeros([N, T, I]), None),
        "GruBlock::forward: layers.1.w_hh must be [H, 3H], got [5, 10]"
    ),
    misuse!(
        "block-bias-shape",
        changed(|layer| layer.b_ih = Some(Param::from_tensor(zeros([H]))))
            .step(zeros([N, I]), None),
        "GruBlock::step: layers.1.b_ih [3H] must be [15], got [5]",
        "layers.1.w_hh [H, 3H] is [5, 15]"
    ),
    misuse!(
        "gates-weight-dtype",
        changed(|layer| layer.w_ih = layer.w_ih.clone().map(|w| w.cast(DType::F64)))
            .gates(zeros([N, T, I]), None),
        "GruBlock::gates: layers.1.w_ih must have the dtype of x, expected F32, got F64"
    ),
    misuse!(
        "block-checkpointing",
        {
            let device = Device::flex().autodiff();
            let block = GruBlockConfig::new(I, H).init(&device);
            let x = Tensor::zeros([N, T, I], &device.gradient_checkpointing());
            block.forward(x, None)
        },
        "GruBlock::forward: layers.0.w_ih must have the gradient checkpointing of x, expected \
         Balanced, got Disabled"
    ),
    misuse!(
        "block-state-checkpointing",
        {
            let device = Device::flex().autodiff();
            let block = GruBlockConfig::new(I, H).init(&device);
            let state = Tensor::zeros([1, N, H], &device.clone().gradient_checkpointing());
            block.step(Tensor::zeros([N, I], &device), Some(state))
        },
        "GruBlock::step: state must have the gradient checkpointing of x, expected Disabled, \
         got Balanced"
    ),
    misuse!(
        "too-many-layers",
        GruBlockConfig::new(I, H)
            .with_num_layers(usize::MAX)
            .init(&Device::flex()),
        "GruBlockConfig: expected parameters that memory can address, got d_input 4, d_hidden \
         5, num_layers 18446744073709551615"
    ),
    misuse!(
        "too-many-layers-in-both-directions",
        GruBlockConfig::new(I, H)
            .with_num_layers(usize::MAX / 2 + 1)
            .with_bidirectional(true)
            .init(&Device::flex()),
        "GruBlockConfig: expected parameters that memory can address, got"
    ),
    misuse!(
        "too-many-units",
        GruBlockConfig::new(I, usize::MAX / 2).init(&Device::flex()),
        "GruBlockConfig: expected parameters that memory can address, got"
    ),
    misuse!(
        "too-many-inputs",
        GruBlockConfig::new(usize::MAX, H).init(&Device::flex()),
        "GruBlockConfig: expected parameters that memory can address, got"
    ),
    misuse!(
        "per-layer-overflow",
        {
            let config = GruBlockConfig::new(I, H).with_num_layers(usize::MAX);
            let options = config.layer_options();
            config
                .with_bidirectional(true)
                .with_per_layer(vec![options; 2])
                .init(&Device::flex())
        },
        "GruBlockConfig: expected parameters that memory can address, got"
    ),
    misuse!(
        "step-bidirectional",
        {
            let config = GruBlockConfig::new(I, H).with_bidirectional(true);
            config.init(&Device::flex()).step(zeros([N, I]), None);
        },
        "GruBlock::step: expected the forward direction in every layer, got reverse"
    ),
    misuse!(
        "prepared-tracked-state",
        {
            let block = GruBlockConfig::new(I, H).init(&Device::flex());
            let state = Tensor::<3>::zeros([1, N, H], &Device::flex().autodiff());
            let prepared = block.prepare(Precision::Full);
            prepared.step(zeros([N, I]), Some(state));
        },
        "PreparedGru::step: state must be on a device without autodiff"
    ),
    misuse!(
        "no-hidden-units",
        {
            GruBlockConfig::new(I, 0).init(&Device::flex());
        },
        "GruBlockConfig: d_hidden must be positive, expected > 0, got 0"
    ),
];
