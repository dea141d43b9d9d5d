//! From a call to its description.

use super::{GRADIENTS, STATES, STATES_AND_GATES, Slots, TENSORS, arguments::Arguments, results};
use crate::backend::{GruCall, GruGradients, GruSaved, PerInput};
use burn::backend::{
    Backend,
    ir::{CustomOpIr, TensorId, TensorIr},
    tensor::FloatTensor,
};

/// A backend that defers operations.
pub(super) trait Defer: Backend {
    /// Registers operations.
    type Client: Clone;

    fn client(tensor: &FloatTensor<Self>) -> Self::Client;

    /// The id of a new tensor.
    fn new_id(client: &Self::Client) -> TensorId;

    /// Describes a tensor and drops this handle.
    fn into_ir(tensor: FloatTensor<Self>) -> TensorIr;

    /// Registers an operation and returns its results.
    fn register(client: &Self::Client, op: CustomOpIr) -> Vec<FloatTensor<Self>>;
}

pub(super) fn forward<B: Defer>(call: GruCall<B>, keep_gates: bool) -> GruSaved<B> {
    let id = if keep_gates { STATES_AND_GATES } else { STATES };
    let mut results = defer::<B>(id, call, [None, None, None], PerInput::default()).into_iter();
    GruSaved {
        states: results.next().expect("the operation has results"),
        gates: results.next(),
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
/// If the shapes or dtypes do not match. The operator checks them before.
fn defer<B: Defer>(
    id: &'static str,
    call: GruCall<B>,
    others: [Option<FloatTensor<B>>; 3],
    wanted: PerInput<bool>,
) -> Vec<FloatTensor<B>> {
    let (spec, order) = (call.spec, call.order);
    let lengths = call.lengths;
    let mut tensors = call.inputs.into_slots().into_iter().chain(others);
    let tensors: Slots<_> = std::array::from_fn(|_| tensors.next().flatten());
    let present = (0..TENSORS.len()).filter(|&k| tensors[k].is_some());
    let arguments = Arguments {
        spec,
        order,
        lengths,
        present: present.fold(0, |bits, k| bits | 1 << k),
        wanted,
    };
    let client = B::client(tensors[0].as_ref().expect("every call has x"));
    let tensors = tensors.map(|tensor| tensor.map(B::into_ir));
    let described = tensors.each_ref().map(Option::as_ref);
    let shapes =
        results(id, &described, &arguments).unwrap_or_else(|error| panic!("{id}: {error}"));
    let dtype = described[0].expect("every call has x").dtype;
    let output = |shape: Vec<usize>| TensorIr::uninit(B::new_id(&client), shape.into(), dtype);
    let outputs: Vec<_> = shapes.into_iter().map(output).collect();
    let inputs: Vec<_> = tensors.into_iter().flatten().collect();
    let op = CustomOpIr::with_scalars(id, &inputs, &outputs, arguments.encode());
    B::register(&client, op)
}
