//! Sequences through all layers of a stack.

use super::{Layer, Layers, Stack, StackInputs, StackSizes};
use crate::{
    buffer,
    call::{CallError, Sequence, check_len, check_sizes, or_panic},
    pass::PreparedLayer,
    product::Rows,
    spec::{Layout, Lengths, Order, Sizes},
};
use core::borrow::Borrow;

const OP: &str = "gru_cpu::Stack::forward";

impl Stack {
    /// Writes the output of the last layer after every step to `y`, `[N,T,D·H]` or `[T,N,D·H]` (forward, then
    /// reverse), and the final state of every layer and direction to `last`, `[L·D,N,H]`.
    ///
    /// At a skipped step the output is the state, which is kept. Values of `x` at skipped steps are ignored.
    ///
    /// With lengths, T is at least the largest length, and the time is nearly proportional to their sum. Past the end
    /// of a row nothing is written to `y`. So pass zeros for an output that is zero there. If the rows
    /// are [packed](Lengths::Packed), `x` is `[M,I]`, `y` is `[M,D·H]`, and so on, with M = Σ lengths.
    ///
    /// A call allocates memory for its layers, and uses the threads of the rayon pool in which it is made.
    ///
    /// # Panics
    /// - If the sizes exceed the address space, or a slice has the wrong number of elements.
    /// - If there is not one length for each row, or a length is larger than T.
    /// - If there is a start state without starts.
    pub fn forward(
        &self,
        layout: Layout,
        batch: [usize; 2],
        inputs: StackInputs<'_>,
        y: &mut [f32],
        last: &mut [f32],
    ) {
        let layer = |k: usize| &self.layers[k];
        self.sizes.forward((layout, batch), inputs, y, last, layer);
    }
}

impl Layers<'_> {
    /// As [`Stack::forward`].
    ///
    /// # Panics
    /// As [`Stack::forward`].
    pub fn forward(
        &self,
        layout: Layout,
        batch: [usize; 2],
        inputs: StackInputs<'_>,
        y: &mut [f32],
        last: &mut [f32],
    ) {
        let layer = |k: usize| {
            let (of, sizes) = (&self.layers[k], self.sizes.of_layer(k, batch));
            Layer::new(of, PreparedLayer::once(sizes, &of.spec, of.weights))
        };
        self.sizes.forward((layout, batch), inputs, y, last, layer);
    }
}

