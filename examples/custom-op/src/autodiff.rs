//! The backward pass: one autodiff node.

use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::{Backend, tensor::FloatTensor};

use crate::backend::RecurrenceBackend;

#[derive(Debug)]
struct RecurrenceBackward;

/// What the backward pass reads. The tensors are shared with the graph, not copied.
#[derive(Debug, Clone)]
struct Saved<B: Backend> {
    a: FloatTensor<B>,
    h0: FloatTensor<B>,
    states: FloatTensor<B>,
}

impl<B: RecurrenceBackend> Backward<B, 3> for RecurrenceBackward {
    type State = Saved<B>;

    fn backward(self, ops: Ops<Saved<B>, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d = grads.consume::<B>(&ops.node);
        let Saved { a, h0, states } = ops.state;
        let (dx, da, dh0) = B::recurrence_gradients(a, h0, states, d);
        for (parent, gradient) in ops.parents.into_iter().zip([dx, da, dh0]) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

impl<B: RecurrenceBackend, C: CheckpointStrategy> RecurrenceBackend for Autodiff<B, C> {
    fn recurrence(
        x: FloatTensor<Self>,
        a: FloatTensor<Self>,
        h0: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let parents = [x.node(), a.node(), h0.node()];
        let (a, h0) = (a.into_primitive(), h0.into_primitive());
        let states = B::recurrence(x.into_primitive(), a.clone(), h0.clone());
        let prep = RecurrenceBackward.prepare::<C>(parents);
        match prep.compute_bound().stateful() {
            OpsKind::UnTracked(prep) => prep.finish(states),
            OpsKind::Tracked(prep) => {
                let output = states.clone();
                prep.finish(Saved { a, h0, states }, output)
            }
        }
    }
}
