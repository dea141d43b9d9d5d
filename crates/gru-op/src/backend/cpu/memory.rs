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
            self.gates
                .iter()
                .map(|(_, buffer)| buffer.capacity())
                .collect()
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
    fn a_longer_buffer_that_training_does_not_take_is_freed() {
        let mut kept = Kept::<f32>::default();
        kept.give_gates(vec![0.0; 8 * LEN]);
        for _ in 0..MAX_IDLE {
            let buffer = kept.take_gates(LEN).unwrap_or_else(|| vec![0.0; LEN]);
            kept.give_gates(buffer);
        }
        assert_eq!(kept.gate_lengths(), [LEN]);
    }

    /// The newest is taken, so the others are freed.
    #[test]
    fn buffers_of_calls_at_the_same_time_are_freed_if_later_calls_are_alone() {
        let mut kept = Kept::<f32>::default();
        (0..3).for_each(|_| kept.give_gates(vec![0.0; LEN]));
        for _ in 0..MAX_IDLE {
            let buffer = kept.take_gates(LEN).expect("it was kept");
            kept.give_gates(buffer);
        }
        assert_eq!(kept.gate_lengths(), [LEN]);
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
