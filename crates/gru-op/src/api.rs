//! The operator over Burn's tensors.

use crate::{
    GruBackend, GruInputs, OptionalTensor,
    args::{GruOptions, GruWeights},
    raw,
    shape::{self, Names},
    spec::{GruSpec, Layout, Memory},
    steps::{Shared, Skips},
};
use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::Tensor,
};

/// Runs a GRU over a sequence.
///
/// The equations are those at the [root of the crate](crate). One node of Burn's autodiff graph
/// stands for the whole sequence; its backward is written by hand, computes the gradients of
/// tracked inputs only, and first-order ones only. Nothing is kept when nothing is tracked; what
/// is kept otherwise, [`Memory`](crate::Memory) says.
///
/// # Shapes
/// - `x`: `[N,T,I]`, or `[T,N,I]` by [`GruSpec::layout`]. No layout is copied into the other.
///   `3H` features without `w_ih`.
/// - `h0`: `[N,H]`; zeros if absent.
/// - returns the states after every step, `[N,T,H]` or `[T,N,H]`, and the final state `[N,H]`,
///   which in [`Direction::Reverse`](crate::Direction::Reverse) is the one after step 0.
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
    let options = GruOptions {
        h0,
        ..Default::default()
    };
    sequence_as("gru_sequence".into(), x, options, weights, spec)
}

/// [`gru_sequence`] with everything that it may be given: recurrent mask, lengths or a mask of
/// steps, zoneout.
///
/// At a step that does not count the state is carried on and its gradient passes whole; what the
/// output is there, [`Steps`](crate::Steps) says. The final state is the one after the last step that counts,
/// or the initial state where none does. `x` there has no effect, even if it is not finite, and
/// gets a zero gradient.
///
/// # Panics
/// As [`gru_sequence`].
///
/// An example stands at [`GruOptions`].
pub fn gru_sequence_with(
    x: Tensor<3>,
    weights: &GruWeights,
    spec: &GruSpec,
    options: GruOptions,
) -> (Tensor<3>, Tensor<2>) {
    sequence_as("gru_sequence_with".into(), x, options, weights, spec)
}

/// [`gru_sequence_with`] under the names that its panics are to say.
pub(crate) fn sequence_as(
    names: Names,
    x: Tensor<3>,
    options: GruOptions,
    weights: &GruWeights,
    spec: &GruSpec,
) -> (Tensor<3>, Tensor<2>) {
    sequence_by(names, x, options, weights, spec, Dispatch::gru_states)
}

/// [`sequence_as`] for one of the layers of a block.
pub(crate) fn layer_as(
    names: Names,
    x: Tensor<3>,
    options: GruOptions,
    weights: &GruWeights,
    spec: &GruSpec,
    shared: Shared,
) -> (Tensor<3>, Tensor<2>) {
    let run = Dispatch::gru_states;
    sequence_sharing(names, x, options, weights, spec, shared, run)
}

/// What happened inside a sequence: the states and the three gates after their activations, each
/// `[N,T,H]` or `[T,N,H]`.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[allow(missing_docs)] // The names are those of the gates.
pub struct GruGates {
    pub states: Tensor<3>,
    pub reset: Tensor<3>,
    pub update: Tensor<3>,
    pub candidate: Tensor<3>,
}

