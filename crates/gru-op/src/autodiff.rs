//! The hand-written backward: one node for a whole sequence.

use crate::{
    GruBackend, GruForward, GruGradients, GruInputs, OptionalTensor, Wanted,
    spec::{GruSpec, Memory},
};
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
use std::any::TypeId;

/// A float tensor under autodiff.
type Tensor<B, C> = FloatTensor<Autodiff<B, C>>;

#[derive(Debug)]
struct GruBackward;

/// What backward reads. The tensors are shared with the graph, not copied.
#[derive(Debug, Clone)]
struct State<B: Backend> {
    inputs: GruInputs<B>,
    states: FloatTensor<B>,
    gates: OptionalTensor<B>,
    spec: GruSpec,
}

impl<B: GruBackend> Backward<B, 6> for GruBackward {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 6>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let d_states = grads.consume::<B>(&ops.node);
        let [x, h0, w_ih, w_hh, b_ih, b_hh] = ops.parents;
        let wanted = Wanted {
            x: x.is_some(),
            h0: h0.is_some(),
            w_ih: w_ih.is_some(),
            w_hh: w_hh.is_some(),
            b_ih: b_ih.is_some(),
            b_hh: b_hh.is_some(),
        };
        let State {
            inputs,
            states,
            gates,
            spec,
        } = ops.state;
        let d = B::gru_gradients(inputs, states, gates, d_states, spec, wanted);
        let pairs = [
            (x, d.x),
            (h0, d.h0),
            (w_ih, d.w_ih),
            (w_hh, d.w_hh),
            (b_ih, d.b_ih),
            (b_hh, d.b_hh),
        ];
        for (node, gradient) in pairs {
            if let (Some(node), Some(gradient)) = (node, gradient.into_option()) {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: GruBackend, C: CheckpointStrategy> GruBackend for Autodiff<B, C> {
    fn gru_states(inputs: GruInputs<Self>, spec: GruSpec) -> FloatTensor<Self> {
        let nodes = parents(&inputs);
        let inputs = inner(inputs);
        // A device with gradient checkpointing asks for memory rather than speed.
        let lean = spec.memory == Memory::Lean
            || TypeId::of::<C>() == TypeId::of::<BalancedCheckpointing>();
        match GruBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::UnTracked(prep) => {
                let spec = spec.with_memory(Memory::Speed);
                prep.finish(B::gru_states(inputs, spec))
            }
            OpsKind::Tracked(prep) => {
                let (states, gates) = if lean {
                    let spec = spec.with_memory(Memory::Lean);
                    (B::gru_states(inputs.clone(), spec), OptionalTensor::Absent)
                } else {
                    let GruForward { states, gates } =
                        B::gru_states_and_gates(inputs.clone(), spec);
                    (states, OptionalTensor::Given(gates))
                };
                let state = State {
                    inputs,
                    states: states.clone(),
                    gates,
                    spec,
                };
                prep.finish(state, states)
            }
        }
    }

    fn gru_states_and_gates(inputs: GruInputs<Self>, spec: GruSpec) -> GruForward<Self> {
        let GruForward { states, gates } = B::gru_states_and_gates(inner(inputs), spec);
        GruForward {
            states: constant::<B, C>(states),
            gates: constant::<B, C>(gates),
        }
    }

    fn gru_gradients(
        inputs: GruInputs<Self>,
        states: FloatTensor<Self>,
        gates: OptionalTensor<Self>,
        d_states: FloatTensor<Self>,
        spec: GruSpec,
        wanted: Wanted,
    ) -> GruGradients<Self> {
        let d = B::gru_gradients(
            inner(inputs),
            states.into_primitive(),
            inner_option(gates),
            d_states.into_primitive(),
            spec,
            wanted,
        );
        let constant = |gradient: OptionalTensor<B>| {
            OptionalTensor::from(gradient.into_option().map(constant::<B, C>))
        };
        GruGradients {
            x: constant(d.x),
            h0: constant(d.h0),
            w_ih: constant(d.w_ih),
            w_hh: constant(d.w_hh),
            b_ih: constant(d.b_ih),
            b_hh: constant(d.b_hh),
        }
    }
}

/// A tensor outside of any graph.
fn constant<B: Backend, C: CheckpointStrategy>(tensor: FloatTensor<B>) -> Tensor<B, C> {
    Autodiff::<B, C>::from_inner(tensor)
}

/// The nodes of x, h0, w_ih, w_hh, b_ih and b_hh. An absent input is a constant; which one does
/// not matter, so it is a second handle on `x`.
fn parents<B: Backend, C: CheckpointStrategy>(
    inputs: &GruInputs<Autodiff<B, C>>,
) -> [NodeGuard; 6] {
    let node = |tensor: &OptionalTensor<Autodiff<B, C>>| match tensor.get() {
        Some(tensor) => tensor.node(),
        None => constant::<B, C>(inputs.x.primitive().clone()).node(),
    };
    [
        inputs.x.node(),
        node(&inputs.h0),
        node(&inputs.w_ih),
        inputs.w_hh.node(),
        node(&inputs.b_ih),
        node(&inputs.b_hh),
    ]
}

fn inner<B: Backend, C: CheckpointStrategy>(inputs: GruInputs<Autodiff<B, C>>) -> GruInputs<B> {
    GruInputs {
        x: inputs.x.into_primitive(),
        h0: inner_option(inputs.h0),
        w_ih: inner_option(inputs.w_ih),
        w_hh: inputs.w_hh.into_primitive(),
        b_ih: inner_option(inputs.b_ih),
        b_hh: inner_option(inputs.b_hh),
        mask: inner_option(inputs.mask),
        valid: inner_option(inputs.valid),
        take: inner_option(inputs.take),
    }
}

fn inner_option<B: Backend, C: CheckpointStrategy>(
    tensor: OptionalTensor<Autodiff<B, C>>,
) -> OptionalTensor<B> {
    let tensor = tensor.into_option();
    OptionalTensor::from(tensor.map(|tensor| tensor.into_primitive()))
}
