//! The states of a stack, advanced one step at a time.

use super::{Kernel, Layer, Stack};
use crate::{
    call::{check_len, check_sizes, or_panic},
    pass::StepScratch,
    quantized::Scratch,
    spec::{Direction, Sizes},
};
use std::{fmt, sync::Arc};

/// The states of some rows in all layers of a [`Stack`], advanced one step at a time: for sound, text or control
/// signals in real time.
///
/// A [step](Self::step) does not allocate or lock, and runs on the caller's thread. Rows are independent. Streams
/// may share their stack. [`Stack`] has an example.
pub struct StackStream {
    stack: Arc<Stack>,
    n: usize,
    /// `[L,N,H]`.
    state: Vec<f32>,
    layers: Vec<Memory>,
}

/// What a step of a layer needs.
enum Memory {
    Full {
        scratch: StepScratch,
        /// The new states, computed apart from the previous ones.
        new: Vec<f32>,
        /// The share of the state that is kept, for all rows and units, if it is not zero.
        zoneout: Option<Vec<f32>>,
    },
    Quantized(Scratch),
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
            let sizes = Sizes {
                n,
                t: 1,
                i: layer.features,
                h: stack.h,
            };
            or_panic(OP, check_sizes(&sizes));
        }
        assert!(
            stack.directions == 1,
            "{OP}: expected one direction, got {}",
            stack.directions
        );
        let units = n * stack.h;
        let memory = |layer: &Layer| match &layer.kernel {
            Kernel::Full(weights) => Memory::Full {
                scratch: weights.step_scratch(n),
                new: vec![0.0; units],
                zoneout: (layer.zoneout > 0.0).then(|| vec![layer.zoneout; units]),
            },
            Kernel::Quantized(layer) => Memory::Quantized(Scratch::new(layer, n, 1)),
        };
        Self {
            n,
            state: vec![0.0; stack.layers.len() * units],
            layers: stack.layers.iter().map(memory).collect(),
            stack,
        }
    }

    /// Runs one step of every layer with `x [N,I]`, and returns the new states of the last layer, `[N,H]`.
    ///
    /// # Panics
    /// If `x` has the wrong number of elements.
    pub fn step(&mut self, x: &[f32]) -> &[f32] {
        let (stack, units) = (&self.stack, self.n * self.stack.h);
        check_len("gru_cpu::StackStream::step", "x", x, self.n * stack.i);
        for (k, (layer, memory)) in stack.layers.iter().zip(&mut self.layers).enumerate() {
            let (below, state) = self.state.split_at_mut(k * units);
            let x = if k == 0 { x } else { &below[(k - 1) * units..] };
            let state = &mut state[..units];
            match (&layer.kernel, memory) {
                (
                    Kernel::Full(weights),
                    Memory::Full {
                        scratch,
                        new,
                        zoneout,
                    },
                ) => {
                    weights.step(self.n, [x, state], zoneout.as_deref(), new, scratch);
                    state.copy_from_slice(new);
                }
                (Kernel::Quantized(layer), Memory::Quantized(scratch)) => {
                    layer.step(x, state, scratch);
                }
                _ => unreachable!("the memory was made for this stack"),
            }
        }
        &self.state[self.state.len() - units..]
    }

    /// N, the number of rows.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// The states `[L,N,H]`.
    pub fn state(&self) -> &[f32] {
        &self.state
    }

    /// The states `[L,N,H]`, which the caller may set: to zero for a new sequence, or to a saved state.
    pub fn state_mut(&mut self) -> &mut [f32] {
        &mut self.state
    }

    /// Sets the states of a row to zero, for a new sequence.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn restart(&mut self, row: usize) {
        let (n, h) = (self.n, self.stack.h);
        assert!(
            row < n,
            "gru_cpu::StackStream::restart: row, expected less than {n}, got {row}"
        );
        for layer in 0..self.stack.layers.len() {
            self.state[(layer * n + row) * h..][..h].fill(0.0);
        }
    }

    /// The weights.
    pub fn stack(&self) -> &Arc<Stack> {
        &self.stack
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