impl StackSizes {
    /// See [`Stack::forward`]. `layer` returns a layer and direction, which is dropped before the next layer is made.
    fn forward<'a, 'w, L: Borrow<Layer<'w>>>(
        &self,
        (layout, [n, t]): (Layout, [usize; 2]),
        inputs: StackInputs<'a>,
        y: &mut [f32],
        last: &mut [f32],
        layer: impl Fn(usize) -> L,
    ) {
        self.check_call([n, t], &inputs, y, last);
        let (h, d, units) = (self.h, self.directions, n * self.h);
        let all = self.count / d;
        // Layers write to two buffers alternately, the last one to `y`.
        let mut other = buffer(if all > 1 { y.len() } else { 0 });
        let (mut x, mut y) = (&mut other[..], y);
        if all.is_multiple_of(2) {
            (x, y) = (y, x);
        }
        for l in 0..all {
            let x_of_layer = if l == 0 { inputs.x } else { &*x };
            let sequence = |at: usize| {
                let first = (l * d + at) * units;
                let of_layer = |states: Option<&'a [f32]>| Some(&states?[first..][..units]);
                Sequence {
                    h0: of_layer(inputs.state),
                    step_mask: inputs.step_mask,
                    starts: inputs.starts,
                    start_state: of_layer(inputs.start_state),
                    ..Sequence::new(x_of_layer)
                }
            };
            let directions = [0, 1].map(|at| (at < d).then(|| layer(l * d + at)));
            let directions = || directions.iter().flatten().map(Borrow::borrow).enumerate();
            let batch = |layer: &Layer<'_>| Batch {
                n,
                t,
                order: Order {
                    layout,
                    direction: layer.direction,
                },
                lengths: inputs.lengths,
            };
            let chains =
                directions().map(|(at, layer)| (&layer.prepared, layer.direction, sequence(at)));
            let is_done = inputs.lengths.of_rows().is_none()
                && directions().all(|(_, layer)| layer.zoneout == 0.0)
                && PreparedLayer::forward_chains(chains, [n, t], y);
            for (at, layer) in directions() {
                let (batch, sequence) = (batch(layer), sequence(at));
                if !is_done {
                    let states = Rows::new(y, d * h).columns(at * h..(at + 1) * h);
                    layer.forward(h, &batch, sequence, states);
                }
                let last = &mut last[(l * d + at) * units..][..units];
                batch.last_states((h, d * h, at * h), sequence.h0, y, last);
            }
            (x, y) = (y, x);
        }
    }

    fn check_call(&self, [n, t]: [usize; 2], inputs: &StackInputs<'_>, y: &[f32], last: &[f32]) {
        let sizes = Sizes {
            n,
            t,
            i: self.i,
            h: self.directions * self.h,
        };
        or_panic(OP, check_sizes(&sizes));
        let checked = inputs.lengths.try_check(&sizes);
        or_panic(OP, checked.map_err(CallError::Lengths));
        let places = inputs.lengths.in_memory(sizes).places();
        let states = self.count * n * self.h;
        check_len(OP, "x", inputs.x, places * self.i);
        check_len(OP, "y", y, places * sizes.h);
        check_len(OP, "last", last, states);
        for (name, given, len) in [
            ("state", inputs.state, states),
            ("start_state", inputs.start_state, states),
            ("step_mask", inputs.step_mask, places),
            ("starts", inputs.starts, places),
        ] {
            if let Some(given) = given {
                check_len(OP, name, given, len);
            }
        }
        assert!(
            inputs.starts.is_some() || inputs.start_state.is_none(),
            "{OP}: start_state requires starts, expected flags, got none"
        );
    }
}

impl Layer<'_> {
    /// The `h` states after every step. The slices were checked.
    fn forward(
        &self,
        h: usize,
        &Batch {
            n,
            t,
            order,
            lengths,
        }: &Batch<'_>,
        sequence: Sequence<'_, f32>,
        states: Rows<'_, f32>,
    ) {
        let i = self.prepared.features();
        let places = lengths.in_memory(Sizes { n, t, i, h }).places();
        let zoneout = (self.zoneout > 0.0).then(|| vec![self.zoneout; places * h]);
        let sequence = Sequence {
            zoneout: zoneout.as_deref(),
            ..sequence
        };
        self.prepared
            .forward(order, [n, t], lengths, sequence, states);
    }
}

/// The rows of a call, in the order of a layer and direction.
struct Batch<'a> {
    n: usize,
    t: usize,
    order: Order,
    lengths: &'a Lengths,
}

impl Batch<'_> {
    /// The state of every row after its last step: the initial state if it has no step. The `h` states of a row start
    /// at a column of `y`, which has `width` columns.
    fn last_states(
        &self,
        (h, width, column): (usize, usize, usize),
        h0: Option<&[f32]>,
        y: &[f32],
        last: &mut [f32],
    ) {
        let (n, t) = (self.n, self.t);
        let sizes = Sizes { n, t, i: 0, h };
        let places = self.lengths.last_places(sizes, self.order);
        for (row, (last, place)) in last.chunks_exact_mut(h.max(1)).zip(places).enumerate() {
            match (place, h0) {
                (Some(place), _) => last.copy_from_slice(&y[place * width + column..][..h]),
                (None, Some(h0)) => last.copy_from_slice(&h0[row * h..][..h]),
                (None, None) => last.fill(0.0),
            }
        }
    }
}
