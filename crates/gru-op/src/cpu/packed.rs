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
mod tests;
