//! From a call to its description.

use super::{Arguments, GRADIENTS, STATES, STATES_AND_GATES, TENSORS, results};
use crate::backend::{GruCall, GruGradients, GruSaved, PerInput};
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

pub(super) fn states<B: Defer>(call: GruCall<B>) -> FloatTensor<B> {
    defer::<B>(STATES, call, [None, None, None], PerInput::default()).output()
}

pub(super) fn states_and_gates<B: Defer>(call: GruCall<B>) -> GruSaved<B> {
    let others = [None, None, None];
    let results = defer::<B>(STATES_AND_GATES, call, others, PerInput::default());
    let [states, gates] = results.outputs();
    GruSaved {
        states,
        gates: Some(gates),
    }
}

pub(super) fn gradients<B: Defer>(
    call: GruCall<B>,
    saved: GruSaved<B>,
    d_states: FloatTensor<B>,
    wanted: PerInput<bool>,
) -> GruGradients<B> {
    let others = [Some(saved.states), saved.gates, Some(d_states)];
    let mut results = defer::<B>(GRADIENTS, call, others, wanted).into_iter();
    let mut next = |wanted: bool| wanted.then(|| results.next()).flatten();
    GruGradients(wanted.map(&mut next))
}

/// # Panics
/// If the tensors do not fit to each other, which no call of the operator lets happen.
fn defer<B: Defer>(
    id: &'static str,
    call: GruCall<B>,
    others: [Option<FloatTensor<B>>; 3],
    wanted: PerInput<bool>,
) -> Vec<FloatTensor<B>> {
    let mut arguments = Arguments {
        spec: call.spec,
        order: call.order,
        checkpointing: call.checkpointing,
        present: 0,
        wanted,
    };
    let mut slots = call.inputs.into_slots().into_iter().chain(others);
    let tensors: [_; TENSORS.len()] = std::array::from_fn(|_| slots.next().flatten());
    let present = (0..TENSORS.len()).filter(|&k| tensors[k].is_some());
    arguments.present = present.fold(0, |bits, k| bits | 1 << k);
    let client = B::client(tensors[0].as_ref().expect("every call has x"));
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
                call: crate::backend::GruCall<Self>,
            ) -> burn::backend::tensor::FloatTensor<Self> {
                crate::backend::deferred::defer::states(call)
            }

            fn gru_states_and_gates(
                call: crate::backend::GruCall<Self>,
            ) -> crate::backend::GruSaved<Self> {
                crate::backend::deferred::defer::states_and_gates(call)
            }

            fn gru_gradients(
                call: crate::backend::GruCall<Self>,
                saved: crate::backend::GruSaved<Self>,
                d_states: burn::backend::tensor::FloatTensor<Self>,
                wanted: crate::backend::PerInput<bool>,
            ) -> crate::backend::GruGradients<Self> {
                crate::backend::deferred::defer::gradients(call, saved, d_states, wanted)
            }
        }
    };
}
pub(super) use defers;
