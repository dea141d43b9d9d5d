//! Rows of different lengths on backends without kernels for them: packed rows are padded, and padding is masked. The
//! longest row comes first, and each row begins with the step that is computed first, so that all padding is computed last
//! and can be left out. The products over all steps leave it out by [`Places`].

use crate::backend::{GruCall, GruGradients, GruSaved, composed::prim::Prim};
use burn::{
    backend::{
        Backend, TensorMetadata, get_or_init_device_settings,
        tensor::{Device, FloatTensor, IntTensor},
    },
    tensor::{DType, TensorData},
};
use gru_spec::{Direction, Inputs, Layout, Lengths, Order, PerInput, Sequence, Sizes};
use std::{cmp::Reverse, ops::Range};

/// [`GruBackend::gru_forward`](crate::backend::GruBackend::gru_forward), by a function for rows of T steps.
pub(crate) fn forward<B: Backend>(
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
        states: padded.zeroed(padded.unpack(Prim(saved.states))).0,
        gates: saved.gates.map(|gates| padded.unpack(Prim(gates)).0),
    };
    let d_states = padded.zeroed(padded.unpack(Prim(d_states))).0;
    let GruGradients(gradients) = run(call, saved, d_states, wanted);
    let of_rows = |rows| match &padded.rows {
        Some(places) => places.pick(Prim(rows)).0,
        None => rows,
    };
    GruGradients(PerInput {
        // A weight that is NaN would make the gradient of the padding NaN.
        x: gradients
            .x
            .map(|d_x| padded.pack(padded.zeroed(Prim(d_x))).0),
        h0: gradients.h0.map(of_rows),
        start_state: gradients.start_state.map(of_rows),
        ..gradients
    })
}

/// Numbers of rows of a matrix. The integers of the device may have 8 bits, which are not enough.
pub(crate) fn row_numbers<B: Backend>(numbers: Vec<i64>, device: &Device<B>) -> IntTensor<B> {
    let shape = [numbers.len()];
    let dtype = DType::from(get_or_init_device_settings::<B>(device).int_dtype);
    let dtype = if dtype.size() < 4 { DType::I32 } else { dtype };
    B::int_from_data(TensorData::new(numbers, shape).convert_dtype(dtype), device)
}

/// Rows of a matrix, and their places in another matrix.
pub(crate) struct Places<B: Backend> {
    /// For each row of this matrix its number in the other one, or 0 if it is not there.
    there: IntTensor<B>,
    /// For each row of the other matrix its number in this one.
    here: IntTensor<B>,
}

impl<B: Backend> Places<B> {
    /// From the number of each row in the other matrix, which has `count` rows.
    fn new(places: &[Option<usize>], count: usize, device: &Device<B>) -> Self {
        let mut here = vec![0; count];
        for (row, place) in places.iter().enumerate() {
            if let Some(place) = *place {
                here[place] = row as i64;
            }
        }
        let there = places.iter().map(|place| place.unwrap_or(0) as i64);
        Self {
            there: row_numbers::<B>(there.collect(), device),
            here: row_numbers::<B>(here, device),
        }
    }

    /// The rows of the other matrix.
    pub(crate) fn pick(&self, here: Prim<B>) -> Prim<B> {
        Prim(B::float_select(here.0, 0, self.here.clone()))
    }

    /// The rows of this matrix. Those that the other one does not have repeat another row.
    pub(crate) fn spread(&self, there: Prim<B>) -> Prim<B> {
        Prim(B::float_select(there.0, 0, self.there.clone()))
    }
}

impl<B: Backend> Places<B> {
    /// The steps `times` of rows with these lengths, and the matrix of those that are not padding. There must be one.
    pub(crate) fn of_valid(
        lengths: &[usize],
        times: Range<usize>,
        layout: Layout,
        device: &Device<B>,
    ) -> Self {
        let [first, second] = layout.split([lengths.len(), times.len()]);
        let mut count = 0;
        let place = |step| {
            let [n, t] = layout.split([step / second, step % second]);
            (times.start + t < lengths[n]).then(|| {
                count += 1;
                count - 1
            })
        };
        let places: Vec<_> = (0..first * second).map(place).collect();
        debug_assert!(count > 0, "expected a step that is no padding, got none");
        Self::new(&places, count, device)
    }

    /// `all · weight` for the valid steps. The rows of the padding are undefined.
    #[cfg(feature = "cube")]
    pub(crate) fn product(valid: &Option<Self>, all: Prim<B>, weight: Prim<B>) -> Prim<B> {
        match valid {
            Some(valid) => valid.spread(valid.pick(all).matmul(weight)),
            None => all.matmul(weight),
        }
    }
}

/// The padded form of a call: rows of T steps, the longest row first, each in the order of computation.
struct Padded<B: Backend> {
    /// The lengths of its rows.
    lengths: Lengths,
    /// The places of its rows in the call, unless they have the same order.
    rows: Option<Places<B>>,
    /// The places of its steps in the call, unless they have the same order.
    steps: Option<Places<B>>,
    is_reverse: bool,
    sizes: Sizes,
    layout: Layout,
    /// The first two dimensions of sequences of the call.
    in_memory: [usize; 2],
    /// 0 past the end of a row, else 1: `[N,T,1]` or `[T,N,1]`.
    step_mask: Prim<B>,
}

