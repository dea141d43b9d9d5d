//! The states of a stack, advanced one step at a time.

use super::Stack;
use crate::{
    call::{CallError, check_sizes, length, or_panic},
    pass::StepMemory,
    product::Buffer,
    spec::Direction,
};
use alloc::{sync::Arc, vec::Vec};
use core::fmt;

/// The states of some rows in all layers of a [`Stack`], advanced one step at a time: for sound, text or control
/// signals in real time.
///
/// A [step](Self::step) does not allocate or lock, and runs on the caller's thread. Rows are independent. Streams
/// may share their stack. [`Stack`] has an example.
pub struct StackStream {
    stack: Arc<Stack>,
    n: usize,
    /// The states `[L,N,H]`, and the memory of the next ones.
    states: [Buffer<f32>; 2],
    /// What a step of each layer needs.
    memory: Vec<StepMemory>,
}

impl StackStream {
    /// A stream of N rows whose states are zero.
    ///
    /// # Panics
    /// If the stack has two directions or a layer has the reverse direction, which requires the whole sequence, or the
    /// sizes exceed the address space.
    pub fn new(stack: Arc<Stack>, n: usize) -> Self {
        const OP: &str = "gru_cpu::StackStream::new";
        for (k, layer) in stack.layers.iter().enumerate() {
            assert!(
                layer.direction == Direction::Forward,
                "{OP}: expected the forward direction in every layer, got reverse in layer {k}, which requires \
                 the whole sequence"
            );
            or_panic(OP, check_sizes(&stack.sizes.of_layer(k, [n, 1])));
        }
        assert!(
            stack.sizes.directions == 1,
            "{OP}: expected one direction, got {}",
            stack.sizes.directions
        );
        let units = n * stack.sizes.h;
        let memory = stack.layers.iter();
        let memory = memory.map(|layer| layer.prepared.step_memory(n, layer.zoneout));
        Self {
            n,
            states: [(); 2].map(|()| Buffer::new(stack.layers.len() * units)),
            memory: memory.collect(),
            stack,
        }
    }

    /// Runs one step of every layer with `x [N,I]`, and returns the new states of the last layer, `[N,H]`.
    ///
    /// # Panics
    /// If `x` has the wrong number of elements.
    pub fn step(&mut self, x: &[f32]) -> &[f32] {
        if let Err(error) = self.try_step(x) {
            panic!("gru_cpu::StackStream::step: {error}");
        }
        self.last()
    }

    /// [`step`](Self::step) for a thread that must not panic, such as an audio callback.
    ///
    /// # Errors
    /// [`CallError::Length`] if `x` has the wrong number of elements. The states stay as they are.
    pub fn try_step(&mut self, x: &[f32]) -> Result<&[f32], CallError> {
        let (stack, units) = (&self.stack, self.n * self.stack.sizes.h);
        length("x", x.len(), self.n * stack.sizes.i)?;
        let [states, next] = &mut self.states;
        let (states, next) = (states.as_ref(), next.as_mut());
        for (k, (layer, memory)) in stack.layers.iter().zip(&mut self.memory).enumerate() {
            let (below, new) = next.split_at_mut(k * units);
            let x = if k == 0 { x } else { &below[(k - 1) * units..] };
            let (state, new) = (&states[k * units..][..units], &mut new[..units]);
            layer.prepared.step(self.n, [x, state], new, memory);
        }
        self.states.swap(0, 1);
        Ok(self.last())
    }

    /// The states of the last layer.
    fn last(&self) -> &[f32] {
        let state = self.state();
        &state[state.len() - self.n * self.stack.sizes.h..]
    }

    /// N, the number of rows.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// The states `[L,N,H]`.
    pub fn state(&self) -> &[f32] {
        self.states[0].as_ref()
    }

    /// The states `[L,N,H]`, which the caller may set: to zero for a new sequence, or to a saved state.
    pub fn state_mut(&mut self) -> &mut [f32] {
        self.states[0].as_mut()
    }

    /// Sets the states of a row to zero, for a new sequence.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn restart(&mut self, row: usize) {
        let (n, h) = (self.n, self.stack.sizes.h);
        assert!(
            row < n,
            "gru_cpu::StackStream::restart: row, expected less than {n}, got {row}"
        );
        for layer in 0..self.stack.layers.len() {
            self.state_mut()[(layer * n + row) * h..][..h].fill(0.0);
        }
    }

    /// The weights.
    pub fn stack(&self) -> &Arc<Stack> {
        &self.stack
    }
}

/// A stream that continues from the same states.
impl Clone for StackStream {
    fn clone(&self) -> Self {
        let mut clone = Self::new(self.stack.clone(), self.n);
        clone.state_mut().copy_from_slice(self.state());
        clone
    }
}

impl fmt::Debug for StackStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackStream")
            .field("stack", &self.stack)
            .field("n", &self.n)
            .finish_non_exhaustive()
    }
}
