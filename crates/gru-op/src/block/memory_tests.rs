//! What a block keeps between calls on the CPU.

use crate::{
    Checkpointing, GruBlock, GruBlockConfig, GruWeights, SequenceOptions, backend::cpu::Memory,
    gru_gates, gru_sequence_with,
};
use burn::{
    module::Module,
    tensor::{DType, Device, Distribution, Tensor},
};

const N: usize = 8;
const T: usize = 160;
const I: usize = 3;
const H: usize = 64;

fn input(device: &Device) -> Tensor<3> {
    Tensor::random([N, T, I], Distribution::Default, device)
}

fn train(gru: &GruBlock, device: &Device) {
    gru.forward(input(device), None).0.sum().backward();
}

fn block(device: &Device, checkpointing: Checkpointing) -> GruBlock {
    let config = GruBlockConfig::new(I, H).with_checkpointing(checkpointing);
    config.init(device)
}

fn memory(gru: &GruBlock) -> &Memory {
    let memory = gru.layers[0].memory.as_deref();
    memory.expect("a layer has memory")
}

/// The lengths of the gate buffers.
fn kept(gru: &GruBlock) -> Vec<usize> {
    memory(gru).kept()
}

#[test]
fn training_keeps_its_gates_for_the_next_step() {
    #[allow(deprecated)]
    for device in [
        Device::flex(),
        #[cfg(feature = "ndarray")]
        Device::ndarray(),
    ] {
        let device = device.autodiff();
        let gru = block(&device, Checkpointing::KeepGates);
        for _ in 0..2 {
            train(&gru, &device);
            assert_eq!(kept(&gru), [4 * N * T * H]);
        }
        // Clones share the memory, and so does the block after an optimizer's step.
        assert_eq!(kept(&gru.clone().valid()).len(), 1);
    }
}

#[test]
fn recomputation_keeps_no_gates() {
    let device = Device::flex().autodiff();
    let balanced = device.clone().gradient_checkpointing();
    for (device, checkpointing) in [
        (&device, Checkpointing::Recompute),
        (&balanced, Checkpointing::KeepGates),
        (&balanced, Checkpointing::Recompute),
    ] {
        let gru = block(device, checkpointing);
        train(&gru, device);
        assert_eq!(kept(&gru), [0; 0]);
    }
}

#[test]
fn half_precision_keeps_no_gates() {
    let device = Device::flex().autodiff();
    let gru = block(&device, Checkpointing::KeepGates);
    let layer = &gru.layers[0];
    let half = |tensor: Tensor<2>| tensor.cast(DType::F16);
    let weights = GruWeights::new(half(layer.w_ih.val()), half(layer.w_hh.val()));
    let mut options = SequenceOptions::new();
    options.memory = layer.memory.clone();
    let x = input(&device).cast(DType::F16);
    let (y, _) = gru_sequence_with(x, &weights, &layer.spec, options);
    y.sum().backward();
    assert_eq!(kept(&gru), [0; 0]);
}

/// With one layer and with several.
#[test]
fn inference_frees_the_gates_of_training() {
    let device = Device::flex();
    let training = device.clone().autodiff();
    for layers in [1, 2] {
        let config = GruBlockConfig::new(I, H).with_num_layers(layers);
        let gru = config.init(&training);
        train(&gru, &training);
        assert_eq!(kept(&gru).len(), 1, "{layers} layers");
        let gru = gru.valid();
        for _ in 0..256 {
            gru.forward(input(&device), None);
        }
        assert_eq!(kept(&gru), [0; 0], "{layers} layers");
    }
}

/// A reused buffer has old contents.
#[test]
fn gates_of_skipped_steps_are_written_too() {
    let device = Device::flex();
    let gru = block(&device, Checkpointing::KeepGates);
    let layer = &gru.layers[0];
    let mask = Tensor::<2>::zeros([N, T], &device).greater_elem(0.5);
    for _ in 0..2 {
        memory(&gru).give_back(vec![f32::NAN; 4 * N * T * H]);
        let mut options = SequenceOptions::new().mask(mask.clone());
        options.memory = layer.memory.clone();
        let gates = gru_gates(input(&device), &layer.weights(), &layer.spec, options);
        for gate in [gates.reset, gates.update, gates.candidate] {
            assert!(!gate.is_nan().any().into_scalar::<bool>());
        }
    }
}
