//! Weights that are packed once for many calls, and streams that keep their states between steps.

use crate::{
    call::{
        CallError, Gru, Sequence, Weights, check_len, check_sequence, check_sizes, check_weights,
        or_panic,
    },
    element::Element,
    pass::{Packed, StepScratch, Streams},
    spec::{Direction, GruSpec, Lengths, Order, Sizes},
};
use std::{fmt, sync::Arc};

/// The weights of a layer, packed once for the instruction set of this machine. ([`Gru::forward`] packs its weights
/// in each call, or reads them in place if the call is short.)
///
/// They are a copy, and do not change with the original slices.
///
/// ```
/// use gru_cpu::{PackedWeights, Sequence, Weights, spec::GruSpec};
///
/// let (i, h) = (3, 4);
/// let (w_ih, w_hh) = (vec![0.1f32; i * 3 * h], vec![0.2; h * 3 * h]);
/// let weights = PackedWeights::new(&GruSpec::default(), i, h, Weights::new(Some(&w_ih), &w_hh));
///
/// let (n, t) = (2, 5);
/// let (x, mut states) = (vec![1.0; n * t * i], vec![0.0; n * t * h]);
/// weights.forward(n, t, Sequence::new(&x), &mut states);
/// ```
pub struct PackedWeights<E: Element>(Packed<E>);

impl<E: Element> PackedWeights<E> {
    /// Packs the weights of a layer with I inputs and H units. Without an input weight `i` is ignored.
    ///
    /// # Panics
    /// If [`try_new`](Self::try_new) returns an error.
    pub fn new(spec: &GruSpec, i: usize, h: usize, weights: Weights<'_, E>) -> Self {
        match Self::try_new(spec, i, h, weights) {
            Ok(packed) => packed,
            Err(error) => panic!("gru_cpu::PackedWeights::new: {error}"),
        }
    }

    /// [`new`](Self::new) for weights that were read from a file.
    ///
    /// # Errors
    /// If a weight or bias has the wrong number of elements, the sizes exceed the address space, or
    /// [`GruSpec::try_check`] returns an error.
    pub fn try_new(
        spec: &GruSpec,
        i: usize,
        h: usize,
        weights: Weights<'_, E>,
    ) -> Result<Self, CallError> {
        let checked = spec.try_check();
        checked.map_err(|reason| CallError::Spec { reason })?;
        let i = weights.w_ih.map_or(0, |_| i);
        let sizes = Sizes { n: 1, t: 1, i, h };
        check_sizes(&sizes)?;
        check_weights(&weights, &sizes)?;
        Ok(Self(E::pack(spec, i, h, weights)))
    }

    /// The number of elements of x per row and step: I, or 3H without an input weight.
    pub fn features(&self) -> usize {
        self.0.features
    }

    /// H, the number of hidden units.
    pub fn units(&self) -> usize {
        self.0.h
    }

    /// Bytes of the packed weights and biases, with their padding.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// What a step computes.
    pub fn spec(&self) -> &GruSpec {
        &self.0.spec
    }

    /// Writes the state after every step of N rows and T steps to `states` `[N,T,H]`, forward in time. A short call of
    /// [`Gru::forward`] adds in another order, so its last bits may differ.
    ///
    /// # Panics
    /// If the sizes exceed the address space, or a slice has the wrong number of elements.
    pub fn forward(&self, n: usize, t: usize, sequence: Sequence<'_, E>, states: &mut [E]) {
        self.forward_in(Order::default(), n, t, &Lengths::All, sequence, states);
    }

    /// [`forward`](Self::forward) in any order, and for rows of different lengths: see [`Gru::forward_ragged`].
    ///
    /// # Panics
    /// As [`Gru::forward_ragged`].
    pub fn forward_in(
        &self,
        order: Order,
        n: usize,
        t: usize,
        lengths: &Lengths,
        sequence: Sequence<'_, E>,
        states: &mut [E],
    ) {
        const OP: &str = "gru_cpu::PackedWeights::forward";
        let sizes = self.0.sizes(n, t);
        or_panic(OP, check_sizes(&sizes));
        let checked = check_sequence(&sequence, &sizes, lengths, self.0.features);
        or_panic(OP, checked);
        let places = lengths.in_memory(sizes).rows();
        check_len(OP, "states", states, places * sizes.h);
        if !states.is_empty() {
            let spec = self.0.spec;
            let gru = Gru { sizes, order, spec };
            let inputs = self.0.inputs(sequence);
            E::forward_packed(&self.0, &gru, lengths, &inputs, states);
        }
    }
}

