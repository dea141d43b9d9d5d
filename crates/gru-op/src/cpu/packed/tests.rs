//! When weights are packed, and for how long they are kept.

use super::*;
use crate::{GruInputs, OptionalTensor, Reset};
use burn::{
    backend::ops::FloatTensorOps,
    tensor::{Shape, Slice, TensorData},
};
use burn_flex::{Flex, FlexTensor};

const I: usize = 3;
const H: usize = 5;

fn tensor(shape: impl Into<Shape>) -> FlexTensor {
    let shape = shape.into();
    let numbers = (0..shape.num_elements()).map(|k| (k as f32).sin());
    FlexTensor::from_data(TensorData::new(numbers.collect::<Vec<_>>(), shape))
}

struct Weights([FlexTensor; 4]);

impl Weights {
    fn new() -> Self {
        Self([
            tensor([I, 3 * H]),
            tensor([H, 3 * H]),
            tensor([3 * H]),
            tensor([3 * H]),
        ])
    }

    /// What the cache gives a call over `[n, t]` with them.
    fn packed(&self, cache: &Cache<f32>, n: usize, t: usize) -> Option<Arc<PackedWeights<f32>>> {
        let inputs = inputs(self.0.clone(), n, t);
        cache.weights(&inputs, &GruSpec::default())
    }
}

fn inputs([w_ih, w_hh, b_ih, b_hh]: [FlexTensor; 4], n: usize, t: usize) -> GruInputs<Flex> {
    GruInputs {
        x: tensor([n, t, I]),
        h0: OptionalTensor::Absent,
        w_ih: OptionalTensor::Given(w_ih),
        w_hh,
        b_ih: OptionalTensor::Given(b_ih),
        b_hh: OptionalTensor::Given(b_hh),
        mask: OptionalTensor::Absent,
        valid: OptionalTensor::Absent,
        take: OptionalTensor::Absent,
    }
}

/// Those that are left when the others are freed.
fn len(cache: &Cache<f32>) -> usize {
    cache.tidy();
    cache.with(|entries| entries.values().map(Vec::len).sum())
}

#[test]
fn weights_are_packed_once() {
    let (cache, weights) = (Cache::new(), Weights::new());
    let first = weights.packed(&cache, 1, 1).expect("few rows");
    let second = weights.packed(&cache, 2, 4).expect("few rows");
    assert!(Arc::ptr_eq(&first, &second));
    assert!(weights.packed(&cache, 1, ROWS + 1).is_none());
    let others = Weights::new();
    let third = others.packed(&cache, 1, 1).expect("few rows");
    assert!(!Arc::ptr_eq(&first, &third));
    assert_eq!(len(&cache), 2);
    assert_eq!(cache.release(), 2 * (I + H + 2) * 3 * H * size_of::<f32>());
    assert_eq!(len(&cache), 0);
}

#[test]
fn weights_that_are_gone_are_forgotten() {
    let (cache, weights) = (Cache::new(), Weights::new());
    assert!(weights.packed(&cache, 1, 1).is_some());
    drop(weights);
    assert_eq!(len(&cache), 0);
}

#[test]
fn each_tensor_counts() {
    let cache = Cache::new();
    let mut weights = Weights::new();
    let mut before = weights.packed(&cache, 1, 1).expect("few rows");
    for k in 0..4 {
        // The same numbers elsewhere.
        weights.0[k] = tensor(weights.0[k].layout().shape().clone());
        let after = weights.packed(&cache, 1, 1).expect("few rows");
        assert!(!Arc::ptr_eq(&before, &after), "{k}");
        before = after;
    }
    assert_eq!(len(&cache), 1);
}

/// Layout, direction and memory change nothing of what is packed.
#[test]
fn one_copy_serves_every_order() {
    let (cache, weights) = (Cache::<f32>::new(), Weights::new());
    let usual = GruSpec::default();
    let of = |spec: GruSpec| {
        let inputs = inputs(weights.0.clone(), 2, 3);
        cache.weights(&inputs, &spec).expect("few rows")
    };
    let first = of(usual);
    for spec in [
        usual.with_layout(Layout::TimeMajor),
        usual.with_direction(Direction::Reverse),
        usual.with_memory(Memory::Lean),
    ] {
        assert!(Arc::ptr_eq(&first, &of(spec)), "{spec:?}");
    }
    assert_eq!(len(&cache), 1);
}

