//! Weights that inference has packed, kept while they do not change.
//!
//! A kernel reads weights in an order of its own. A call over many rows packs them on its way. For one step
//! of one row, of which speech and control make a hundred in a second, that does not pay, and reading the
//! weights in place takes as long again as the arithmetic. A transposed view, as an importer makes it, would
//! even be copied first, element by element.
//!
//! An entry knows that its weights did not change, because it holds a weak reference to their storage. While
//! there is one, nothing can write to that storage: `Arc::get_mut` fails, and `Arc::make_mut` moves the
//! contents first. No other storage can have its address either. So a tensor in the same storage has the
//! numbers that were packed.

use std::{
    any::Any,
    sync::{Arc, Weak},
};

use gru_cpu::PackedWeights;
use gru_spec::{GruSpec, Sizes, Weights};

use super::{CpuBackend, slice};
use burn::backend::tensor::FloatTensor;

/// Rows (N·T) of a call up to which packed weights are kept. One row takes twice as long with weights that
/// are not packed (46 µs for 22 at I = H = 256). The more rows share the packing, the less is it worth a
/// second copy of the weights.
const ROWS: usize = 256;

/// Clones of a block share its memory, and may have other weights: at most so many are packed.
const MOST: usize = 4;

/// In which memory a tensor is, and in which order.
pub(super) struct Storage {
    bytes: Weak<dyn Any + Send + Sync>,
    offset: usize,
    strides: Vec<isize>,
}

impl Storage {
    /// The storage of a tensor in `bytes`; none if only `users` hold them, after which they will not be
    /// seen again.
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
}

/// The packed weights of a layer and its clones.
pub(super) struct Cache<E: gru_cpu::Element>(Vec<Packed<E>>);

struct Packed<E: gru_cpu::Element> {
    spec: GruSpec,
    i: usize,
    of: Weights<Storage>,
    weights: Arc<PackedWeights<E>>,
}

impl<E: gru_cpu::Element> Packed<E> {
    fn is_alive(&self) -> bool {
        let Weights {
            w_ih,
            w_hh,
            b_ih,
            b_hh,
        } = &self.of;
        let optional = [w_ih, b_ih, b_hh].into_iter().flatten();
        optional.chain([w_hh]).all(Storage::is_alive)
    }

    fn is_of(&self, spec: &GruSpec, i: usize, of: &Weights<Storage>) -> bool {
        let same = |one: &Option<Storage>, other: &Option<Storage>| match (one, other) {
            (Some(one), Some(other)) => one.is(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.spec == *spec
            && self.i == i
            && same(&self.of.w_ih, &of.w_ih)
            && self.of.w_hh.is(&of.w_hh)
            && same(&self.of.b_ih, &of.b_ih)
            && same(&self.of.b_hh, &of.b_hh)
    }
}

impl<E: gru_cpu::Element> Default for Cache<E> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<E: gru_cpu::Element> Cache<E> {
    /// The weights of a call for inference, packed now or before. None if the call packs them better on its
    /// way, or the backend cannot tell when they change.
    pub(super) fn weights<B: CpuBackend<E>>(
        &mut self,
        weights: &Weights<FloatTensor<B>>,
        spec: &GruSpec,
        sizes: Sizes,
    ) -> Option<Arc<PackedWeights<E>>> {
        if sizes.rows() > ROWS {
            return None;
        }
        let of = storages::<B, E>(weights)?;
        let mut all = self.0.iter();
        if let Some(found) = all.find(|packed| packed.is_of(spec, sizes.i, &of)) {
            return Some(found.weights.clone());
        }
        self.0.retain(Packed::is_alive);
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        let dense = weights.clone().map(B::dense);
        let slices = dense.as_ref().map(slice::<B, E>);
        let weights = Arc::new(PackedWeights::new(spec, sizes.i, sizes.h, slices));
        self.0.push(Packed {
            spec: *spec,
            i: sizes.i,
            of,
            weights: weights.clone(),
        });
        Some(weights)
    }

    pub(super) fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// How many living weights are packed.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().filter(|packed| packed.is_alive()).count()
    }
}

/// Where the weights are, if the backend can tell of all of them.
fn storages<B: CpuBackend<E>, E: gru_cpu::Element>(
    weights: &Weights<FloatTensor<B>>,
) -> Option<Weights<Storage>> {
    let optional = |tensor: &Option<FloatTensor<B>>| match tensor {
        Some(tensor) => B::storage(tensor).map(Some),
        None => Some(None),
    };
    Some(Weights {
        w_ih: optional(&weights.w_ih)?,
        w_hh: B::storage(&weights.w_hh)?,
        b_ih: optional(&weights.b_ih)?,
        b_hh: optional(&weights.b_hh)?,
    })
}

#[cfg(all(test, feature = "flex"))]
mod tests;
