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

/// A gate buffer is freed after this many calls that do not take it.
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
        let kept = f32::of(self);
        kept.gates.iter().map(|(_, buffer)| buffer.len()).collect()
    }

    /// Keeps a gate buffer.
    pub(crate) fn give_back(&self, gates: Vec<f32>) {
        f32::of(self).give_gates(gates);
    }
}

/// What a layer keeps for one float type.
#[derive(Default)]
pub(super) struct Kept<E: gru_cpu::Element> {
    /// Gate buffers that no call uses, the oldest first, with the number of the call before their return.
    gates: Vec<(usize, Vec<E>)>,
    /// Calls so far.
    calls: usize,
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
    /// `2 · len`, and the newest of these. If there is none, all smaller buffers are freed.
    pub(super) fn take_gates(&mut self, len: usize) -> Option<Vec<E>> {
        let fits = |capacity: usize| capacity >= len && capacity / 2 <= len;
        let capacities = self.gates.iter().map(|(_, buffer)| buffer.capacity());
        let fitting = capacities
            .enumerate()
            .filter(|&(_, capacity)| fits(capacity));
        let found = fitting.rev().min_by_key(|&(_, capacity)| capacity);
        let buffer = found.map(|(at, _)| self.gates.remove(at).1);
        if buffer.is_none() {
            self.gates.retain(|(_, buffer)| buffer.capacity() >= len);
        }
        self.infer();
        let mut buffer = buffer?;
        buffer.resize(len, E::zero());
        Some(buffer)
    }

    /// Keeps a gate buffer for a later forward pass.
    pub(super) fn give_gates(&mut self, buffer: Vec<E>) {
        if buffer.capacity() * size_of::<E>() >= LARGE {
            self.gates.push((self.calls, buffer));
        }
    }

    /// Counts a call.
    pub(super) fn infer(&mut self) {
        self.calls += 1;
        self.gates
            .retain(|(returned, _)| self.calls - returned < MAX_IDLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = LARGE / size_of::<f32>();

    impl Kept<f32> {
        fn gate_lengths(&self) -> Vec<usize> {
            let buffers = self.gates.iter();
            buffers.map(|(_, buffer)| buffer.capacity()).collect()
        }

        /// Training steps with `gates` buffers of each length. Returns the lengths that are kept.
        fn train(&mut self, gates: usize, lens: impl IntoIterator<Item = usize>) -> Vec<usize> {
            for len in lens {
                let take = |_| self.take_gates(len).unwrap_or_else(|| vec![0.0; len]);
                let buffers: Vec<_> = (0..gates).map(take).collect();
                buffers
                    .into_iter()
                    .for_each(|buffer| self.give_gates(buffer));
            }
            self.gate_lengths()
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
        // The larger freed the smaller once. Both are kept after that.
        let lens = [LEN, 4 * LEN].repeat(3);
        assert_eq!(kept.train(1, lens), [LEN, 4 * LEN]);
        assert_eq!(kept.take_gates(LEN).map(|buffer| buffer.len()), Some(LEN));
        assert_eq!(kept.gate_lengths(), [4 * LEN]);
        kept.give_gates(vec![0.0; LEN / 2]);
        assert_eq!(kept.gate_lengths(), [4 * LEN], "a small buffer");
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
                let (mut kept, mut most) = (Kept::<f32>::default(), 0);
                for (at, len) in lens.into_iter().enumerate() {
                    most = most.max(gates * len);
                    let kept: usize = kept.train(gates, [len]).into_iter().sum();
                    assert!(
                        kept <= 2 * most,
                        "{name}, {gates} gates, step {at}: {kept} kept, {most} in use at once"
                    );
                }
            }
        }
    }

    /// A longer buffer that training does not take, and buffers of calls at the same time, of which later calls take the
    /// newest.
    #[test]
    fn buffers_that_training_does_not_take_are_freed() {
        for lens in [vec![8 * LEN], vec![LEN; 3]] {
            let mut kept = Kept::<f32>::default();
            lens.into_iter()
                .for_each(|len| kept.give_gates(vec![0.0; len]));
            assert_eq!(kept.train(1, [LEN; MAX_IDLE]), [LEN]);
        }
    }

    #[test]
    fn gates_are_freed_when_training_is_over() {
        let mut kept = Kept::<f32>::default();
        kept.give_gates(vec![0.0; LEN]);
        for _ in 0..2 {
            (1..MAX_IDLE).for_each(|_| kept.infer());
            assert_eq!(kept.gate_lengths(), [LEN]);
            let buffer = kept.take_gates(LEN).expect("it was kept");
            kept.give_gates(buffer);
        }
        (0..MAX_IDLE).for_each(|_| kept.infer());
        assert!(kept.gate_lengths().is_empty());
    }
}
