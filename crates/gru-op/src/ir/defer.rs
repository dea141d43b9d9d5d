//! From a call to its description.

use super::{Arguments, GRADIENTS, NONE, STATES, STATES_AND_GATES, TENSORS, results};
use crate::{GruForward, GruGradients, GruInputs, OptionalTensor, Wanted, spec::GruSpec};
use burn::backend::{
    Backend,
    ir::{CustomOpIr, OperationOutput, TensorId, TensorIr},
    tensor::FloatTensor,
};

/// A backend that hands operations on.
pub(super) trait Defer: Backend {
    /// Who takes them.
    type Client: Clone;

    fn client(tensor: &FloatTensor<Self>) -> Self::Client;

    /// For a tensor that an operation will make.
    fn new_id(client: &Self::Client) -> TensorId;

    /// Gives up this hold on a tensor.
    fn into_ir(tensor: FloatTensor<Self>) -> TensorIr;

    /// Hands an operation on; the tensors that it will have made.
    fn register(client: &Self::Client, op: CustomOpIr) -> Vec<FloatTensor<Self>>;
}

pub(super) fn states<B: Defer>(inputs: GruInputs<B>, spec: GruSpec) -> FloatTensor<B> {
    defer::<B>(STATES, slots(inputs, [None, None, None]), spec, NONE).output()
}

pub(super) fn states_and_gates<B: Defer>(inputs: GruInputs<B>, spec: GruSpec) -> GruForward<B> {
    let tensors = slots(inputs, [None, None, None]);
    let [states, gates] = defer::<B>(STATES_AND_GATES, tensors, spec, NONE).outputs();
    GruForward { states, gates }
}

pub(super) fn gradients<B: Defer>(
    inputs: GruInputs<B>,
    states: FloatTensor<B>,
    gates: OptionalTensor<B>,
    d_states: FloatTensor<B>,
    spec: GruSpec,
    wanted: Wanted,
) -> GruGradients<B> {
    let tensors = slots(inputs, [Some(states), gates.into_option(), Some(d_states)]);
    let mut made = defer::<B>(GRADIENTS, tensors, spec, wanted).into_iter();
    let mut next = |wanted: bool| OptionalTensor::from(wanted.then(|| made.next()).flatten());
    GruGradients {
        x: next(wanted.x),
        h0: next(wanted.h0),
        w_ih: next(wanted.w_ih),
        w_hh: next(wanted.w_hh),
        b_ih: next(wanted.b_ih),
        b_hh: next(wanted.b_hh),
    }
}

/// The tensors of a call, each in its place.
fn slots<B: Backend>(
    inputs: GruInputs<B>,
    [states, gates, d_states]: [Option<FloatTensor<B>>; 3],
) -> [Option<FloatTensor<B>>; TENSORS.len()] {
    [
        Some(inputs.x),
        inputs.h0.into_option(),
        inputs.w_ih.into_option(),
        Some(inputs.w_hh),
        inputs.b_ih.into_option(),
        inputs.b_hh.into_option(),
        inputs.mask.into_option(),
        inputs.valid.into_option(),
        inputs.take.into_option(),
        states,
        gates,
        d_states,
    ]
}

/// # Panics
/// If the tensors do not fit to each other, which no call of the operator lets happen.
fn defer<B: Defer>(
    id: &'static str,
    tensors: [Option<FloatTensor<B>>; TENSORS.len()],
    spec: GruSpec,
    wanted: Wanted,
) -> Vec<FloatTensor<B>> {
    let client = B::client(tensors[0].as_ref().expect("every call has x"));
    let present = (0..TENSORS.len()).filter(|&k| tensors[k].is_some());
    let arguments = Arguments {
        spec,
        present: present.fold(0, |bits, k| bits | 1 << k),
        wanted,
    };
    let tensors = tensors.map(|tensor| tensor.map(B::into_ir));
    let described = tensors.each_ref().map(Option::as_ref);
    let shapes =
        results(id, &described, &arguments).unwrap_or_else(|reason| panic!("{id}: {reason}"));
    let dtype = described[0].expect("every call has x").dtype;
    let outputs: Vec<_> = shapes
        .into_iter()
        .map(|shape| TensorIr::uninit(B::new_id(&client), shape.into(), dtype))
        .collect();
    let inputs: Vec<_> = tensors.into_iter().flatten().collect();
    let op = CustomOpIr::with_scalars(id, &inputs, &outputs, arguments.encode());
    B::register(&client, op)
}

/// Makes a backend that defers run the operator so.
macro_rules! defers {
    ($($implementation:tt)*) => {
        $($implementation)* {
            fn gru_states(
                inputs: crate::GruInputs<Self>,
                spec: crate::GruSpec,
            ) -> burn::backend::tensor::FloatTensor<Self> {
                crate::ir::defer::states(inputs, spec)
            }

            fn gru_states_and_gates(
                inputs: crate::GruInputs<Self>,
                spec: crate::GruSpec,
            ) -> crate::GruForward<Self> {
                crate::ir::defer::states_and_gates(inputs, spec)
            }

            fn gru_gradients(
                inputs: crate::GruInputs<Self>,
                states: burn::backend::tensor::FloatTensor<Self>,
                gates: crate::OptionalTensor<Self>,
                d_states: burn::backend::tensor::FloatTensor<Self>,
                spec: crate::GruSpec,
                wanted: crate::Wanted,
            ) -> crate::GruGradients<Self> {
                crate::ir::defer::gradients(inputs, states, gates, d_states, spec, wanted)
            }
        }
    };
}
pub(super) use defers;
