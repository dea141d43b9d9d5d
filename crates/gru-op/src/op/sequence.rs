//! The operator over Burn's tensors.

use crate::{
    backend::{GruBackend, GruCall},
    op::check::{self, Names},
    op::options::{GruWeights, SequenceOptions},
    op::padding::{Shared, Skips},
    op::shape,
};
use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::Tensor,
};
use gru_spec::{Checkpointing, GruSpec, Inputs, Layout, Order, Sequence, Weights};

/// Runs a GRU over a sequence.
///
/// The equations are those at the [root of the crate](crate). One node of Burn's autodiff graph
/// stands for the whole sequence; its backward is written by hand, computes the gradients of
/// tracked inputs only, and first-order ones only. Nothing is kept when nothing is tracked. Otherwise the
/// gates are kept, or what [`Checkpointing`](crate::Checkpointing) says.
///
/// # Shapes
/// - `x`: `[N,T,I]`; `3H` features without `w_ih`.
/// - `h0`: `[N,H]`; zeros if absent.
/// - returns the states after every step, `[N,T,H]`, and the final state `[N,H]`.
///
/// N and T may be zero; with no step the final state is the initial one.
///
/// # Panics
/// If shapes, devices or dtypes do not fit together, before any work; and if
/// [`GruSpec::check`] does.
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
    sequence_as("gru_sequence".into(), x, options, weights, spec)
}

/// [`gru_sequence`] with options: layout, direction, lengths or a mask, recurrent mask, zoneout.
/// [`SequenceOptions`] has an example.
///
/// # Shapes
/// - `x`: `[N,T,I]`, or `[T,N,I]` with [`Layout::TimeMajor`]. No layout is copied into the other.
/// - returns the states `[N,T,H]` or `[T,N,H]`, and the final state `[N,H]`. In
///   [`Direction::Reverse`](crate::Direction::Reverse) the final state is the one after step 0.
///
/// At a skipped step the state is kept and its gradient passes whole. `x` has no effect there, even if it is
/// not finite, and its gradient is zero. The final state is the one after the last valid step, or the initial
/// state without any.
///
/// # Panics
/// As [`gru_sequence`].
pub fn gru_sequence_with(
    x: Tensor<3>,
    weights: &GruWeights,
    spec: &GruSpec,
    options: SequenceOptions<2>,
) -> (Tensor<3>, Tensor<2>) {
    sequence_as("gru_sequence_with".into(), x, options, weights, spec)
}

/// [`gru_sequence_with`] under the names that its panics are to say.
pub(crate) fn sequence_as(
    names: Names,
    x: Tensor<3>,
    options: SequenceOptions<2>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> (Tensor<3>, Tensor<2>) {
    sequence_by(names, x, options, weights, spec, Dispatch::gru_states)
}

/// [`sequence_as`] for one of the layers of a block.
pub(crate) fn layer_as(
    names: Names,
    x: Tensor<3>,
    options: SequenceOptions<2>,
    weights: &GruWeights,
    spec: &GruSpec,
    shared: Shared,
) -> (Tensor<3>, Tensor<2>) {
    let run = Dispatch::gru_states;
    sequence_sharing(names, x, options, weights, spec, shared, run)
}

/// The states and the three gates after their activations, each `[N,T,H]` or `[T,N,H]`.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[allow(missing_docs)] // The names are those of the gates.
pub struct GruGates {
    pub states: Tensor<3>,
    pub reset: Tensor<3>,
    pub update: Tensor<3>,
    pub candidate: Tensor<3>,
}

/// [`gru_sequence_with`] with its gates, to look at: all results are constants to autodiff. At skipped steps
/// gates have no meaning.
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
    gates_as("gru_gates".into(), x, options, weights, spec)
}

/// [`gru_gates`] under the names that its panics are to say.
pub(crate) fn gates_as(
    names: Names,
    x: Tensor<3>,
    options: SequenceOptions<2>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> GruGates {
    let mut gates = None;
    let run = |call| {
        let saved = Dispatch::gru_states_and_gates(call);
        gates = saved.gates.map(Tensor::<3>::from_dispatch);
        saved.states
    };
    let (states, _) = sequence_by(names, x, options, weights, spec, run);
    let gates = gates.expect("the sequence was run");
    let [_, _, h] = states.dims();
    let gate = |k: usize| gates.clone().narrow(2, k * h, h);
    GruGates {
        states,
        reset: gate(0),
        update: gate(1),
        candidate: gate(2),
    }
}

/// Runs one step of a GRU: `x [N,I]` and `h [N,H]` (zeros if absent) to the new state `[N,H]`.
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
    let names = Names {
        h0: "h",
        ..Names::from("gru_cell")
    };
    cell_as(names, x, options, weights, spec)
}

