//! Rows of different lengths on backends without kernels for them: padding is masked, and packed rows are padded. The
//! recurrence computes the padding too. The products over all steps can leave it out by [`Valid`].

use crate::backend::{GruCall, GruGradients, GruSaved, composed::prim::Prim};
use burn::{
    backend::{
        Backend, TensorMetadata, get_or_init_device_settings,
        tensor::{Device, FloatTensor, IntTensor},
    },
    tensor::TensorData,
};
use gru_spec::{Direction, Inputs, Layout, Lengths, Order, PerInput, Sequence, Sizes};
use std::ops::Range;

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

/// The steps that are not padding.
pub(crate) struct Valid<B: Backend> {
    /// The number of each among all steps of a padded sequence in memory, `[M]`.
    steps: IntTensor<B>,
    /// For each step of a padded sequence its number among these, or 0 for padding.
    ranks: IntTensor<B>,
}

impl<B: Backend> Valid<B> {
    /// Among the steps `times` of rows with these lengths. `None` if all are padding.
    pub(crate) fn new(
        lengths: &[usize],
        times: Range<usize>,
        layout: Layout,
        device: &Device<B>,
    ) -> Option<Self> {
        let [first, second] = layout.split([lengths.len(), times.len()]);
        let (mut steps, mut ranks) = (Vec::new(), Vec::with_capacity(first * second));
        for step in 0..first * second {
            let [n, t] = layout.split([step / second, step % second]);
            if times.start + t < lengths[n] {
                ranks.push(steps.len() as i64);
                steps.push(step as i64);
            } else {
                ranks.push(0);
            }
        }
        let numbers = |numbers: Vec<i64>| {
            let shape = [numbers.len()];
            let dtype = get_or_init_device_settings::<B>(device).int_dtype;
            let data = TensorData::new(numbers, shape).convert_dtype(dtype.into());
            B::int_from_data(data, device)
        };
        (!steps.is_empty()).then(|| Self {
            steps: numbers(steps),
            ranks: numbers(ranks),
        })
    }

    /// The rows of these steps: `[M,C]` of a padded sequence as a matrix.
    pub(crate) fn pick(&self, all: Prim<B>) -> Prim<B> {
        Prim(B::float_select(all.0, 0, self.steps.clone()))
    }

    /// The inverse. The rows of the padding repeat another row.
    pub(crate) fn spread(&self, valid: Prim<B>) -> Prim<B> {
        Prim(B::float_select(valid.0, 0, self.ranks.clone()))
    }

    /// `all · weight`. The rows of the padding are undefined.
    pub(crate) fn product(valid: &Option<Self>, all: Prim<B>, weight: Prim<B>) -> Prim<B> {
        match valid {
            Some(valid) => valid.spread(valid.pick(all).matmul(weight)),
            None => all.matmul(weight),
        }
    }
}

/// The padded form of a call.
struct Padded<B: Backend> {
    /// The lengths of the rows.
    lengths: Lengths,
    /// If the rows are packed.
    valid: Option<Valid<B>>,
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
        let device = x.device();
        let mask = B::float_from_data(TensorData::new(mask, [first, second, 1]), &device);
        let valid = match call.lengths {
            Lengths::Packed(_) => Valid::new(lengths, 0..sizes.t, layout, &device),
            _ => None,
        };
        Some(Self {
            lengths: Lengths::Padded(lengths.into()),
            valid,
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
            lengths: self.lengths.clone(),
            ..call
        }
    }

    /// The states that a call over rows of T steps returns, from states that are zero past the end of a row.
    fn states(&self, call: &GruCall<B>, states: Prim<B>) -> Prim<B> {
        let states = self.zeroed(self.unpack(states));
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

    /// A padded sequence from a sequence in memory. The padding of packed rows is undefined.
    fn unpack(&self, sequence: Prim<B>) -> Prim<B> {
        let (Sizes { n, t, .. }, [a, b, features]) = (self.sizes, sequence.dims());
        match &self.valid {
            _ if [a, b] == self.layout.split([n, t]) => sequence,
            Some(valid) if features > 0 => {
                let rows = valid.spread(sequence.reshape([a * b, features]));
                rows.reshape([n, t, features])
            }
            _ => Prim::zeros([n, t, features], &sequence),
        }
    }

    /// The inverse of [`unpack`](Self::unpack).
    fn pack(&self, sequence: Prim<B>) -> Prim<B> {
        let (Sizes { n, t, .. }, [a, b]) = (self.sizes, self.in_memory);
        let [first, second, features] = sequence.dims();
        match &self.valid {
            _ if [a, b] == [first, second] => sequence,
            Some(valid) if features > 0 => {
                let rows = valid.pick(sequence.reshape([n * t, features]));
                rows.reshape([a, b, features])
            }
            _ => Prim::zeros([a, b, features], &sequence),
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn_flex::{Flex, FlexDevice, FlexTensor};

    fn matrix(values: &[f32]) -> Prim<Flex> {
        let data = TensorData::new(values.to_vec(), [values.len(), 1]);
        Prim(FlexTensor::from_data(data))
    }

    fn values(matrix: Prim<Flex>) -> Vec<f32> {
        matrix.0.into_data().try_into_vec().unwrap()
    }

    /// Steps 1 and 2 of rows with 1, 3 and 0 steps: only two steps of the second row are no padding.
    #[test]
    fn padding_is_left_out() {
        let device = FlexDevice;
        let of = |layout| Valid::<Flex>::new(&[1, 3, 0], 1..3, layout, &device).unwrap();
        let all = matrix(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let by_row = of(Layout::BatchMajor);
        assert_eq!(values(by_row.pick(all.clone())), [2.0, 3.0]);
        let spread = values(by_row.spread(matrix(&[7.0, 8.0])));
        assert_eq!(spread, [7.0, 7.0, 7.0, 8.0, 7.0, 7.0]);
        let by_time = of(Layout::TimeMajor);
        assert_eq!(values(by_time.pick(all)), [1.0, 4.0]);
        let spread = values(by_time.spread(matrix(&[7.0, 8.0])));
        assert_eq!(spread, [7.0, 7.0, 7.0, 7.0, 8.0, 7.0]);
        let none = Valid::<Flex>::new(&[1, 1], 1..3, Layout::BatchMajor, &device);
        assert!(none.is_none());
    }
}