impl PackedWeights<f32> {
    /// The memory of [`step`](Self::step).
    pub(crate) fn step_scratch(&self, n: usize) -> StepScratch<f32> {
        StepScratch::new(&self.0, n)
    }

    /// Writes the states of both directions of one row, `[T,2·H]`, if that is faster in one call. The sequences have
    /// the same x, and all lengths were checked.
    pub(crate) fn forward_both(
        layers: [&Self; 2],
        directions: [Direction; 2],
        [n, t]: [usize; 2],
        sequences: [Sequence<'_, f32>; 2],
        states: &mut [f32],
    ) -> bool {
        let sizes = layers[0].0.sizes(n, t);
        let chain = |at: usize| layers[at].0.chain(&sizes, directions[at], &sequences[at]);
        let (Some(first), Some(second)) = (chain(0), chain(1)) else {
            return false;
        };
        let chains = [first, second];
        layers[0].0.run_chains(t, sequences[0].x, &chains, states);
        true
    }

    /// One step of `n` rows on this thread, without any allocation: from `x` and the states `h` to the new
    /// states. The lengths were checked.
    pub(crate) fn step(
        &self,
        n: usize,
        [x, h]: [&[f32]; 2],
        zoneout: Option<&[f32]>,
        new: &mut [f32],
        scratch: &mut StepScratch<f32>,
    ) {
        let sequence = Sequence {
            h0: Some(h),
            zoneout,
            ..Sequence::new(x)
        };
        self.0.advance(n, sequence, new, scratch);
    }
}

impl<E: Element> fmt::Debug for PackedWeights<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packed {
            spec, features, h, ..
        } = &self.0;
        f.debug_struct("PackedWeights")
            .field("spec", spec)
            .field("features", features)
            .field("h", h)
            .finish_non_exhaustive()
    }
}

/// The states of some rows, advanced one step at a time: for sound, text or control signals in real time.
///
/// A [step](Self::step) does not allocate or lock, and runs on the caller's thread. Rows are independent. Streams
/// may share their weights.
///
/// ```
/// use gru_cpu::{PackedWeights, Stream, Weights, spec::GruSpec};
/// use std::sync::Arc;
///
/// let (i, h) = (1, 8);
/// let (w_ih, w_hh) = (vec![0.1f32; i * 3 * h], vec![0.2; h * 3 * h]);
/// let weights = PackedWeights::new(&GruSpec::default(), i, h, Weights::new(Some(&w_ih), &w_hh));
///
/// let mut stream = Stream::new(Arc::new(weights), 1);
/// for sample in [0.5, -0.25, 0.125] {
///     let state = stream.step(&[sample]);
///     assert_eq!(state.len(), h);
/// }
/// ```
pub struct Stream<E: Element> {
    weights: Arc<PackedWeights<E>>,
    n: usize,
    streams: Streams<E>,
}

impl<E: Element> Stream<E> {
    /// A stream of N rows whose states are zero.
    ///
    /// # Panics
    /// If the sizes exceed the address space.
    pub fn new(weights: Arc<PackedWeights<E>>, n: usize) -> Self {
        or_panic("gru_cpu::Stream::new", check_sizes(&weights.0.sizes(n, 1)));
        Self {
            streams: E::streams(&weights.0, n),
            weights,
            n,
        }
    }

    /// Runs one step with `x [N,I]` (`[N,3H]` if the input is already projected), and returns the new states
    /// `[N,H]`.
    ///
    /// # Panics
    /// If `x` has the wrong number of elements.
    pub fn step(&mut self, x: &[E]) -> &[E] {
        let expected = self.n * self.weights.0.features;
        check_len("gru_cpu::Stream::step", "x", x, expected);
        E::step(&self.weights.0, &mut self.streams, x);
        self.state()
    }

    /// N, the number of rows.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// The states `[N,H]`.
    pub fn state(&self) -> &[E] {
        self.streams.state()
    }

    /// The states `[N,H]`, which the caller may set: to zero for a new sequence, or to a saved state.
    pub fn state_mut(&mut self) -> &mut [E] {
        self.streams.state_mut()
    }

    /// Sets the state of a row to zero, for a new sequence.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn restart(&mut self, row: usize) {
        assert!(
            row < self.n,
            "gru_cpu::Stream::restart: row, expected less than {}, got {row}",
            self.n
        );
        let h = self.weights.units();
        self.state_mut()[row * h..][..h].fill(E::zero());
    }

    /// The weights.
    pub fn weights(&self) -> &Arc<PackedWeights<E>> {
        &self.weights
    }
}

impl<E: Element> fmt::Debug for Stream<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("weights", &self.weights)
            .field("n", &self.n)
            .finish_non_exhaustive()
    }
}
