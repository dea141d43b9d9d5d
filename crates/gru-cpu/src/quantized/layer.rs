//! Steps and sequences of a layer with weights of 16 or 8 bits.

use super::{
    gates::{Cell, GateRow, Stage},
    matrix::{Columns, Energy, Matrix},
};
use crate::{
    call::{self, Call, Gru, Ragged, Sorted},
    pass::bias,
    product::{Buffer, Rows},
    simd::{Gates, Machine},
    spec::{GruSpec, Lengths, Precision, Reset, Sizes},
    threads,
    tuning::{PARALLEL_FROM, ROWS_PER_GROUP, ROWS_PER_ROUND},
};
use std::ops::Range;

/// The most rows of the batch that a thread advances together: they share the panels in its first-level cache.
const ROWS_AT_A_TIME: usize = 32;

/// The weights of a layer.
pub(crate) struct Layer {
    machine: Machine,
    spec: GruSpec,
    gates: Gates<f32>,
    /// I.
    features: usize,
    h: usize,
    input: Matrix,
    /// Reset after the product: all gates. Before it: r and z.
    state: Matrix,
    /// Reset before the product: n.
    candidate: Option<Matrix>,
    /// See [`Cell::bias`].
    bias: Buffer<f32>,
    /// The share of the previous state that is kept.
    zoneout: f32,
}

impl Layer {
    /// The weights have the right sizes, and the input weight is given.
    pub(crate) fn new(
        precision: Precision,
        spec: &GruSpec,
        [i, h]: [usize; 2],
        weights: &call::Weights<'_, f32>,
        zoneout: f32,
    ) -> Self {
        let machine = Machine::here::<f32>();
        let spec = spec.for_numbers_up_to(f32::MAX.into());
        let matrix = |elements, k, gates: Range<usize>| {
            let columns = Columns {
                elements,
                stride: 3 * h,
                first: gates.start * h,
                count: gates.len() * h,
                k,
            };
            Matrix::new(machine, precision, columns)
        };
        let after = spec.reset == Reset::AfterMatmul;
        Self {
            gates: Gates::new(&machine, &spec),
            features: i,
            h,
            input: matrix(weights.w_ih.expect("it is given"), i, 0..3),
            state: matrix(weights.w_hh, h, if after { 0..3 } else { 0..2 }),
            candidate: (!after).then(|| matrix(weights.w_hh, h, 2..3)),
            bias: bias(h, after, weights, h.max(1)),
            zoneout,
            machine,
            spec,
        }
    }

    /// Bytes of weights and biases.
    pub(crate) fn bytes(&self) -> usize {
        let matrices = [&self.input, &self.state]
            .into_iter()
            .chain(&self.candidate);
        matrices.map(Matrix::bytes).sum::<usize>() + size_of_val(self.bias.as_ref())
    }

    /// The rounding of `w_ih` and of `w_hh`.
    pub(crate) fn energies(&self) -> [Energy; 2] {
        let mut state = self.state.energy;
        if let Some(candidate) = &self.candidate {
            state.weights += candidate.energy.weights;
            state.errors += candidate.energy.errors;
        }
        [self.input.energy, state]
    }

    /// One step of some rows on this thread, without any allocation: from `x` and `h` to a new `h`.
    pub(crate) fn step(&self, x: &[f32], h: &mut [f32], scratch: &mut Scratch) {
        if h.is_empty() {
            return;
        }
        let (rows, features) = (h.len() / self.h, self.features);
        self.project(rows, |row| &x[row * features..][..features], scratch);
        self.advance(0, h, |_| false, scratch);
    }

    /// Writes the state after every step. What is past the end of a row is neither read nor written. The call was
    /// checked.
    pub(crate) fn forward(
        &self,
        gru: &Gru,
        lengths: &Lengths,
        inputs: &call::Inputs<'_, f32>,
        states: Rows<'_, f32>,
    ) {
        let Sizes { n, t, h, .. } = gru.sizes;
        if n * t * h == 0 {
            return;
        }
        let call = Call::new(gru, inputs);
        let Some(of_rows) = lengths.of_rows() else {
            return self.run(&call, t, |rows, _| rows.len(), states);
        };
        let longest = of_rows.iter().max().copied().unwrap_or(0);
        let ragged = &Ragged::new(&gru.sizes, gru.order, lengths, 1);
        let sorted = Sorted::new(ragged, inputs, h);
        let inputs = &sorted.inputs(inputs);
        let live = |rows: &Range<usize>, s: usize| {
            let live = ragged.groups()[0].live(s);
            live.clamp(rows.start, rows.end) - rows.start
        };
        self.run(&call.with_rows(ragged, inputs), longest, live, states);
    }

    /// Runs `t` steps of all rows with all threads that the call may use. `live` returns how many of some rows have a
    /// step `s`: the first ones.
    fn run(
        &self,
        call: &Call<'_, f32>,
        t: usize,
        live: impl Fn(&Range<usize>, usize) -> usize + Sync,
        states: Rows<'_, f32>,
    ) {
        let Sizes { n, i, h, .. } = *call.sizes;
        let work = (n * t).saturating_mul(3 * h * (i + h));
        let most = n / ROWS_PER_GROUP;
        let threads = if most < 2 || work < PARALLEL_FROM {
            1
        } else {
            threads::available().min(most)
        };
        let per_group = n.div_ceil(threads).min(ROWS_AT_A_TIME);
        threads::for_each(threads, (0..n).step_by(per_group), |first| {
            let rows = first..n.min(first + per_group);
            self.rows_of(call, rows.clone(), t, |s| live(&rows, s), states);
        });
    }

