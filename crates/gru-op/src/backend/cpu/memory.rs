//! What a layer keeps between calls on the CPU, see [`LayerMemory`](crate::backend::LayerMemory).
//!
//! A training step needs as much memory as the previous step. If the allocator returned it to the system, a
//! step with N 64, T 100, H 512 would take at least 6% longer. On virtual machines that give freed memory to their
//! host, it would take up to a third longer.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Smaller buffers, in bytes, are left to the allocator.
const LARGE: usize = 1 << 20;

/// Gate buffers are freed after this many calls without gates.
const MAX_IDLE: usize = 256;

/// What a layer keeps, for both float types.
#[derive(Default)]
pub(crate) struct Memory {
    f32: Mutex<Kept<f32>>,
    f64: Mutex<Kept<f64>>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

impl Memory {
    /// Counts a call in float32 that keeps no gates.
    pub(crate) fn infer(&self) {
        f32::of(self).infer();
    }
}

#[cfg(test)]
impl Memory {
    /// Lengths of the gate buffers in float32.
    pub(crate) fn kept(&self) -> Vec<usize> {
        f32::of(self).gates.iter().map(Vec::len).collect()
    }

    /// Keeps a gate buffer.
    pub(crate) fn give_back(&self, gates: Vec<f32>) {
        f32::of(self).give_gates(gates);
    }
}

/// What a layer keeps for one float type.
#[derive(Default)]
pub(super) struct Kept<E: gru_cpu::Element> {
    /// Gate buffers that no call uses, the oldest first.
    gates: Vec<Vec<E>>,
    /// Bytes returned since a buffer was last taken.
    returned: usize,
    /// The largest `returned` so far. These bytes were in use at the same time.
    peak: usize,
    /// Calls without gates since the last call with gates.
    idle: usize,
}

/// A float type that [`Memory`] has a field for.
pub(super) trait Keep: gru_cpu::Element {
    fn of(memory: &Memory) -> MutexGuard<'_, Kept<Self>>;
}

macro_rules! keep {
    ($name:ident) => {
        impl Keep for $name {
            fn of(memory: &Memory) -> MutexGuard<'_, Kept<Self>> {
                // Every method leaves it in a valid state.
                memory.$name.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    };
}
keep!(f32);
keep!(f64);

impl<E: gru_cpu::Element> Kept<E> {
    /// A gate buffer with arbitrary contents: the smallest one whose capacity is between `len` and
    /// `2 · len`. If there is none, all smaller buffers are freed.
    pub(super) fn take_gates(&mut self, len: usize) -> Option<Vec<E>> {
        (self.returned, self.idle) = (0, 0);
        let fits = |capacity: usize| capacity >= len && capacity / 2 <= len;
        let sizes = self.gates.iter().map(Vec::capacity).zip(0..);
        let Some((_, at)) = sizes.filter(|&(capacity, _)| fits(capacity)).min() else {
            self.gates.retain(|buffer| buffer.capacity() >= len);
            return None;
        };
        let mut buffer = self.gates.remove(at);
        buffer.resize(len, E::zero());
        Some(buffer)
    }

    /// Keeps a gate buffer for a later forward pass. Frees the oldest buffers while there is more than twice
    /// the peak.
    pub(super) fn give_gates(&mut self, buffer: Vec<E>) {
        let bytes = |buffer: &Vec<E>| buffer.capacity() * size_of::<E>();
        if bytes(&buffer) < LARGE {
            return;
        }
        self.returned += bytes(&buffer);
        self.peak = self.peak.max(self.returned);
        self.gates.push(buffer);
        while self.gates.iter().map(bytes).sum::<usize>() > 2 * self.peak {
            self.gates.remove(0);
        }
    }

    /// Counts a call without gates.
    pub(super) fn infer(&mut self) {
        self.idle += 1;
        if self.idle >= MAX_IDLE {
            self.gates = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = LARGE / size_of::<f32>();

    impl Kept<f32> {
        fn gate_lengths(&self) -> Vec<usize> {
            self.gates.iter().map(Vec::capacity).collect()
        }
    }

    #[test]
    fn a_buffer_is_reused_for_a_similar_size() {
        let mut kept = Kept::<f32>::default();
        let buffer = vec![0.0; LEN + 8];
        let at = buffer.as_ptr();
        kept.give_gates(buffer);
        assert!(kept.take_gates(LEN / 3).is_none());
        for len in [LEN + 8, LEN, LEN / 2 + 4] {
            let buffer = kept.take_gates(len).expect("a similar size");
            assert_eq!((buffer.len(), buffer.as_ptr()), (len, at));
            kept.give_gates(buffer);
        }
        // A longer one frees it.
        assert!(kept.take_gates(LEN + 9).is_none());
        assert!(kept.gate_lengths().is_empty());
    }

    #[test]
    fn alternating_sizes_find_their_buffers() {
        let mut kept = Kept::<f32>::default();
        for len in [LEN, 4 * LEN, LEN, 4 * LEN, LEN, 4 * LEN] {
            let buffer = kept.take_gates(len).unwrap_or_else(|| vec![0.0; len]);
            kept.give_gates(buffer);
        }
        // The larger freed the smaller once. Both are kept after that.
        assert_eq!(kept.gate_lengths(), [LEN, 4 * LEN]);
        assert_eq!(kept.take_gates(LEN).map(|buffer| buffer.len()), Some(LEN));
        assert_eq!(kept.gate_lengths(), [4 * LEN]);
        kept.give_gates(vec![0.0; LEN / 2]);
        assert_eq!(kept.gate_lengths(), [4 * LEN], "a small buffer");
    }

    /// Bytes kept and bytes in use at once, after each of some steps with `gates` buffers each.
    fn steps(gates: usize, lens: impl IntoIterator<Item = usize>) -> Vec<(usize, usize)> {
        let mut kept = Kept::<f32>::default();
        let step = |len: usize| {
            let buffers =
                (0..gates).map(|_| kept.take_gates(len).unwrap_or_else(|| vec![0.0; len]));
            let buffers: Vec<_> = buffers.collect();
            buffers
                .into_iter()
                .for_each(|buffer| kept.give_gates(buffer));
            (kept.gate_lengths().into_iter().sum(), gates * len)
        };
        lens.into_iter().map(step).collect()
    }

    #[test]
    fn at_most_twice_what_was_in_use_is_kept() {
        let random = |k: usize| LEN * (1 + k * k * 7919 % 32);
        for gates in [1, 3] {
            for (name, lens) in [
                ("growing", (1..=32).map(|k| LEN * k).collect::<Vec<_>>()),
                ("shrinking", (1..=32).rev().map(|k| LEN * k).collect()),
                ("random", (1..=100).map(random).collect()),
            ] {
                let mut most = 0;
                for (at, (kept, used)) in steps(gates, lens).into_iter().enumerate() {
                    most = most.max(used);
                    assert!(
                        kept <= 2 * most,
                        "{name}, {gates} gates, step {at}: {kept} kept, {most} in use at once"
                    );
                }
            }
        }
    }

    #[test]
    fn gates_are_freed_when_training_is_over() {
        let mut kept = Kept::<f32>::default();
        kept.give_gates(vec![0.0; LEN]);
        (1..MAX_IDLE).for_each(|_| kept.infer());
        assert_eq!(kept.gate_lengths(), [LEN]);
        let buffer = kept.take_gates(LEN).expect("it was kept");
        kept.give_gates(buffer);
        (1..MAX_IDLE).for_each(|_| kept.infer());
        assert_eq!(kept.gate_lengths(), [LEN]);
        kept.infer();
        assert!(kept.gate_lengths().is_empty());
    }
}
