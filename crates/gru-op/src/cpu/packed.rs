//! Weights that inference has packed, kept for as long as they stay what they are.
//!
//! A kernel reads weights in an order of its own. A call over many rows packs them on its way; for one
//! step of one row, of which speech and control make a hundred in a second, that does not pay, and
//! reading them where they lie takes as long again as the arithmetic. A transposed view, as an importer
//! makes them, would even be copied first, element by element.
//!
//! How an entry knows that its weights are unchanged: it holds a weak reference to their storage.
//! While there is one, nobody can write to that storage: `Arc::get_mut` refuses, and
//! `Arc::make_mut` moves the contents elsewhere first. And nobody else can have its address. So a tensor
//! in the same storage has the numbers that were packed.

use super::{CpuBackend, DenseWeights, Weights, dims};
use crate::{
    GruInputs,
    spec::{Direction, GruSpec, Layout, Memory},
};
use gru_cpu::PackedWeights;
use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// Rows (N·T) of a call up to which packed weights are kept. One row takes twice as long with weights
/// that are not packed (46 µs for 22 at I = H = 256); the more rows share the packing, the less is it
/// worth a second copy of the weights.
const ROWS: usize = 256;

/// Whose numbers a tensor has, and in which order.
pub(super) struct Storage {
    bytes: Weak<dyn Any + Send + Sync>,
    offset: usize,
    strides: Vec<isize>,
}

impl Storage {
    /// That of a tensor in `bytes`; none if nobody but `users` knows of them, after which they will
    /// not be seen again.
    pub(super) fn of<T: Any + Send + Sync>(
        bytes: &Arc<T>,
        offset: usize,
        strides: &[isize],
        users: usize,
    ) -> Option<Self> {
        let shared = Arc::strong_count(bytes) > users;
        let bytes: Weak<T> = Arc::downgrade(bytes);
        shared.then(|| Self {
            bytes,
            offset,
            strides: strides.to_vec(),
        })
    }

    fn is(&self, other: &Self) -> bool {
        self.bytes.ptr_eq(&other.bytes)
            && self.offset == other.offset
            && self.strides == other.strides
    }

    fn is_alive(&self) -> bool {
        self.bytes.strong_count() > 0
    }

    /// While this lives, that of no other storage.
    fn address(&self) -> usize {
        self.bytes.as_ptr().addr()
    }
}

/// The packed weights of one float type, by the address of the recurrent weight's storage: a
/// population of thousands of networks is as fast as one.
pub(super) struct Cache<E: gru_cpu::Element>(Mutex<BTreeMap<usize, Vec<Entry<E>>>>);

struct Entry<E: gru_cpu::Element> {
    /// By [`packing`].
    spec: GruSpec,
    i: usize,
    h: usize,
    /// `w_ih`, `w_hh`, `b_ih`, `b_hh`.
    of: [Option<Storage>; 4],
    weights: Arc<PackedWeights<E>>,
}

/// The spec without what packing does not depend on.
fn packing(spec: &GruSpec) -> GruSpec {
    spec.with_layout(Layout::BatchMajor)
        .with_direction(Direction::Forward)
        .with_memory(Memory::Speed)
}

impl<E: gru_cpu::Element> Entry<E> {
    fn is_alive(&self) -> bool {
        self.of.iter().flatten().all(Storage::is_alive)
    }

    fn is_of(&self, spec: &GruSpec, sizes: (usize, usize), of: &[Option<Storage>; 4]) -> bool {
        let same = |pair: (&Option<Storage>, &Option<Storage>)| match pair {
            (Some(one), Some(other)) => one.is(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.spec == *spec && (self.i, self.h) == sizes && self.of.iter().zip(of).all(same)
    }

    fn bytes(&self) -> usize {
        let features = match self.of[0] {
            Some(_) => self.i,
            None => 0,
        };
        (features + self.h + 2) * 3 * self.h * size_of::<E>()
    }
}

impl<E: gru_cpu::Element> Cache<E> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// The weights of a call, packed now or before; none if they are better packed on the way.
    pub(super) fn weights<B: CpuBackend<E>>(
        &self,
        inputs: &GruInputs<B>,
        spec: &GruSpec,
    ) -> Option<Arc<PackedWeights<E>>> {
        let dims = dims(inputs, spec);
        if dims.rows() > ROWS {
            return None;
        }
        let tensors = [
            inputs.w_ih.get(),
            Some(&inputs.w_hh),
            inputs.b_ih.get(),
            inputs.b_hh.get(),
        ];
        let mut of = [const { None }; 4];
        for (storage, tensor) in of.iter_mut().zip(tensors) {
            if let Some(tensor) = tensor {
                *storage = Some(B::storage(tensor)?);
            }
        }
        let address = of[1].as_ref()?.address();
        let spec = &packing(spec);
        let sizes = (dims.i, dims.h);
        let found = self.with(|entries| {
            let mut there = entries.get(&address).into_iter().flatten();
            let found = there.find(|entry| entry.is_of(spec, sizes, &of));
            found.map(|entry| entry.weights.clone())
        });
        if found.is_some() {
            return found;
        }
        let weights = Arc::new(pack(inputs.clone(), spec, sizes));
        let entry = Entry {
            spec: *spec,
            i: dims.i,
            h: dims.h,
            of,
            weights: weights.clone(),
        };
        // Other weights mostly come in the place of those that are gone.
        self.tidy();
        self.with(|entries| entries.entry(address).or_default().push(entry));
        Some(weights)
    }

    /// Frees what belongs to weights that are no more.
    pub(super) fn tidy(&self) {
        self.with(|entries| {
            entries.retain(|_, of_address| {
                of_address.retain(Entry::is_alive);
                !of_address.is_empty()
            });
        });
    }

    /// Frees all; the bytes of it.
    pub(super) fn release(&self) -> usize {
        self.with(|entries| {
            let entries = std::mem::take(entries).into_values().flatten();
            entries.map(|entry| entry.bytes()).sum()
        })
    }

    fn with<R>(&self, f: impl FnOnce(&mut BTreeMap<usize, Vec<Entry<E>>>) -> R) -> R {
        // Between two entries nothing can be half done.
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn pack<B: CpuBackend<E>, E: gru_cpu::Element>(
    inputs: GruInputs<B>,
    spec: &GruSpec,
    (i, h): (usize, usize),
) -> PackedWeights<E> {
    let weights = DenseWeights::<B, E>::new(Weights {
        w_ih: inputs.w_ih,
        w_hh: inputs.w_hh,
        b_ih: inputs.b_ih,
        b_hh: inputs.b_hh,
    });
    PackedWeights::new(spec, i, h, weights.slices())
}

#[cfg(all(test, feature = "flex"))]
mod tests {
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
        fn packed(
            &self,
            cache: &Cache<f32>,
            n: usize,
            t: usize,
        ) -> Option<Arc<PackedWeights<f32>>> {
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
}
