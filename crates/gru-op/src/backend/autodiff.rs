//! The hand-written backward: one node of the graph for a whole sequence.

use crate::backend::{GruBackend, GruCall, GruGradients, GruSaved};
use burn::backend::{AutodiffBackend, Backend, tensor::FloatTensor};
use burn_autodiff::{
    Autodiff,
    checkpoint::{
        base::Checkpointer,
        strategy::{BalancedCheckpointing, CheckpointStrategy},
    },
    grads::Gradients,
    ops::{Backward, NodeGuard, Ops, OpsKind},
};
use gru_spec::{Checkpointing, GRADIENTS, PerInput};
use std::any::TypeId;

/// A float tensor under autodiff.
type Tensor<B, C> = FloatTensor<Autodiff<B, C>>;

#[derive(Debug)]
struct GruBackward;

/// What backward reads. The graph shares the tensors.
#[derive(Debug, Clone)]
struct State<B: Backend> {
    call: GruCall<B>,
    saved: GruSaved<B>,
}

impl<B: GruBackend> Backward<B, GRADIENTS> for GruBackward {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, GRADIENTS>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let d_states = grads.consume::<B>(&ops.node);
        let parents = PerInput::from_array(ops.parents);
        let wanted = parents.as_ref().map(Option::is_some);
        let State { call, saved } = ops.state;
        let GruGradients(gradients) = B::gru_gradients(call, saved, d_states, wanted);
        for (node, gradient) in parents.zip(gradients).into_array() {
            if let (Some(node), Some(gradient)) = (node, gradient) {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: GruBackend, C: CheckpointStrategy> GruBackend for Autodiff<B, C> {
    fn gru_forward(call: GruCall<Self>, keep_gates: bool) -> GruSaved<Self> {
        let nodes = parents(&call);
        let mut call = inner(call);
        // The user of a device with gradient checkpointing prefers less memory to speed.
        if TypeId::of::<C>() == TypeId::of::<BalancedCheckpointing>() {
            call.checkpointing = Checkpointing::Recompute;
        }
        match GruBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::UnTracked(prep) => {
                let GruSaved { states, gates } = B::gru_forward(call, keep_gates);
                GruSaved {
                    states: prep.finish(states),
                    gates: gates.map(constant::<B, C>),
                }
            }
            OpsKind::Tracked(prep) => {
                let for_backward = call.checkpointing == Checkpointing::KeepGates;
                let GruSaved { states, gates } =
                    B::gru_forward(call.clone(), keep_gates || for_backward);
                let saved = GruSaved {
                    states: states.clone(),
                    gates: gates.clone().filter(|_| for_backward),
                };
                GruSaved {
                    states: prep.finish(State { call, saved }, states),
                    gates: gates.filter(|_| keep_gates).map(constant::<B, C>),
                }
            }
        }
    }

    fn gru_gradients(
        call: GruCall<Self>,
        saved: GruSaved<Self>,
        d_states: FloatTensor<Self>,
        wanted: PerInput<bool>,
    ) -> GruGradients<Self> {
        let saved = saved.map(|tensor| tensor.into_primitive());
        B::gru_gradients(inner(call), saved, d_states.into_primitive(), wanted)
            .map(constant::<B, C>)
    }
}

/// A tensor without a graph.
fn constant<B: Backend, C: CheckpointStrategy>(tensor: FloatTensor<B>) -> Tensor<B, C> {
    Autodiff::<B, C>::from_inner(tensor)
}

/// The nodes of the inputs that have a gradient. An absent input is a constant, another handle of `x`.
fn parents<B: Backend, C: CheckpointStrategy>(
    call: &GruCall<Autodiff<B, C>>,
) -> [NodeGuard; GRADIENTS] {
    let node = |tensor: Option<&Tensor<B, C>>| match tensor {
        Some(tensor) => tensor.node(),
        None => constant::<B, C>(call.inputs.sequence.x.primitive().clone()).node(),
    };
    call.inputs.differentiable().map(node).into_array()
}

fn inner<B: Backend, C: CheckpointStrategy>(call: GruCall<Autodiff<B, C>>) -> GruCall<B> {
    call.map(|tensor| tensor.into_primitive())
}
