//! Packed weights for inference, kept while the weights do not change.
//!
//! A call over many rows packs the weights as a part of its work, and a call over few rows reads them in place.
//! With packed weights both are faster.
//!
//! Each entry has a weak reference to the storage of its weights. While a weak reference exists, nothing can
//! write to that storage: `Arc::get_mut` fails, and `Arc::make_mut` moves the contents first. The address
//! cannot be reused either. So a tensor in the same storage has the numbers that were packed.

use super::{CpuBackend, slice};
use burn::backend::tensor::FloatTensor;
use gru_cpu::PackedWeights;
use gru_spec::{GruSpec, Sizes, Weights};
use std::{
    any::Any,
    sync::{Arc, Weak},
};

/// The most rows (N·T) of a call with packed weights. Without them, one step of one row takes 1.5 times as long (35
/// instead of 24 µs at I = H = 256). At I = 64 and H = 128, 128 steps take 6% longer. With more rows, packing costs
/// less for each row than a second copy is worth.
const MAX_ROWS: usize = 256;

/// The most entries. Clones of a block share its memory, and may have different weights.
const MAX_ENTRIES: usize = 4;

/// Where a tensor is in memory, and in which order.
pub(super) struct Storage {
    bytes: Weak<dyn Any + Send + Sync>,
    offset: usize,
    strides: Vec<isize>,
}

impl Storage {
    /// The storage of a tensor in `bytes`. `None` if there are only `users` references: the caller drops
    /// them, and no later call has this tensor.
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

    fn is_alive(&self) -> bool {
        self.bytes.strong_count() > 0
    }
}

impl PartialEq for Storage {
    fn eq(&self, other: &Self) -> bool {
        self.bytes.ptr_eq(&other.bytes)
            && self.offset == other.offset
            && self.strides == other.strides
    }
}

/// The packed weights of a layer and its clones.
#[derive(Default)]
pub(super) struct Cache<E: gru_cpu::Element>(Vec<Packed<E>>);

struct Packed<E: gru_cpu::Element> {
    spec: GruSpec,
    i: usize,
    from: Storages,
    weights: Arc<PackedWeights<E>>,
}

/// The storage of each weight and bias.
type Storages = [Option<Storage>; 4];

impl<E: gru_cpu::Element> Packed<E> {
    fn is_alive(&self) -> bool {
        self.from.iter().flatten().all(Storage::is_alive)
    }
}

impl<E: gru_cpu::Element> Cache<E> {
    /// The packed weights of a call for inference. `None` if the call has many rows, or the backend cannot
    /// detect a change of the weights.
    pub(super) fn weights<B: CpuBackend<E>>(
        &mut self,
        weights: &Weights<FloatTensor<B>>,
        spec: &GruSpec,
        sizes: Sizes,
    ) -> Option<Arc<PackedWeights<E>>> {
        if sizes.rows() > MAX_ROWS {
            return None;
        }
        let from = storages::<B, E>(weights)?;
        let is_same = |packed: &&Packed<E>| {
            packed.spec == *spec && packed.i == sizes.i && packed.from == from
        };
        if let Some(found) = self.0.iter().find(is_same) {
            return Some(found.weights.clone());
        }
        self.0.retain(Packed::is_alive);
        if self.0.len() == MAX_ENTRIES {
            self.0.remove(0);
        }
        let dense = weights.clone().map(B::dense);
        let slices = dense.as_ref().map(slice::<B, E>);
        let weights = Arc::new(PackedWeights::new(spec, sizes.i, sizes.h, slices));
        self.0.push(Packed {
            spec: *spec,
            i: sizes.i,
            from,
            weights: weights.clone(),
        });
        Some(weights)
    }

    pub(super) fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// The number of entries whose weights exist.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().filter(|packed| packed.is_alive()).count()
    }
}

fn storages<B: CpuBackend<E>, E: gru_cpu::Element>(
    weights: &Weights<FloatTensor<B>>,
) -> Option<Storages> {
    let Weights {
        w_ih,
        w_hh,
        b_ih,
        b_hh,
    } = weights;
    let tensors = [w_ih.as_ref(), Some(w_hh), b_ih.as_ref(), b_hh.as_ref()];
    let all = tensors.map(|tensor| tensor.map(B::storage));
    let is_known = !all.iter().any(|storage| matches!(storage, Some(None)));
    is_known.then_some(all.map(Option::flatten))
}

#[cfg(all(test, feature = "flex"))]
mod tests;