    /// `t` steps of some rows. The first `live(s)` rows have a step `s`. Only this thread writes them.
    fn rows_of(
        &self,
        call: &Call<'_, f32>,
        rows: Range<usize>,
        t: usize,
        live: impl Fn(usize) -> usize,
        states: Rows<'_, f32>,
    ) {
        let (h, sequence) = (self.h, &call.inputs.sequence);
        let at_once = (ROWS_PER_ROUND / rows.len()).clamp(1, t.max(1));
        let mut scratch = Scratch::new(self, rows.len(), at_once);
        let given = |from: Option<&[f32]>, row: usize, to: &mut [f32]| match from {
            Some(from) => to.copy_from_slice(&from[(rows.start + row) * h..][..h]),
            None => to.fill(0.0),
        };
        let mut state = vec![0.0; rows.len() * h];
        for (row, state) in state.chunks_exact_mut(h).enumerate() {
            given(sequence.h0, row, state);
        }
        // The rows of memory of some steps, step by step.
        let mut places = Vec::with_capacity(at_once * rows.len());
        for first in (0..t).step_by(at_once) {
            let steps = first..t.min(first + at_once);
            places.clear();
            for s in steps.clone() {
                places.extend((0..live(s)).map(|row| call.row(rows.start + row, s)));
            }
            if places.is_empty() {
                break;
            }
            self.project(places.len(), |at| call.x(places[at]), &mut scratch);
            let mut first = 0;
            for s in steps {
                let state = &mut state[..live(s) * h];
                let places = &places[first..][..live(s)];
                for (row, state) in state.chunks_exact_mut(h).enumerate() {
                    if call.starts(rows.start + row, s) {
                        given(sequence.start_state, row, state);
                    }
                }
                let is_skipped = |row: usize| call.is_skipped(places[row]);
                self.advance(first, state, is_skipped, &mut scratch);
                for (&at, state) in places.iter().zip(state.chunks_exact(h)) {
                    // SAFETY: only this thread uses these rows.
                    unsafe { states.cells_mut(at, 0..h) }.copy_from_slice(state);
                }
                first += places.len();
            }
        }
    }

    /// The input products of some rows, to `scratch.p`.
    fn project<'x>(&self, rows: usize, x: impl Fn(usize) -> &'x [f32], scratch: &mut Scratch) {
        let input = &self.input;
        let p = &mut scratch.p.as_mut()[..rows * input.columns()];
        let words = input.row_words();
        let encoded = &mut scratch.x.words_mut()[..rows * words];
        for row in 0..rows {
            input.encode(x(row), &mut encoded[row * words..][..words]);
        }
        input.product(encoded, p);
    }

    /// One step of some rows, from H states each to new ones. Their input products are in `scratch.p`, from
    /// row `first` on.
    fn advance(
        &self,
        first: usize,
        h: &mut [f32],
        is_skipped: impl Fn(usize) -> bool,
        scratch: &mut Scratch,
    ) {
        let (arch, units) = (self.machine.arch, self.h);
        let cell = Cell {
            spec: &self.spec,
            gates: &self.gates,
            bias: self.bias.as_ref(),
            h: units,
            zoneout: self.zoneout,
        };
        let (width, words) = (self.input.columns(), self.state.row_words());
        let rows = h.len() / units;
        let p = &mut scratch.p.as_mut()[first * width..][..rows * width];
        let encoded = &mut scratch.encoded.words_mut()[..rows * words];
        for (row, h) in h.chunks_exact(units).enumerate() {
            self.state.encode(h, &mut encoded[row * words..][..words]);
        }
        let (q, rh) = (scratch.q.as_mut(), scratch.rh.as_mut());
        let (mut stage, mut q_width) = (Stage::After, self.state.columns());
        self.state.product(encoded, &mut q[..rows * q_width]);
        if let Some(candidate) = &self.candidate {
            for (row, h) in h.chunks_exact_mut(units).enumerate() {
                arch.dispatch(GateRow {
                    cell,
                    stage: Stage::Before,
                    p: &mut p[row * width..][..width],
                    q: &q[row * q_width..][..q_width],
                    h,
                    rh,
                });
                candidate.encode(rh, &mut encoded[row * words..][..words]);
            }
            (stage, q_width) = (Stage::Candidate, candidate.columns());
            candidate.product(encoded, &mut q[..rows * q_width]);
        }
        for (row, h) in h.chunks_exact_mut(units).enumerate() {
            if !is_skipped(row) {
                arch.dispatch(GateRow {
                    cell,
                    stage,
                    p: &mut p[row * width..][..width],
                    q: &q[row * q_width..][..q_width],
                    h,
                    rh,
                });
            }
        }
    }
}

/// The memory of some rows.
pub(crate) struct Scratch {
    /// Encoded inputs, and their products, of some steps.
    x: Buffer<f32>,
    p: Buffer<f32>,
    /// Encoded states, or `r ⊙ h`, and their products, of one step.
    encoded: Buffer<f32>,
    q: Buffer<f32>,
    /// Reset before the product: `r ⊙ h` of a row.
    rh: Buffer<f32>,
}

impl Scratch {
    /// For `steps` input products and one step of `rows` rows.
    pub(crate) fn new(layer: &Layer, rows: usize, steps: usize) -> Self {
        let candidate = layer.candidate.as_ref().map_or(0, Matrix::columns);
        Self {
            x: Buffer::new(steps * rows * layer.input.row_words()),
            p: Buffer::new(steps * rows * layer.input.columns()),
            encoded: Buffer::new(rows * layer.state.row_words()),
            q: Buffer::new(rows * layer.state.columns().max(candidate)),
            rh: Buffer::new(if candidate == 0 { 0 } else { layer.h }),
        }
    }
}
