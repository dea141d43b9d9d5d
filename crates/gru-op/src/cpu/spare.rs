//! Gates that a backward pass has read and nobody else holds, kept for the next forward pass.
//!
//! A training step needs as much as the one before it. Given back to the system, fresh pages cost
//! each step of N 64, T 100, H 512 a seventeenth of its time at best, and up to a third where a
//! virtual machine hands freed memory to its host.
//!
//! Sizes change from step to step. A buffer serves requests from half its size to the whole; a
//! request that none serves frees all smaller ones, which have been outgrown. So with one gate in
//! use at a time each of the buffers is more than twice as large as the next, and all together
//! less than twice the largest. Whatever happens, they are at most twice the bytes that were in use
//! at once: buffers given back one after the other, with none taken in between, were, and the oldest
//! are freed to keep to twice the most that came back so.

use std::sync::{Mutex, PoisonError};

/// Bytes below which the allocator does well by itself.
const LARGE: usize = 1 << 20;

/// Calls of the operator after which a buffer that nobody took is freed: training is over, or its
/// sizes have changed. More calls than that lie between two uses in networks of over 100 layers only.
const PATIENCE: usize = 256;

/// The buffers of one type that nobody uses.
pub(super) struct Spares<E>(Mutex<State<E>>);

struct State<E> {
    calls: usize,
    /// Each with the call that gave it back.
    buffers: Vec<(usize, Vec<E>)>,
    /// Bytes given back since one was last taken.
    given: usize,
    /// The most that was ever given back so. All of it was in use at once.
    most: usize,
}

impl<E> State<E> {
    fn bytes(&self) -> usize {
        let sizes = self.buffers.iter().map(|(_, buffer)| buffer.capacity());
        sizes.sum::<usize>() * size_of::<E>()
    }
}

