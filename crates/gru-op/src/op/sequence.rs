//! The operator on Burn's tensors.

#[cfg(feature = "cpu-kernels")]
use crate::op::{
    infer::{Plain, PlainLayer, infer},
    options::Starts,
};
use crate::{
    backend::{GruBackend, GruCall},
    op::check::{self, OpNames},
    op::options::{GruWeights, Padding, SequenceOptions},
    op::padding::{before_the_first, state_at_the_end, zeroed},
    op::shape,
};
use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::{Bool, Tensor},
};
use gru_spec::{GruSpec, Inputs, Layout, Lengths, Order, Sequence};

/// Runs a GRU over a sequence.
///
/// The [front page](crate) lists the equations. A whole sequence is one node of the autodiff graph. Its
/// hand-written backward computes first-order gradients of tracked inputs. If an input is tracked, the gates
/// are kept for it, or recomputed with [`Checkpointing::Recompute`](crate::Checkpointing::Recompute). Otherwise nothing is kept.
///
/// # Shapes
/// - `x`: `[N,T,I]`, or `[N,T,3H]` without `w_ih`.
/// - `h0`: `[N,H]`; zeros if absent.
/// - returns the states after every step, `[N,T,H]`, and the final state `[N,H]`.
///
/// N and T may be zero. If T is zero, the final state is the initial state.
///
/// # Panics
/// If shapes, devices, dtypes or gradient checkpointing of the tensors do not match, before any work, or if
/// [`GruSpec::check`] panics.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_op::{GruSpec, GruWeights, gru_sequence};
///
/// let (n, t, i, h, device) = (2, 5, 3, 4, Device::flex());
/// let x = Tensor::random([n, t, i], Distribution::Default, &device);
/// let draw = |rows| Tensor::random([rows, 3 * h], Distribution::Default, &device);
/// let weights = GruWeights::new(draw(i), draw(h));
/// let (y, state) = gru_sequence(x, None, &weights, &GruSpec::default());
/// assert_eq!((y.dims(), state.dims()), ([n, t, h], [n, h]));
/// ```
pub fn gru_sequence(
    x: Tensor<3>,
    h0: Option<Tensor<2>>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> (Tensor<3>, Tensor<2>) {
    let options = SequenceOptions::new().state(h0);
    states(OpNames::new("gru_sequence"), x, weights, spec, options)
}

/// [`gru_sequence`] with options: layout, direction, lengths or a mask, starts, recurrent mask, zoneout, checkpointing.
/// [`SequenceOptions`] has an example.
///
/// # Shapes
/// - `x`: `[N,T,I]`, or `[T,N,I]` with [`Layout::TimeMajor`]. Neither layout is copied into the other.
/// - returns the states `[N,T,H]` or `[T,N,H]`, and the final state `[N,H]`. In
///   [`Direction::Reverse`](crate::Direction::Reverse) the final state is the one after step 0.
///
/// A skipped step keeps the state and passes its whole gradient on. `x` is ignored there, even if it is not
/// finite, and its gradient is zero. The final state is the state after the last step, which a skipped step
/// leaves unchanged.
///
/// # Panics
/// As [`gru_sequence`]. Also if there is not one length for every row, a length is larger than T, or there is a start
/// state without starts.
pub fn gru_sequence_with(
    x: Tensor<3>,
    weights: &GruWeights,
    spec: &GruSpec,
    options: SequenceOptions<2>,
) -> (Tensor<3>, Tensor<2>) {
    states(OpNames::new("gru_sequence_with"), x, weights, spec, options)
}

/// The states and the three gates after their activations, each `[N,T,H]` or `[T,N,H]`.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[allow(missing_docs)] // Each field is named after its gate.
pub struct GruGates {
    pub states: Tensor<3>,
    pub reset: Tensor<3>,
    pub update: Tensor<3>,
    pub candidate: Tensor<3>,
}

/// [`gru_sequence_with`] and its gates, for inspection. Nothing is recorded for backward: all results are on the device
/// without autodiff. Gates have no meaning at skipped steps.
///
/// # Panics
/// As [`gru_sequence_with`].
///
/// ```
/// # use burn::tensor::{Device, Distribution, Tensor};
/// # use gru_op::{GruSpec, GruWeights, SequenceOptions, gru_gates};
/// # let (n, t, i, h, device) = (2, 5, 3, 4, Device::flex());
/// # let x = Tensor::random([n, t, i], Distribution::Default, &device);
/// # let draw = |rows| Tensor::random([rows, 3 * h], Distribution::Default, &device);
/// let weights = GruWeights::new(draw(i), draw(h));
/// let gates = gru_gates(x, &weights, &GruSpec::default(), SequenceOptions::new());
/// let open = gates.update.mean().into_scalar::<f32>(); // how much the state keeps
/// assert!((0.0..=1.0).contains(&open));
/// ```
pub fn gru_gates(
    x: Tensor<3>,
    weights: &GruWeights,
    spec: &GruSpec,
    options: SequenceOptions<2>,
) -> GruGates {
    let (weights, options) = (weights.clone().inner(), options.inner());
    Operation::new(OpNames::new("gru_gates"), &weights, spec, options).gates(x.inner())
}

/// Runs one step of a GRU: from `x [N,I]` and `h [N,H]` (zeros if absent) to the new state `[N,H]`.
///
/// # Panics
/// As [`gru_sequence`].
///
/// ```
/// # use burn::tensor::{Device, Distribution, Tensor};
/// # use gru_op::{GruSpec, GruWeights, gru_cell};
/// # let (n, i, h, device) = (2, 3, 4, Device::flex());
/// # let x = Tensor::random([n, i], Distribution::Default, &device);
/// # let draw = |rows| Tensor::random([rows, 3 * h], Distribution::Default, &device);
/// let weights = GruWeights::new(draw(i), draw(h));
/// let state = gru_cell(x, None, &weights, &GruSpec::default());
/// assert_eq!(state.dims(), [n, h]);
/// ```
pub fn gru_cell(
    x: Tensor<2>,
    h: Option<Tensor<2>>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> Tensor<2> {
    let options = SequenceOptions::new().state(h);
    let names = OpNames {
        h0: "h",
        ..OpNames::new("gru_cell")
    };
    states(names, x, weights, spec, options.layout(Layout::TimeMajor)).1
}

/// The output and the final state of a sequence, or of a step `[N,I]` in the time-major layout.
pub(crate) fn states<const D: usize>(
    names: OpNames,
    x: Tensor<D>,
    weights: &GruWeights,
    spec: &GruSpec,
    options: SequenceOptions<2>,
) -> (Tensor<D>, Tensor<2>) {
    let dims = shape::of_sequence(&x);
    #[cfg(feature = "cpu-kernels")]
    if let Some((layer, sizes)) = plain_layer(&x, dims, weights, spec, &options) {
        if let Some(memory) = &options.memory {
            memory.infer();
        }
        return infer(sizes, 1, &[layer], x, [dims[0], dims[1]], options);
    }
    let operation = Operation::new(names, weights, spec, options);
    let (y, last) = operation.states(shape::view(x, dims));
    (shape::of_rank(y), last)
}

/// The layer of a call and its sizes, I and H, if all tensors are plain and have the right shapes, and there are no options
/// except the state and the order.
#[cfg(feature = "cpu-kernels")]
fn plain_layer<const D: usize>(
    x: &Tensor<D>,
    dims: [usize; 3],
    weights: &GruWeights,
    spec: &GruSpec,
    options: &SequenceOptions<2>,
) -> Option<(PlainLayer, [usize; 2])> {
    let ([first, second, i], [h, _]) = (dims, weights.w_hh.dims());
    let plain = Plain::like(x, dims, h)?;
    let SequenceOptions {
        state,
        padding: Padding::None,
        starts: Starts {
            flags: None,
            state: None,
        },
        recurrent_mask: None,
        zoneout: None,
        order: Order { layout, direction },
        ..
    } = options
    else {
        return None;
    };
    let [n, _] = layout.split([first, second]);
    let has_shape = state.as_ref().is_none_or(|state| state.dims() == [n, h]);
    if !has_shape || !plain.has(state) {
        return None;
    }
    let layer = plain.layer([i, h], weights.clone(), (spec, *direction, 0.0))?;
    Some((layer, [i, h]))
}

/// The arguments of a call, except the sequence.
pub(crate) struct Operation<'a> {
    pub(crate) names: OpNames<'a>,
    pub(crate) weights: GruWeights,
    pub(crate) spec: &'a GruSpec,
    pub(crate) options: SequenceOptions<2>,
    /// Of the options, if a block shares them among its layers.
    pub(crate) flags: Option<Flags>,
}

/// The mask and the starts as floats, and the skipped steps.
#[derive(Debug, Clone)]
pub(crate) struct Flags {
    step_mask: Option<Tensor<2>>,
    skipped: Option<Tensor<2, Bool>>,
    starts: Option<Tensor<2>>,
}

impl Flags {
    pub(crate) fn new<const D: usize>(x: &Tensor<3>, options: &SequenceOptions<D>) -> Self {
        let [first, second, _] = x.dims();
        let float = |flags: &Tensor<2, Bool>| flags.clone().float().cast(x.dtype());
        // Backends handle lengths themselves.
        let mask = match &options.padding {
            Padding::Mask(mask) if first * second > 0 => Some(mask),
            Padding::Mask(_) | Padding::Lengths(_) | Padding::None => None,
        };
        Self {
            step_mask: mask.map(float),
            skipped: mask.map(|mask| mask.clone().bool_not()),
            starts: options.starts.flags.as_ref().map(float),
        }
    }
}

impl<'a> Operation<'a> {
    pub(crate) fn new(
        names: OpNames<'a>,
        weights: &GruWeights,
        spec: &'a GruSpec,
        options: SequenceOptions<2>,
    ) -> Self {
        Self {
            names,
            weights: weights.clone(),
            spec,
            options,
            flags: None,
        }
    }

    /// The output and the final state.
    pub(crate) fn states(self, x: Tensor<3>) -> (Tensor<3>, Tensor<2>) {
        self.run(x, |call| Dispatch::gru_forward(call, false).states)
    }

    pub(crate) fn gates(self, x: Tensor<3>) -> GruGates {
        let mut gates = None;
        let (states, _) = self.run(x, |call| {
            let saved = Dispatch::gru_forward(call, true);
            gates = saved.gates.map(Tensor::<3>::from_dispatch);
            saved.states
        });
        let gates = gates.expect("they were kept");
        let [first, second, h] = states.dims();
        let gate = |k: usize| match h {
            0 => shape::reshape(gates.clone(), [first, second, h]),
            _ => gates.clone().narrow(2, k * h, h),
        };
        GruGates {
            states,
            reset: gate(0),
            update: gate(1),
            candidate: gate(2),
        }
    }

    /// The output and the final state. `run` computes the states.
    pub(crate) fn run(
        self,
        x: Tensor<3>,
        mut run: impl FnMut(GruCall<Dispatch>) -> DispatchTensor,
    ) -> (Tensor<3>, Tensor<2>) {
        let sizes = check::check_sequence(self.names, &x, &self.options, &self.weights, self.spec);
        let (weights, options) = (self.weights.into_dispatch(), self.options);
        let order = options.order;
        let lengths = options.padding.lengths(sizes.t);
        let call = |sequence, weights, lengths| GruCall {
            inputs: Inputs { sequence, weights },
            spec: *self.spec,
            order,
            checkpointing: options.checkpointing,
            lengths,
            memory: options.memory.clone(),
        };
        let Flags {
            step_mask,
            skipped,
            starts,
        } = self.flags.unwrap_or_else(|| Flags::new(&x, &options));
        // The input of a skipped step may be NaN, so a product with 0 does not mask it.
        let x = match skipped {
            Some(skipped) => zeroed(x, skipped),
            None => x,
        };
        let start_state = options
            .starts
            .state
            .map(|state| shape::expand(state, [sizes.n, sizes.h]));
        // Of rows without steps.
        let kept = lengths.of_rows().and_then(|_| options.state.clone());
        let h0 = optional(options.state);
        // If T is zero, the final state is the state after a skipped step. So it has gradients, which are
        // zero for the weights.
        let is_empty = sizes.t == 0 && sizes.n * sizes.h > 0;
        let no_step = is_empty.then(|| {
            let [_, _, features] = x.dims();
            let place = (&x.device(), x.dtype());
            let [first, second] = order.layout.split([sizes.n, 1]);
            let x = Tensor::<3>::zeros([first, second, features], place);
            let step_mask = Tensor::<2>::zeros([first, second], place);
            let sequence = Sequence {
                h0: h0.clone(),
                step_mask: optional(Some(step_mask)),
                ..Sequence::new(x.into_dispatch())
            };
            let states = run(call(sequence, weights.clone(), Lengths::All));
            last_state(Tensor::from_dispatch(states), order)
        });
        let sequence = Sequence {
            x: x.into_dispatch(),
            h0,
            recurrent_mask: optional(options.recurrent_mask),
            step_mask: optional(step_mask),
            zoneout: optional(options.zoneout),
            starts: optional(starts),
            start_state: optional(start_state),
        };
        let states = Tensor::<3>::from_dispatch(run(call(sequence, weights, lengths.clone())));
        let last = match (no_step, lengths.of_rows()) {
            (Some(last), _) => last,
            (None, None) => last_state(states.clone(), order),
            (None, Some(_)) => state_at_the_end(&states, &lengths, sizes.t, order, kept),
        };
        let y = match options.padding {
            Padding::Mask(mask) if sizes.n * sizes.t > 0 => {
                zeroed(states, before_the_first(mask, options.starts.flags, order))
            }
            Padding::Mask(_) | Padding::Lengths(_) | Padding::None => states,
        };
        (y, last)
    }
}

pub(crate) fn optional<const D: usize>(tensor: Option<Tensor<D>>) -> Option<DispatchTensor> {
    tensor.map(Tensor::into_dispatch)
}

/// The state after the last step, `[N,H]`.
fn last_state(states: Tensor<3>, order: Order) -> Tensor<2> {
    let time_dim = order.layout.time_dim();
    let last = match states.dims()[time_dim] {
        0 => 0,
        t => order.direction.time(t - 1, t),
    };
    shape::at(states, time_dim, last)
}