/// The same weights may be those of two GRUs.
#[test]
fn each_spec_counts() {
    let (cache, weights) = (Cache::<f32>::new(), Weights::new());
    let of = |spec: GruSpec| {
        let inputs = inputs(weights.0.clone(), 1, 1);
        cache.weights(&inputs, &spec).expect("few rows")
    };
    let after = of(GruSpec::default());
    let before = of(GruSpec::default().with_reset(Reset::BeforeMatmul));
    assert_eq!(before.spec().reset, Reset::BeforeMatmul);
    assert!(Arc::ptr_eq(&after, &of(GruSpec::default())));
    assert_eq!(len(&cache), 2);
}

/// The two ways in which Flex writes to a tensor in its place.
#[test]
fn what_is_written_to_is_another() {
    let cache = Cache::new();
    let mut weights = Weights::new();
    let before = weights.packed(&cache, 1, 1).expect("few rows");
    assert!(weights.0[1].is_unique());
    assert!(weights.0[1].try_storage_mut::<f32>().is_none());
    weights.0[1].storage_mut::<f32>()[0] += 1.0;
    let after = weights.packed(&cache, 1, 1).expect("few rows");
    assert!(!Arc::ptr_eq(&before, &after));
    let old = std::mem::replace(&mut weights.0[0], tensor([1]));
    weights.0[0] = Flex::float_mul_scalar(old, 2.0f32.into());
    let last = weights.packed(&cache, 1, 1).expect("few rows");
    assert!(!Arc::ptr_eq(&after, &last));
    assert_eq!(len(&cache), 1);
}

/// Weights of lean training are others at the next step. The same block packs them for inference.
#[test]
#[cfg(feature = "autodiff")]
fn training_packs_nothing() {
    use crate::{GruBlockConfig, cpu::Keep};
    use burn::{
        module::Module,
        tensor::{Device, Tensor},
    };
    // A number of units of this test's own.
    const UNITS: usize = 37;
    let packed = || {
        f32::packed().with(|entries| {
            let mut entries = entries.values().flatten();
            entries.any(|entry| entry.h == UNITS)
        })
    };
    let device = Device::flex().autodiff();
    for memory in [Memory::Speed, Memory::Lean] {
        let config = GruBlockConfig::new(I, UNITS).with_memory(memory);
        let gru = config.init(&device);
        let x = Tensor::<3>::ones([2, 3, I], &device);
        gru.forward(x.clone(), None).0.sum().backward();
        assert!(!packed(), "{memory:?}: training");
        gru.valid().forward(x.inner(), None);
        assert!(packed(), "{memory:?}: inference");
        drop(gru);
        f32::packed().tidy();
        assert!(!packed(), "{memory:?}: gone");
    }
}

#[test]
fn a_tensor_that_will_not_be_seen_again_is_not_kept() {
    let cache = Cache::<f32>::new();
    let inputs = inputs(Weights::new().0, 1, 1);
    assert!(cache.weights(&inputs, &GruSpec::default()).is_none());
    assert_eq!(len(&cache), 0);
}

/// Views of what others hold, as importers of other systems make them.
#[test]
fn views_count_by_their_order() {
    let cache = Cache::new();
    let mut weights = Weights::new();
    weights.0[1] = Flex::float_swap_dims(tensor([3 * H, H]), 0, 1);
    let biases = tensor([6 * H]);
    for (k, from) in [(2, 0), (3, 3 * H)] {
        let range = Slice::from(from..from + 3 * H);
        weights.0[k] = Flex::float_slice(biases.clone(), &[range]);
    }
    let first = weights.packed(&cache, 1, 1).expect("few rows");
    let second = weights.packed(&cache, 1, 1).expect("few rows");
    assert!(Arc::ptr_eq(&first, &second));
    weights.0.swap(2, 3);
    let third = weights.packed(&cache, 1, 1).expect("few rows");
    assert!(!Arc::ptr_eq(&first, &third));
    // A square has the same shape either way.
    let square = tensor([3, 3]);
    let turned = Flex::float_swap_dims(square.clone(), 0, 1);
    let storage = |tensor| <Flex as CpuBackend<f32>>::storage(tensor).expect("it is shared");
    assert!(!storage(&square).is(&storage(&turned)));
    assert!(storage(&square).is(&storage(&square.clone())));
}