impl<E: gru_cpu::Element> Spares<E> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(State {
            calls: 0,
            buffers: Vec::new(),
            given: 0,
            most: 0,
        }))
    }

    /// A buffer of any contents.
    pub(super) fn take(&self, len: usize) -> Vec<E> {
        let fits = |capacity: usize| capacity >= len && capacity / 2 <= len;
        let spare = self.with(|state| {
            state.given = 0;
            let buffers = state.buffers.iter().enumerate();
            let sizes = buffers.map(|(at, (_, buffer))| (buffer.capacity(), at));
            match sizes.filter(|&(capacity, _)| fits(capacity)).min() {
                Some((_, at)) => Some(state.buffers.swap_remove(at).1),
                None => {
                    state.buffers.retain(|(_, buffer)| buffer.capacity() >= len);
                    None
                }
            }
        });
        match spare {
            Some(mut buffer) => {
                buffer.resize(len, E::zero());
                buffer
            }
            None => gru_cpu::buffer(len),
        }
    }

    /// Keeps a buffer for a while, if that pays, and not too much with it.
    pub(super) fn give(&self, buffer: Vec<E>) {
        let bytes = buffer.capacity() * size_of::<E>();
        if bytes < LARGE {
            return;
        }
        self.with(|state| {
            state.buffers.push((state.calls, buffer));
            state.given += bytes;
            state.most = state.most.max(state.given);
            while state.bytes() > 2 * state.most {
                let oldest = state.buffers.iter().enumerate();
                let oldest = oldest.min_by_key(|(_, (given, _))| *given);
                let (at, _) = oldest.expect("there are bytes in them");
                state.buffers.swap_remove(at);
            }
        });
    }

    /// Bytes of all buffers.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.with(|state| state.bytes())
    }

    /// Frees all buffers; their bytes.
    pub(super) fn release(&self) -> usize {
        self.with(|state| {
            let bytes = state.bytes();
            state.buffers = Vec::new();
            bytes
        })
    }

    /// Counts a call that needs no buffer.
    pub(super) fn pass(&self) {
        self.with(|_| ());
    }

    fn with<R>(&self, f: impl FnOnce(&mut State<E>) -> R) -> R {
        // Between two buffers nothing can be half done.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut state);
        state.calls += 1;
        let oldest = state.calls.saturating_sub(PATIENCE);
        state.buffers.retain(|(given, _)| *given >= oldest);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Keep, *};
    #[cfg(feature = "autodiff")]
    use crate::{GruBlockConfig, Memory};
    #[cfg(feature = "autodiff")]
    use burn::tensor::{Device, Distribution, Tensor};

    const LEN: usize = LARGE / size_of::<f32>();

    /// Held by tests of the buffers of the whole process.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_buffer_comes_back_for_a_size_like_its_own() {
        let spares = Spares::<f32>::new();
        let buffer = spares.take(LEN + 7);
        let at = buffer.as_ptr();
        spares.give(buffer);
        // And what is left then: a request that is too large frees what it has outgrown.
        for (len, same, left) in [
            (LEN / 3, false, LEN + 7),
            (LEN + 7, true, 0),
            (LEN, true, 0),
            (LEN + 8, false, 0),
        ] {
            let buffer = spares.take(len);
            assert_eq!(buffer.len(), len);
            assert_eq!(spares.bytes(), left * size_of::<f32>(), "{len}");
            if same {
                assert_eq!(buffer.as_ptr(), at, "{len}");
                spares.give(buffer);
            }
        }
    }

    /// Whether a training step kept its gates. `h` tells them from those of other steps.
    #[cfg(feature = "autodiff")]
    #[allow(dead_code)] // A build may have no CPU backend.
    fn keeps_gates(device: Device, memory: Memory, h: usize) -> bool {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let [n, t, i] = [8, 160, 3];
        let x = Tensor::<3>::random([n, t, i], Distribution::Default, &device);
        let config = GruBlockConfig::new(i, h).with_memory(memory);
        let gru = config.init(&device);
        gru.forward(x, None).0.sum().backward();
        f32::spares().with(|state| {
            let mut sizes = state.buffers.iter().map(|(_, buffer)| buffer.len());
            sizes.any(|len| len == 4 * n * t * h)
        })
    }

    #[test]
    #[cfg(all(feature = "autodiff", feature = "flex"))]
    fn flex_leaves_its_gates() {
        assert!(keeps_gates(Device::flex().autodiff(), Memory::Speed, 64));
    }

    #[test]
    #[cfg(all(feature = "autodiff", feature = "ndarray"))]
    #[allow(deprecated)]
    fn ndarray_leaves_its_gates() {
        assert!(keeps_gates(Device::ndarray().autodiff(), Memory::Speed, 65));
    }

    #[test]
    #[cfg(all(feature = "autodiff", feature = "flex"))]
    fn whoever_asks_for_memory_keeps_no_gates() {
        let device = Device::flex().autodiff();
        assert!(!keeps_gates(device.clone(), Memory::Lean, 67));
        let checkpointing = device.gradient_checkpointing();
        assert!(!keeps_gates(checkpointing.clone(), Memory::Speed, 68));
        assert!(!keeps_gates(checkpointing, Memory::Lean, 69));
    }

    #[test]
    #[cfg(feature = "flex")]
    fn every_gate_is_written_those_of_skipped_steps_too() {
        use crate::{GruBackend, GruInputs, GruSpec, OptionalTensor, Reset, cpu::CpuBackend};
        use burn::tensor::Shape;
        use burn_flex::Flex;

        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let [n, t, i, h] = [8, 160, 3, 66];
        let tensor = |shape: &[usize], value: f32| {
            let data = vec![value; shape.iter().product()];
            <Flex as CpuBackend<f32>>::tensor(data, Shape::from(shape.to_vec()))
        };
        let absent = || OptionalTensor::Absent;
        let inputs = GruInputs::<Flex> {
            x: tensor(&[n, t, i], 0.3),
            h0: absent(),
            w_ih: OptionalTensor::Given(tensor(&[i, 3 * h], 0.1)),
            w_hh: tensor(&[h, 3 * h], 0.01),
            b_ih: absent(),
            b_hh: absent(),
            mask: absent(),
            valid: OptionalTensor::Given(tensor(&[n, t], 0.0)),
            take: absent(),
        };
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            for clip in [None, Some(0.5)] {
                let spec = GruSpec::default().with_reset(reset).with_clip_gates(clip);
                let len = spec.saved_per_unit() * n * t * h;
                f32::spares().give(vec![f32::NAN; len]);
                let gates = Flex::gru_states_and_gates(inputs.clone(), spec).gates;
                let gates = <Flex as CpuBackend<f32>>::dense(gates);
                let gates: &[f32] = gates.as_ref();
                assert_eq!(gates.len(), len);
                assert!(gates.iter().all(|gate| gate.is_finite()), "{spec:?}");
            }
        }
    }

    /// Bytes kept and bytes in use at once, after each of some steps with `gates` buffers each.
    fn steps(gates: usize, lens: impl IntoIterator<Item = usize>) -> Vec<(usize, usize)> {
        let spares = Spares::<f32>::new();
        let step = |len: usize| {
            let taken: Vec<_> = (0..gates).map(|_| spares.take(len)).collect();
            taken.into_iter().for_each(|buffer| spares.give(buffer));
            (spares.bytes(), gates * len * size_of::<f32>())
        };
        lens.into_iter().map(step).collect()
    }

    #[test]
    fn what_is_kept_is_at_most_twice_what_was_in_use() {
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
                        "{name}, {gates} gates, step {at}: {kept} bytes kept, {most} in use at once"
                    );
                }
            }
        }
    }

    #[test]
    fn sizes_that_come_back_find_their_buffers() {
        let spares = Spares::<f32>::new();
        // Two networks in turn, of gates far apart in size.
        let lens = [LEN, 4 * LEN, LEN, 4 * LEN, LEN, 4 * LEN];
        for len in lens {
            spares.give(spares.take(len));
        }
        // The larger freed the smaller once. From then on both were there.
        assert_eq!(spares.bytes(), 5 * LEN * size_of::<f32>());
        drop(spares.take(LEN));
        assert_eq!(spares.bytes(), 4 * LEN * size_of::<f32>());
    }

    #[test]
    fn all_is_released_when_asked() {
        let spares = Spares::<f64>::new();
        spares.give(vec![0.0; LEN]);
        spares.give(vec![0.0; 2 * LEN]);
        assert_eq!(spares.release(), 3 * LEN * size_of::<f64>());
        assert_eq!((spares.bytes(), spares.release()), (0, 0));
    }

    #[test]
    fn what_is_small_or_not_wanted_is_freed() {
        let spares = Spares::<f32>::new();
        let count = || spares.with(|state| state.buffers.len());
        spares.give(vec![0.0; LEN / 2]);
        assert_eq!(count(), 0);
        spares.give(vec![0.0; LEN]);
        assert_eq!(count(), 1);
        (0..PATIENCE).for_each(|_| spares.pass());
        assert_eq!(count(), 0);
    }
}
