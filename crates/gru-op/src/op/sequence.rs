//! The operator on Burn's tensors.

use crate::{
    backend::{GruBackend, GruCall},
    op::check::{self, OpNames},
    op::options::{GruWeights, Padding, SequenceOptions},
    op::padding::{before_the_first, state_at_the_end, zeroed},
    op::shape,
};
use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::Tensor,
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
/// If shapes, devices or dtypes do not match, before any work, or if [`GruSpec::check`] panics.
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
    Operation::new("gru_sequence", weights, spec, options).states(x)
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
/// As [`gru_sequence`].
pub fn gru_sequence_with(
    x: Tensor<3>,
    weights: &GruWeights,
    spec: &GruSpec,
    options: SequenceOptions<2>,
) -> (Tensor<3>, Tensor<2>) {
    Operation::new("gru_sequence_with", weights, spec, options).states(x)
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
/// As [`gru_sequence`].
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
    Operation::new("gru_gates", &weights, spec, options).gates(x.inner())
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
    let mut operation = Operation::new("gru_cell", weights, spec, options);
    operation.names.h0 = "h";
    operation.step(x)
}

/// The arguments of a call, except the sequence.
pub(crate) struct Operation<'a> {
    pub(crate) names: OpNames<'a>,
    pub(crate) weights: GruWeights,
    pub(crate) spec: &'a GruSpec,
    pub(crate) options: SequenceOptions<2>,
}

impl<'a> Operation<'a> {
    pub(crate) fn new(
        op: &'a str,
        weights: &GruWeights,
        spec: &'a GruSpec,
        options: SequenceOptions<2>,
    ) -> Self {
        Self {
            names: OpNames {
                op,
                h0: "h0",
                layer: None,
            },
            weights: weights.clone(),
            spec,
            options,
        }
    }

    /// The output and the final state.
    pub(crate) fn states(self, x: Tensor<3>) -> (Tensor<3>, Tensor<2>) {
        self.run(x, |call| Dispatch::gru_forward(call, false).states)
    }

    /// One step. Zoneout is `[1,N,·]`.
    pub(crate) fn step(mut self, x: Tensor<2>) -> Tensor<2> {
        self.options = self.options.layout(Layout::TimeMajor);
        self.states(shape::one_step(x)).1
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
        let dtype = x.dtype();
        // Backends handle lengths themselves.
        let mask = match &options.padding {
            Padding::Mask(mask) if sizes.n * sizes.t > 0 => Some(mask.clone()),
            Padding::Mask(_) | Padding::Lengths(_) | Padding::None => None,
        };
        // The input of a skipped step may be NaN, so a product with 0 does not mask it.
        let x = match &mask {
            Some(mask) => zeroed(x, mask.clone().bool_not()),
            None => x,
        };
        let starts = options.starts.flags;
        let flags = starts.clone().map(|starts| starts.float().cast(dtype));
        let start_state = options
            .starts
            .state
            .map(|state| shape::expand(state, [sizes.n, sizes.h]));
        let h0 = optional(options.state.clone());
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
            step_mask: optional(mask.clone().map(|mask| mask.float().cast(dtype))),
            zoneout: optional(options.zoneout),
            starts: optional(flags),
            start_state: optional(start_state),
        };
        let states = Tensor::<3>::from_dispatch(run(call(sequence, weights, lengths.clone())));
        let last = match (no_step, lengths.of_rows()) {
            (Some(last), _) => last,
            (None, None) => last_state(states.clone(), order),
            (None, Some(_)) => state_at_the_end(&states, &lengths, sizes.t, order, options.state),
        };
        let y = match mask {
            Some(mask) => zeroed(states, before_the_first(mask, starts, order)),
            None => states,
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
