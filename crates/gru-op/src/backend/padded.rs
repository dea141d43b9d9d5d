//! Rows of different lengths on backends without kernels for them: padding is masked, and packed rows are padded. This
//! saves no work.

use crate::backend::{GruCall, GruGradients, GruSaved, composed::prim::Prim};
use burn::{
    backend::{Backend, TensorMetadata, tensor::FloatTensor},
    tensor::TensorData,
};
use gru_spec::{Direction, Inputs, Layout, Lengths, Order, PerInput, Sequence, Sizes};

/// [`GruBackend::gru_states`](crate::backend::GruBackend::gru_states), by a function for rows of T steps.
pub(crate) fn states<B: Backend>(
    call: GruCall<B>,
    run: impl FnOnce(GruCall<B>) -> FloatTensor<B>,
) -> FloatTensor<B> {
    match Padded::of(&call) {
        None => run(call),
        Some(padded) => {
            let states = run(padded.call(call));
            padded.pack(padded.zeroed(Prim(states))).0
        }
    }
}

/// [`GruBackend::gru_states_and_gates`](crate::backend::GruBackend::gru_states_and_gates), likewise.
pub(crate) fn states_and_gates<B: Backend>(
    call: GruCall<B>,
    run: impl FnOnce(GruCall<B>) -> GruSaved<B>,
) -> GruSaved<B> {
    match Padded::of(&call) {
        None => run(call),
        Some(padded) => {
            let saved = run(padded.call(call));
            GruSaved {
                states: padded.pack(padded.zeroed(Prim(saved.states))).0,
                gates: saved.gates.map(|gates| padded.pack(Prim(gates)).0),
            }
        }
    }
}

/// [`GruBackend::gru_gradients`](crate::backend::GruBackend::gru_gradients), likewise.
pub(crate) fn gradients<B: Backend>(
    call: GruCall<B>,
    saved: GruSaved<B>,
    d_states: FloatTensor<B>,
    wanted: PerInput<bool>,
    run: impl FnOnce(GruCall<B>, GruSaved<B>, FloatTensor<B>, PerInput<bool>) -> GruGradients<B>,
) -> GruGradients<B> {
    let Some(padded) = Padded::of(&call) else {
        return run(call, saved, d_states, wanted);
    };
    let call = padded.call(call);
    let saved = GruSaved {
        states: padded.states(&call, Prim(saved.states)).0,
        gates: saved.gates.map(|gates| padded.unpack(Prim(gates)).0),
    };
    let d_states = padded.zeroed(padded.unpack(Prim(d_states))).0;
    let GruGradients(gradients) = run(call, saved, d_states, wanted);
    GruGradients(PerInput {
        // A weight that is NaN would make the gradient of the padding NaN.
        x: gradients
            .x
            .map(|d_x| padded.pack(padded.zeroed(Prim(d_x))).0),
        ..gradients
    })
}

/// The padded form of a call.
struct Padded<B: Backend> {
    lengths: Lengths,
    sizes: Sizes,
    layout: Layout,
    /// The first two dimensions of sequences in memory.
    in_memory: [usize; 2],
    /// 0 past the end of a row, else 1: `[N,T,1]` or `[T,N,1]`.
    step_mask: Prim<B>,
}

impl<B: Backend> Padded<B> {
    /// `None` for rows of T steps.
    fn of(call: &GruCall<B>) -> Option<Self> {
        let lengths = call.lengths.of_rows()?;
        let sizes = call.sizes();
        let layout = match call.lengths {
            Lengths::Packed(_) => Layout::BatchMajor,
            _ => call.order.layout,
        };
        let [first, second] = layout.split([sizes.n, sizes.t]);
        let places = (0..first).flat_map(|a| (0..second).map(move |b| layout.split([a, b])));
        let mask: Vec<f32> = places
            .map(|[n, t]| f32::from(u8::from(t < lengths[n])))
            .collect();
        let x = &call.inputs.sequence.x;
        let [a, b, _] = x.shape().dims();
        let mask = B::float_from_data(TensorData::new(mask, [first, second, 1]), &x.device());
        Some(Self {
            lengths: call.lengths.clone(),
            sizes,
            layout,
            in_memory: [a, b],
            step_mask: Prim(B::float_cast(mask, x.dtype().into())),
        })
    }

