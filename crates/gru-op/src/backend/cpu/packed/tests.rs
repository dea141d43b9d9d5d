//! When weights are packed, and how long they are kept.

use super::*;
use burn::{
    backend::ops::FloatTensorOps,
    tensor::{Shape, Slice, TensorData},
};
use burn_flex::{Flex, FlexTensor};
use gru_spec::Reset;

const I: usize = 3;
const H: usize = 5;

fn tensor(shape: impl Into<Shape>) -> FlexTensor {
    let shape = shape.into();
    let numbers = (0..shape.num_elements()).map(|k| (k as f32).sin());
    FlexTensor::from_data(TensorData::new(numbers.collect::<Vec<_>>(), shape))
}

/// The weights of a layer, with handles of their own.
struct Layer([FlexTensor; 4]);

impl Layer {
    fn new() -> Self {
        let [b_ih, b_hh] = [tensor([3 * H]), tensor([3 * H])];
        Self([tensor([I, 3 * H]), tensor([H, 3 * H]), b_ih, b_hh])
    }

    fn weights(&self) -> Weights<FlexTensor> {
        let [w_ih, w_hh, b_ih, b_hh] = self.0.clone();
        Weights {
            w_ih: Some(w_ih),
            w_hh,
            b_ih: Some(b_ih),
            b_hh: Some(b_hh),
        }
    }

    /// The packed weights of a call with few rows.
    fn packed(&self, cache: &mut Cache<f32>) -> Arc<PackedWeights<f32>> {
        let packed = packed(cache, &self.weights(), &GruSpec::default(), [1, 1]);
        packed.expect("few rows")
    }
}

fn packed(
    cache: &mut Cache<f32>,
    of: &Weights<FlexTensor>,
    spec: &GruSpec,
    [n, t]: [usize; 2],
) -> Option<Arc<PackedWeights<f32>>> {
    let sizes = Sizes { n, t, i: I, h: H };
    cache.weights::<Flex>(of, spec, sizes)
}

#[test]
fn weights_are_packed_once() {
    let (mut cache, layer) = (Cache::default(), Layer::new());
    let first = layer.packed(&mut cache);
    let mut of = |n, t| packed(&mut cache, &layer.weights(), &GruSpec::default(), [n, t]);
    assert!(Arc::ptr_eq(&first, &of(2, 4).expect("few rows")));
    assert!(of(1, MAX_ROWS + 1).is_none());
    // A clone of the layer with weights of its own shares the memory.
    assert!(!Arc::ptr_eq(&first, &Layer::new().packed(&mut cache)));
    assert!(Arc::ptr_eq(&first, &layer.packed(&mut cache)));
    assert_eq!(cache.0.len(), 2);
    cache.clear();
    assert_eq!(cache.len(), 0);
}

#[test]
fn at_most_four_are_packed() {
    let mut cache = Cache::default();
    let layers: Vec<_> = (0..MAX_ENTRIES + 2).map(|_| Layer::new()).collect();
    for layer in &layers {
        layer.packed(&mut cache);
    }
    assert_eq!(cache.len(), MAX_ENTRIES);
}

#[test]
fn freed_weights_are_removed() {
    let (mut cache, layer) = (Cache::default(), Layer::new());
    layer.packed(&mut cache);
    drop(layer);
    assert_eq!(cache.len(), 0);
    Layer::new().packed(&mut cache);
    assert_eq!(cache.0.len(), 1);
}

/// Two specs may have the same weights.
#[test]
fn the_spec_is_compared() {
    let (mut cache, layer) = (Cache::default(), Layer::new());
    let mut of = |spec| packed(&mut cache, &layer.weights(), &spec, [1, 1]).expect("few rows");
    let after = of(GruSpec::default());
    let before = of(GruSpec::default().with_reset(Reset::BeforeMatmul));
    assert_eq!(before.spec().reset, Reset::BeforeMatmul);
    assert!(Arc::ptr_eq(&after, &of(GruSpec::default())));
    assert_eq!(cache.len(), 2);
}

/// The two ways in which Flex writes to a tensor in place.
#[test]
fn changed_weights_are_packed_again() {
    let mut cache = Cache::default();
    let mut layer = Layer::new();
    let before = layer.packed(&mut cache);
    assert!(layer.0[1].is_unique());
    assert!(layer.0[1].try_storage_mut::<f32>().is_none());
    layer.0[1].storage_mut::<f32>()[0] += 1.0;
    let after = layer.packed(&mut cache);
    assert!(!Arc::ptr_eq(&before, &after));
    let old = std::mem::replace(&mut layer.0[0], tensor([1]));
    layer.0[0] = Flex::float_mul_scalar(old, 2.0f32.into());
    let last = layer.packed(&mut cache);
    assert!(!Arc::ptr_eq(&after, &last));
    assert_eq!(cache.len(), 1);
}

#[test]
fn a_tensor_without_other_handles_is_not_kept() {
    let mut cache = Cache::default();
    let weights = Layer::new().weights();
    assert!(packed(&mut cache, &weights, &GruSpec::default(), [1, 1]).is_none());
    assert_eq!(cache.len(), 0);
}

/// Views of shared tensors, as importers create them.
#[test]
fn the_layout_of_views_is_compared() {
    let mut cache = Cache::default();
    let mut layer = Layer::new();
    layer.0[1] = Flex::float_swap_dims(tensor([3 * H, H]), 0, 1);
    let biases = tensor([6 * H]);
    for (k, from) in [(2, 0), (3, 3 * H)] {
        let range = Slice::from(from..from + 3 * H);
        layer.0[k] = Flex::float_slice(biases.clone(), &[range]);
    }
    let first = layer.packed(&mut cache);
    let second = layer.packed(&mut cache);
    assert!(Arc::ptr_eq(&first, &second));
    layer.0.swap(2, 3);
    let third = layer.packed(&mut cache);
    assert!(!Arc::ptr_eq(&first, &third));
    // The transpose of a square has the same shape.
    let square = tensor([3, 3]);
    let transposed = Flex::float_swap_dims(square.clone(), 0, 1);
    let storage = |tensor| <Flex as CpuBackend<f32>>::storage(tensor).expect("it is shared");
    assert!(storage(&square) != storage(&transposed));
    assert!(storage(&square) == storage(&square.clone()));
}
