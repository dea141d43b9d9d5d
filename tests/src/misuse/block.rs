//! Configurations, weights and calls of a block, except the errors that the book quotes (`book.rs`).

use super::{H, I, Misuse, N, T, other_device, zeros};
use crate::runs::Cast;
use burn::{
    module::{Module, Param},
    tensor::{DType, Device, Tensor},
};
use gru_op::{Direction, GruBlock, GruBlockConfig, GruLayer, Precision, SequenceOptions};

fn config() -> GruBlockConfig {
    GruBlockConfig::new(I, H)
}

fn init(config: GruBlockConfig) -> GruBlock {
    config.init(&Device::flex())
}

fn forward(block: GruBlock) {
    block.forward(zeros([N, T, I]), None);
}

/// Two layers. `change` modifies the second layer.
fn changed(change: impl FnOnce(&mut GruLayer)) -> GruBlock {
    let mut block = init(config().with_num_layers(2));
    change(&mut block.layers[1]);
    block
}

pub const CONFIG: &[Misuse] = &[
    (
        || drop(init(config().with_reverse(true).with_bidirectional(true))),
        "GruBlockConfig: expected reverse or bidirectional, got both",
    ),
    (
        || {
            let options = vec![config().layer_options(); 2];
            init(config().with_num_layers(3).with_per_layer(options));
        },
        "GruBlockConfig: per_layer must be empty or have one entry for each layer and direction, \
         expected 3, got 2",
    ),
    (
        || drop(init(config().with_num_layers(usize::MAX))),
        "GruBlockConfig: expected parameters that memory can address, got d_input 4, d_hidden 5, \
         num_layers 18446744073709551615",
    ),
    (
        || {
            let config = config().with_num_layers(usize::MAX / 2 + 1);
            init(config.with_bidirectional(true));
        },
        "GruBlockConfig: expected parameters that memory can address, got",
    ),
    (
        || drop(init(GruBlockConfig::new(I, usize::MAX / 2))),
        "GruBlockConfig: expected parameters that memory can address, got",
    ),
    (
        || drop(init(GruBlockConfig::new(usize::MAX, H))),
        "GruBlockConfig: expected parameters that memory can address, got",
    ),
];

pub const BLOCK: &[Misuse] = &[
    (
        || {
            let options = SequenceOptions::new().starts(zeros([N, T]).greater_elem(1));
            let options = options.start_state(zeros([2, 1, H]));
            init(config()).forward_with(zeros([N, T, I]), options);
        },
        "GruBlock::forward_with: start_state [L·D, N, H] or [L·D, 1, H] must be [1, 1, 5], got \
         [2, 1, 5]",
    ),
    (
        || {
            init(config()).forward_packed(zeros([5, I]), &[6], None);
        },
        "GruBlock::forward_packed: the sum of lengths must be M = 5, got 6",
    ),
    (
        || {
            init(config()).step(zeros([N, I]), Some(zeros([1, N, H]).cast(DType::F64)));
        },
        "GruBlock::step: state must have the dtype of x, expected F32, got F64",
    ),
    (
        || {
            let state = Tensor::<3>::zeros([1, N, H], &other_device());
            let options = SequenceOptions::new().lengths(&[1, 2]).state(state);
            init(config()).forward_with(zeros([N, T, I]), options);
        },
        "GruBlock::forward_with: state must be on the device of x",
    ),
    (
        || {
            let cast = |w: Tensor<2>| w.cast(DType::F64);
            forward(changed(|layer| layer.w_hh = layer.w_hh.clone().map(cast)));
        },
        "GruBlock::forward: layers.1.w_hh must have the dtype of x, expected F32, got F64",
    ),
    (
        || {
            let move_to = |layer: &mut GruLayer| *layer = layer.clone().to_device(&other_device());
            forward(changed(move_to));
        },
        "GruBlock::forward: layers.1.w_ih must be on the device of x…Flex…OTHER",
    ),
    (
        || {
            let w_hh = Param::from_tensor(zeros([H, 2 * H]));
            forward(changed(|layer| layer.w_hh = w_hh));
        },
        "GruBlock::forward: layers.1.w_hh must be [H, 3H], got [5, 10]",
    ),
    (
        || {
            let b_ih = Some(Param::from_tensor(zeros([H])));
            changed(|layer| layer.b_ih = b_ih).step(zeros([N, I]), None);
        },
        "GruBlock::step: layers.1.b_ih [3H] must be [15], got [5]…layers.1.w_hh [H, 3H] is [5, 15]",
    ),
    (
        || {
            let device = Device::flex().autodiff();
            let block = config().init(&device);
            block.forward(
                Tensor::zeros([N, T, I], &device.gradient_checkpointing()),
                None,
            );
        },
        "GruBlock::forward: layers.0.w_ih must have the gradient checkpointing of x, expected \
         Balanced, got Disabled",
    ),
    (
        || {
            let mut block = init(config());
            block.layers.clear();
            block.gates(zeros([N, T, I]), SequenceOptions::new());
        },
        "GruBlock::gates: layers must have one entry for each layer and direction, expected 1, got 0",
    ),
    (
        || {
            let mut block = init(config().with_bidirectional(true));
            block.layers.pop();
            forward(block);
        },
        "GruBlock::forward: layers must have one entry for each layer and direction, expected 2, got 1",
    ),
    (
        || {
            let state = Tensor::<3>::zeros([1, N, H], &Device::flex().autodiff());
            let prepared = init(config()).prepare(Precision::Full);
            prepared.step(zeros([N, I]), Some(state));
        },
        "PreparedGru::step: state must be on a device without autodiff",
    ),
    (
        || {
            let turn = |layer: &mut GruLayer| layer.direction = Direction::Reverse;
            changed(turn).prepare(Precision::Full);
        },
        "layers.1.direction must be",
    ),
    (
        || {
            drop(
                init(config())
                    .map(&mut Cast(DType::F64))
                    .prepare(Precision::Full),
            )
        },
        "layers.0.…got float64",
    ),
];