    /// The same call over rows of T steps.
    fn call(&self, call: GruCall<B>) -> GruCall<B> {
        let Inputs { sequence, weights } = call.inputs;
        let [first, second] = self.layout.split([self.sizes.n, self.sizes.t]);
        let flags = |flags: FloatTensor<B>| {
            let [a, b] = self.in_memory;
            let flags = self.unpack(Prim(flags).reshape([a, b, 1]));
            self.zeroed(flags).reshape([first, second]).0
        };
        let step_mask = match sequence.step_mask {
            Some(step_mask) => flags(step_mask),
            None => self.step_mask.clone().reshape([first, second]).0,
        };
        let zoneout = sequence.zoneout.map(|zoneout| self.unpack(Prim(zoneout)).0);
        GruCall {
            inputs: Inputs {
                sequence: Sequence {
                    // The padding may be NaN.
                    x: self.zeroed(self.unpack(Prim(sequence.x))).0,
                    step_mask: Some(step_mask),
                    zoneout,
                    starts: sequence.starts.map(flags),
                    ..sequence
                },
                weights,
            },
            order: Order {
                layout: self.layout,
                ..call.order
            },
            lengths: Lengths::All,
            ..call
        }
    }

    /// The states that a call over rows of T steps returns, from states that are zero past the end of a row.
    fn states(&self, call: &GruCall<B>, states: Prim<B>) -> Prim<B> {
        let states = self.unpack(states);
        match (&call.inputs.sequence.h0, call.order.direction) {
            // The reverse direction starts with the padding, which keeps the initial state.
            (Some(h0), Direction::Reverse) if self.sizes.rows() > 0 => {
                let Sizes { n, h, .. } = self.sizes;
                let [first, second] = self.layout.split([n, 1]);
                let h0 = Prim::<B>(h0.clone()).reshape([first, second, h]);
                let shape: [usize; 3] = states.dims();
                let h0 = Prim::zeros(shape, &states) + h0;
                states.replaced(self.step_mask.is_zero().expand(shape), h0)
            }
            _ => states,
        }
    }

    /// A padded sequence with zeros past the end of each row.
    fn zeroed(&self, sequence: Prim<B>) -> Prim<B> {
        let shape: [usize; 3] = sequence.dims();
        if shape.contains(&0) {
            return sequence;
        }
        sequence.zeroed(self.step_mask.is_zero().expand(shape))
    }

    /// A padded sequence from a sequence in memory.
    fn unpack(&self, sequence: Prim<B>) -> Prim<B> {
        let Lengths::Packed(lengths) = &self.lengths else {
            return sequence;
        };
        let (Sizes { n, t, .. }, [a, b, features]) = (self.sizes, sequence.dims());
        if a * b * features == 0 {
            return Prim::zeros([n, t, features], &sequence);
        }
        let (packed, mut next, mut parts) = (sequence.reshape([a * b, features]), 0, Vec::new());
        for &len in lengths.iter() {
            if len > 0 {
                parts.push(packed.narrow(0, next..next + len));
            }
            if len < t {
                parts.push(Prim::zeros([t - len, features], &packed));
            }
            next += len;
        }
        Prim::cat(parts, 0).reshape([n, t, features])
    }

    /// The inverse of [`unpack`](Self::unpack).
    fn pack(&self, sequence: Prim<B>) -> Prim<B> {
        let Lengths::Packed(lengths) = &self.lengths else {
            return sequence;
        };
        let (Sizes { n, t, .. }, [a, b]) = (self.sizes, self.in_memory);
        let [_, _, features] = sequence.dims();
        if a * b * features == 0 {
            return Prim::zeros([a, b, features], &sequence);
        }
        let padded = sequence.reshape([n * t, features]);
        let of_rows = lengths.iter().enumerate().filter(|&(_, &len)| len > 0);
        let parts = of_rows.map(|(n, &len)| padded.narrow(0, n * t..n * t + len));
        Prim::cat(parts.collect(), 0).reshape([a, b, features])
    }
}