/// One step with options, whose zoneout is `[1,N,·]`.
pub(crate) fn cell_as(
    names: Names,
    x: Tensor<2>,
    options: SequenceOptions<2>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> Tensor<2> {
    let options = options.layout(Layout::TimeMajor);
    let [n, features] = x.dims();
    let x = shape::reshape(x, [1, n, features]);
    sequence_by(names, x, options, weights, spec, Dispatch::gru_states).1
}

/// Checks, runs and takes the final state, whatever makes the states.
pub(crate) fn sequence_by(
    names: Names,
    x: Tensor<3>,
    options: SequenceOptions<2>,
    weights: &GruWeights,
    spec: &GruSpec,
    run: impl FnMut(GruCall<Dispatch>) -> DispatchTensor,
) -> (Tensor<3>, Tensor<2>) {
    let shared = Shared {
        skips: &Default::default(),
        above: false,
    };
    sequence_sharing(names, x, options, weights, spec, shared, run)
}

fn sequence_sharing(
    names: Names,
    x: Tensor<3>,
    options: SequenceOptions<2>,
    weights: &GruWeights,
    spec: &GruSpec,
    shared: Shared,
    mut run: impl FnMut(GruCall<Dispatch>) -> DispatchTensor,
) -> (Tensor<3>, Tensor<2>) {
    let sizes = check::check_sequence(names, &x, &options, weights, spec);
    let SequenceOptions {
        state,
        padding,
        order,
        checkpointing,
        recurrent_mask,
        zoneout,
        memory,
    } = options;
    // Without autodiff there is no backward that could save memory.
    let checkpointing = if sizes.autodiff {
        checkpointing
    } else {
        Checkpointing::KeepGates
    };
    let skips = || Skips::new(&padding, &sizes, order, &x);
    let skips = shared.skips.get_or_init(skips).as_ref();
    let x = match skips {
        Some(skips) => skips.silence(x, shared.above),
        None => x,
    };
    let mut states = |x: Tensor<3>, recurrent_mask, step_mask, zoneout| {
        let sequence = Sequence {
            x: x.into_dispatch(),
            h0: optional(state.clone()),
            recurrent_mask: optional::<2>(recurrent_mask),
            step_mask: optional::<2>(step_mask),
            zoneout: optional::<3>(zoneout),
        };
        let b_hh = weights.b_hh.clone().map(|b| of_all_gates(b, sizes.h));
        let weights = Weights {
            w_ih: optional(weights.w_ih.clone()),
            w_hh: weights.w_hh.clone().into_dispatch(),
            b_ih: optional(weights.b_ih.clone()),
            b_hh: optional(b_hh),
        };
        Tensor::<3>::from_dispatch(run(GruCall {
            inputs: Inputs { sequence, weights },
            spec: *spec,
            order,
            checkpointing,
            memory: memory.clone(),
        }))
    };
    // The state after no step is that after a skipped step: it has the gradients of any other, zeros for the
    // weights.
    let no_step = (sizes.t == 0 && sizes.n * sizes.h > 0).then(|| {
        let [_, _, features] = x.dims();
        let place = (&x.device(), x.dtype());
        let [first, second] = order.layout.split([sizes.n, 1]);
        let x = Tensor::zeros([first, second, features], place);
        let skipped = Tensor::zeros([first, second], place);
        last_state(states(x, None, Some(skipped), None), order)
    });
    let step_mask = skips.map(|skips| skips.step_mask.clone());
    let states = states(x, recurrent_mask, step_mask, zoneout);
    let last = no_step.unwrap_or_else(|| last_state(states.clone(), order));
    let y = match skips {
        Some(skips) => skips.output(states, order),
        None => states,
    };
    (y, last)
}

pub(crate) fn optional<const D: usize>(tensor: Option<Tensor<D>>) -> Option<DispatchTensor> {
    tensor.map(Tensor::into_dispatch)
}

/// The recurrent bias of all gates, from one that may be the candidate's alone.
fn of_all_gates(b_hh: Tensor<1>, h: usize) -> Tensor<1> {
    match b_hh.dims() {
        // No units, no biases: both forms are the same.
        [len] if len == h && h > 0 => {
            let none = Tensor::zeros([2 * h], (&b_hh.device(), b_hh.dtype()));
            Tensor::cat(vec![none, b_hh], 0)
        }
        _ => b_hh,
    }
}

/// The state after the last step, `[N,H]`.
fn last_state(states: Tensor<3>, order: Order) -> Tensor<2> {
    let time_dim = order.layout.time_dim();
    let last = match states.dims()[time_dim] {
        // No rows or no units: there is nothing to take.
        0 => 0,
        t => order.direction.time(t - 1, t),
    };
    shape::at(states, time_dim, last)
}
