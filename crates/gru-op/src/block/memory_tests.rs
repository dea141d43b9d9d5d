//! What a block keeps on the CPU between calls.

use crate::{Checkpointing, GruBlock, GruBlockConfig, backend::cpu::Memory};
use burn::{
    module::Module,
    tensor::{Device, Distribution, Tensor},
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
    gru.layers[0].memory.get().expect("a layer has memory")
}

/// Lengths of the gate buffers, and the number of packed weights.
fn kept(gru: &GruBlock) -> (Vec<usize>, usize) {
    memory(gru).kept()
}

#[test]
fn training_keeps_its_gates_for_the_next_step() {
    #[allow(deprecated)]
    for device in [
        #[cfg(feature = "flex")]
        Device::flex(),
        #[cfg(feature = "ndarray")]
        Device::ndarray(),
    ] {
        let device = device.autodiff();
        let gru = block(&device, Checkpointing::KeepGates);
        for _ in 0..2 {
            train(&gru, &device);
            assert_eq!(kept(&gru), (vec![4 * N * T * H], 0));
        }
        // Clones share it, and so does the block of an optimizer's next step.
        assert_eq!(kept(&gru.clone().valid()).0.len(), 1);
    }
}

#[test]
#[cfg(feature = "flex")]
fn recomputation_keeps_no_gates() {
    let device = Device::flex().autodiff();
    let checkpointing = device.clone().gradient_checkpointing();
    for (device, memory) in [
        (&device, Checkpointing::Recompute),
        (&checkpointing, Checkpointing::KeepGates),
        (&checkpointing, Checkpointing::Recompute),
    ] {
        let gru = block(device, memory);
        train(&gru, device);
        assert_eq!(kept(&gru), (vec![], 0));
    }
}

#[test]
#[cfg(feature = "flex")]
fn only_inference_packs_weights() {
    let device = Device::flex().autodiff();
    for memory in [Checkpointing::KeepGates, Checkpointing::Recompute] {
        let gru = block(&device, memory);
        train(&gru, &device);
        assert_eq!(kept(&gru).1, 0, "{memory:?}");
        let x = Tensor::<3>::ones([2, 3, I], &device.clone().inner());
        gru.valid().forward(x, None);
        assert_eq!(kept(&gru).1, 1, "{memory:?}");
        train(&gru, &device);
        assert_eq!(kept(&gru).1, 0, "{memory:?}");
    }
}

/// A reused buffer has old numbers in it.
#[test]
#[cfg(feature = "flex")]
fn gates_of_skipped_steps_are_written_too() {
    use crate::{SequenceOptions, gru_gates};

    let device = Device::flex();
    let gru = block(&device, Checkpointing::KeepGates);
    let mask = Tensor::<2>::zeros([N, T], &device).greater_elem(0.5);
    for _ in 0..2 {
        memory(&gru).give_back(vec![f32::NAN; 4 * N * T * H]);
        let options = SequenceOptions {
            memory: gru.layers[0].memory.clone(),
            ..SequenceOptions::new().mask(mask.clone())
        };
        let layer = &gru.layers[0];
        let gates = gru_gates(input(&device), &layer.weights(), &layer.spec, options);
        for gate in [gates.reset, gates.update, gates.candidate] {
            assert!(!gate.is_nan().any().into_scalar::<bool>());
        }
    }
}