/// [`gru_sequence`] with its gates, to look at: all results are constants to autodiff.
///
/// # Panics
/// As [`gru_sequence`].
///
/// ```
/// # use burn::tensor::{Device, Distribution, Tensor};
/// # use gru_op::{GruSpec, GruWeights, gru_gates};
/// # let (n, t, i, h, device) = (2, 5, 3, 4, Device::flex());
/// # let x = Tensor::random([n, t, i], Distribution::Default, &device);
/// # let draw = |rows| Tensor::random([rows, 3 * h], Distribution::Default, &device);
/// let weights = GruWeights::new(draw(i), draw(h));
/// let gates = gru_gates(x, None, &weights, &GruSpec::default());
/// let open = gates.update.mean().into_scalar::<f32>(); // how much the state keeps
/// assert!((0.0..=1.0).contains(&open));
/// ```
pub fn gru_gates(
    x: Tensor<3>,
    h0: Option<Tensor<2>>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> GruGates {
    let options = GruOptions {
        h0,
        ..Default::default()
    };
    gates_as("gru_gates".into(), x, options, weights, spec)
}

/// [`gru_gates`] under the names that its panics are to say.
pub(crate) fn gates_as(
    names: Names,
    x: Tensor<3>,
    options: GruOptions,
    weights: &GruWeights,
    spec: &GruSpec,
) -> GruGates {
    let mut gates = None;
    let run = |inputs, spec| {
        let forward = Dispatch::gru_states_and_gates(inputs, spec);
        gates = Some(Tensor::<3>::from_dispatch(forward.gates));
        forward.states
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
/// The layout and direction of `spec` play no part.
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
    let options = GruOptions {
        h0: h,
        ..Default::default()
    };
    let names = Names {
        h0: "h",
        ..Names::from("gru_cell")
    };
    cell_as(names, x, options, weights, spec)
}

/// One step with options, whose `take` is `[1,N,·]`.
pub(crate) fn cell_as(
    names: Names,
    x: Tensor<2>,
    options: GruOptions,
    weights: &GruWeights,
    spec: &GruSpec,
) -> Tensor<2> {
    let spec = spec.with_layout(Layout::TimeMajor);
    let [n, features] = x.dims();
    let x = raw::reshape(x, [1, n, features]);
    sequence_by(names, x, options, weights, &spec, Dispatch::gru_states).1
}

/// Checks, runs and takes the final state, whatever makes the states.
pub(crate) fn sequence_by(
    names: Names,
    x: Tensor<3>,
    options: GruOptions,
    weights: &GruWeights,
    spec: &GruSpec,
    run: impl FnMut(GruInputs<Dispatch>, GruSpec) -> DispatchTensor,
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
    options: GruOptions,
    weights: &GruWeights,
    spec: &GruSpec,
    shared: Shared,
    mut run: impl FnMut(GruInputs<Dispatch>, GruSpec) -> DispatchTensor,
) -> (Tensor<3>, Tensor<2>) {
    let sizes = shape::check_sequence(names, &x, &options, weights, spec);
    // Without autodiff there is no backward that could save memory.
    let spec = &if sizes.autodiff {
        *spec
    } else {
        spec.with_memory(Memory::Speed)
    };
    let skips = || Skips::new(&options.steps, &sizes, spec, &x);
    let skips = shared.skips.get_or_init(skips).as_ref();
    let x = match skips {
        Some(skips) => skips.silence(x, shared.above),
        None => x,
    };
    let mut states = |x: Tensor<3>, mask, valid, take| {
        let inputs = GruInputs {
            x: x.into_dispatch(),
            h0: optional(options.h0.clone()),
            w_ih: optional(weights.w_ih.clone()),
            w_hh: weights.w_hh.clone().into_dispatch(),
            b_ih: optional(weights.b_ih.clone()),
            b_hh: optional(weights.b_hh.clone().map(|b| of_all_gates(b, sizes.h))),
            mask: optional::<2>(mask),
            valid: optional::<2>(valid),
            take: optional::<3>(take),
        };
        Tensor::<3>::from_dispatch(run(inputs, *spec))
    };
    // The state after no step is that after a step which does not count: it has the gradients of
    // any other, zeros for the weights.
    let no_step = (sizes.t == 0 && sizes.n * sizes.h > 0).then(|| {
        let [_, _, features] = x.dims();
        let place = (&x.device(), x.dtype());
        let [first, second] = spec.layout.split([sizes.n, 1]);
        let x = Tensor::zeros([first, second, features], place);
        let valid = Tensor::zeros([first, second], place);
        last_state(states(x, None, Some(valid), None), spec)
    });
    let valid = skips.map(|skips| skips.valid.clone());
    let states = states(x, options.mask, valid, options.take);
    let last = no_step.unwrap_or_else(|| last_state(states.clone(), spec));
    let y = match skips {
        Some(skips) => skips.output(states, spec),
        None => states,
    };
    (y, last)
}

pub(crate) fn optional<const D: usize>(tensor: Option<Tensor<D>>) -> OptionalTensor<Dispatch> {
    OptionalTensor::from(tensor.map(Tensor::into_dispatch))
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

/// The state after the last step walked, `[N,H]`.
fn last_state(states: Tensor<3>, spec: &GruSpec) -> Tensor<2> {
    let time_dim = spec.layout.time_dim();
    let last = match states.dims()[time_dim] {
        // No rows or no units: there is nothing to take.
        0 => 0,
        t => spec.direction.time(t - 1, t),
    };
    raw::at(states, time_dim, last)
}
