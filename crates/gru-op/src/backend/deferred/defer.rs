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

fn defer<B: Defer>(
    id: &'static str,
    call: GruCall<B>,
    others: [Option<FloatTensor<B>>; 3],
    wanted: PerInput<bool>,
) -> Vec<FloatTensor<B>> {
    let client = B::client(&call.inputs.sequence.x);
    let op = describe(id, call, others, wanted, B::into_ir, || B::new_id(&client));
    B::register(&client, op)
}

/// The description of a call.
///
/// # Panics
/// If the shapes or dtypes do not match. The operator checks them before.
pub(super) fn describe<B: Backend>(
    id: &'static str,
    call: GruCall<B>,
    others: [Option<FloatTensor<B>>; 3],
    wanted: PerInput<bool>,
    mut into_ir: impl FnMut(FloatTensor<B>) -> TensorIr,
    mut new_id: impl FnMut() -> TensorId,
) -> CustomOpIr {
    let mut tensors = call.inputs.into_slots().into_iter().chain(others);
    let tensors: Slots<_> = std::array::from_fn(|_| tensors.next().flatten().map(&mut into_ir));
    let present = (0..TENSORS.len()).filter(|&k| tensors[k].is_some());
    let arguments = Arguments {
        spec: call.spec,
        order: call.order,
        lengths: call.lengths,
        present: present.fold(0, |bits, k| bits | 1 << k),
        wanted,
    };
    let described = tensors.each_ref().map(Option::as_ref);
    let shapes =
        results(id, &described, &arguments).unwrap_or_else(|error| panic!("{id}: {error}"));
    let dtype = described[0].expect("every call has x").dtype;
    let output = |shape: Vec<usize>| TensorIr::uninit(new_id(), shape.into(), dtype);
    let outputs: Vec<_> = shapes.into_iter().map(output).collect();
    let inputs: Vec<_> = tensors.into_iter().flatten().collect();
    CustomOpIr::with_scalars(id, &inputs, &outputs, arguments.encode())
}