impl<B: Backend> Padded<B> {
    /// `None` for rows of T steps, and for no rows.
    fn of(call: &GruCall<B>) -> Option<Self> {
        let lengths = call.lengths.of_rows().filter(|_| !call.has_no_rows())?;
        let (sizes, direction) = (call.sizes(), call.order.direction);
        let is_packed = matches!(call.lengths, Lengths::Packed(_));
        let layout = if is_packed {
            Layout::BatchMajor
        } else {
            call.order.layout
        };
        let x = &call.inputs.sequence.x;
        let [a, b, _] = x.shape().dims();
        let device = x.device();

        let mut rows: Vec<usize> = (0..sizes.n).collect();
        rows.sort_by_key(|&row| Reverse(lengths[row]));
        let mut starts = vec![0; sizes.n];
        for row in 1..sizes.n {
            starts[row] = starts[row - 1] + lengths[row - 1];
        }
        let place = |[rank, s]: [usize; 2]| {
            let row = rows[rank];
            let length = lengths[row];
            let is_valid = s < length;
            let t = if is_valid {
                direction.time(s, length)
            } else {
                s
            };
            if is_packed {
                is_valid.then(|| starts[row] + t)
            } else {
                let [first, second] = layout.split([row, t]);
                Some(first * b + second)
            }
        };
        let [first, second] = layout.split([sizes.n, sizes.t]);
        let steps = (0..first).flat_map(|i| (0..second).map(move |j| layout.split([i, j])));
        let places: Vec<_> = steps.clone().map(place).collect();
        let is_same = places.iter().copied().eq((0..a * b).map(Some));
        let of_rows: Vec<_> = rows.iter().copied().map(Some).collect();
        let lengths: Vec<usize> = rows.iter().map(|&row| lengths[row]).collect();
        let mask: Vec<f32> = steps
            .map(|[rank, s]| f32::from(u8::from(s < lengths[rank])))
            .collect();
        let mask = B::float_from_data(TensorData::new(mask, [first, second, 1]), &device);
        Some(Self {
            rows: (!rows.is_sorted()).then(|| Places::new(&of_rows, sizes.n, &device)),
            steps: (!is_same && a * b > 0).then(|| Places::new(&places, a * b, &device)),
            lengths: Lengths::Padded(lengths.into()),
            is_reverse: direction == Direction::Reverse,
            sizes,
            layout,
            in_memory: [a, b],
            step_mask: Prim(B::float_cast(mask, x.dtype().into())),
        })
    }

    /// The padded call.
    fn call(&self, call: GruCall<B>) -> GruCall<B> {
        let Inputs { sequence, weights } = call.inputs;
        let [first, second] = self.layout.split([self.sizes.n, self.sizes.t]);
        let flags = |flags: FloatTensor<B>, is_late: bool| {
            let [a, b] = self.in_memory;
            let flags = self.unpack(Prim(flags).reshape([a, b, 1]));
            let flags = if is_late { self.later(flags) } else { flags };
            self.zeroed(flags).reshape([first, second]).0
        };
        let step_mask = match sequence.step_mask {
            Some(step_mask) => flags(step_mask, false),
            None => self.step_mask.clone().reshape([first, second]).0,
        };
        let of_rows = |rows: FloatTensor<B>| match &self.rows {
            Some(places) => places.spread(Prim(rows)).0,
            None => rows,
        };
        let zoneout = sequence.zoneout.map(|zoneout| self.unpack(Prim(zoneout)).0);
        GruCall {
            inputs: Inputs {
                sequence: Sequence {
                    // The padding may be NaN.
                    x: self.zeroed(self.unpack(Prim(sequence.x))).0,
                    h0: sequence.h0.map(of_rows),
                    recurrent_mask: sequence.recurrent_mask.map(of_rows),
                    step_mask: Some(step_mask),
                    zoneout,
                    // A start is the boundary before its time, which in reverse belongs to the next step.
                    starts: sequence.starts.map(|starts| flags(starts, self.is_reverse)),
                    start_state: sequence.start_state.map(of_rows),
                },
                weights,
            },
            order: Order {
                layout: self.layout,
                direction: Direction::Forward,
            },
            lengths: self.lengths.clone(),
            ..call
        }
    }

    /// A padded sequence, each step with the values of the step before it. The first has zeros.
    fn later(&self, sequence: Prim<B>) -> Prim<B> {
        let (time, t) = (self.layout.time_dim(), self.sizes.t);
        let mut dims = sequence.dims::<3>();
        if t < 2 || dims.contains(&0) {
            return Prim::zeros(dims, &sequence);
        }
        dims[time] = 1;
        let zeros = Prim::zeros(dims, &sequence);
        Prim::cat(vec![zeros, sequence.narrow(time, 0..t - 1)], time)
    }

    /// A padded sequence with zeros past the end of each row.
    fn zeroed(&self, sequence: Prim<B>) -> Prim<B> {
        let shape: [usize; 3] = sequence.dims();
        if shape.contains(&0) {
            return sequence;
        }
        sequence.zeroed(self.step_mask.equals(0.0).expand(shape))
    }

    /// A padded sequence from a sequence of the call. The padding of packed rows is undefined.
    fn unpack(&self, sequence: Prim<B>) -> Prim<B> {
        let Sizes { n, t, .. } = self.sizes;
        self.moved(sequence, self.layout.split([n, t]), Places::spread)
    }

    /// The inverse of [`unpack`](Self::unpack).
    fn pack(&self, sequence: Prim<B>) -> Prim<B> {
        self.moved(sequence, self.in_memory, Places::pick)
    }

    /// A sequence with its steps at other places: `[first,second,C]`.
    fn moved(
        &self,
        sequence: Prim<B>,
        [first, second]: [usize; 2],
        to: fn(&Places<B>, Prim<B>) -> Prim<B>,
    ) -> Prim<B> {
        let [a, b, features] = sequence.dims();
        let shape = [first, second, features];
        match &self.steps {
            Some(places) if features > 0 => {
                to(places, sequence.reshape([a * b, features])).reshape(shape)
            }
            // The same order, or nothing to move.
            _ => sequence.reshape(shape),
        }
    }
}
