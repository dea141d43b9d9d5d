//! The tensors of a pass, and the arguments of its kernels.

use super::{Recurrence, buffers::Buffers};
use crate::{
    kernel::tensors::{BackwardLaunch, ForwardLaunch},
    plan::{Kernels, tensor::Tensor, time::Launch},
};
use cubecl::prelude::*;
use gru_spec::Sizes;
use std::ops::Range;

pub(super) enum Tensors {
    Forward(Forward),
    Backward(Backward),
}

/// Defines the tensors of a pass, in the order in which the kernels bind them.
macro_rules! tensors {
    ($(#[$doc:meta])* $name:ident { $($tensor:ident),* $(,)? }) => {
        $(#[$doc])*
        pub(super) struct $name {
            $(pub(super) $tensor: Tensor,)*
        }

        impl $name {
            fn in_order(&mut self) -> Vec<&mut Tensor> {
                vec![$(&mut self.$tensor),*]
            }
        }
    };
}

tensors! {
    /// The tensors of a [forward pass](crate::kernel::tensors::Forward).
    Forward {
        p, w_hh, b_ih, b_hh, h0, recurrent_mask, step_mask, zoneout, states, gates, scratch,
    }
}

tensors! {
    /// The tensors of a [backward pass](crate::kernel::tensors::Backward).
    Backward {
        gates, d_states, states, weight, h0, recurrent_mask, step_mask, zoneout, d_gates, d_h0,
    }
}

impl Tensors {
    pub(super) fn new(
        call: &Recurrence,
        buffers: &Buffers,
        steps: &Range<usize>,
        kernels: &Kernels,
    ) -> Self {
        let (rows, Sizes { n, h, .. }) = (call.sizes.places(), call.sizes);
        let gates_len = rows * call.spec.saved_per_unit() * h;
        let weight = &call.inputs.weights.w_hh;
        let [h0, recurrent_mask, step_mask] = call.states_and_masks();
        let zoneout = call.zoneout();
        match buffers {
            Buffers::Forward { states, gates, .. } => {
                let [b_ih, b_hh] = call.biases();
                let p_len = n * steps.len() * 3 * h;
                let scratch = call.tensor("scratch", None, scratch_len(&call.sizes, kernels));
                Self::Forward(Forward {
                    p: call.tensor("x", &call.inputs.sequence.x, p_len),
                    w_hh: call.tensor("w_hh", weight, 3 * h * h),
                    b_ih,
                    b_hh,
                    h0,
                    recurrent_mask,
                    step_mask,
                    zoneout,
                    states: call.tensor("states", states, rows * h),
                    gates: call.tensor("gates", gates, gates_len),
                    scratch: Tensor {
                        bound: scratch.elements > 0,
                        size: size_of::<f32>(),
                        ..scratch
                    },
                })
            }
            Buffers::Backward {
                d_states,
                states,
                gates,
                d_gates,
                d_h0,
            } => Self::Backward(Backward {
                gates: call.tensor("gates", gates, gates_len),
                d_states: call.tensor("d_states", d_states, rows * h),
                states: call.tensor("states", states, rows * h),
                weight: call.small("w_hh", weight, 3 * h * h),
                h0,
                recurrent_mask,
                step_mask,
                zoneout,
                d_gates: call.tensor("d_gates", d_gates, gates_len),
                d_h0: Tensor {
                    size: size_of::<f32>(),
                    ..call.tensor("d_h0", d_h0, call.state_len())
                },
            }),
        }
    }

    /// In the order in which the kernels bind them.
    pub(super) fn in_order(&mut self) -> Vec<&mut Tensor> {
        match self {
            Self::Forward(tensors) => tensors.in_order(),
            Self::Backward(tensors) => tensors.in_order(),
        }
    }
}

/// Float32 values of scratch memory that forward step kernels need, 2·N·H for each of two purposes. With the reset
/// before the product: `r ⊙ g` and z, from the first phase to the second. With 16-bit states: the state before and
/// after a step. It is rounded only when it is stored.
fn scratch_len(sizes: &Sizes, kernels: &Kernels) -> usize {
    match kernels {
        Kernels::Sequence(_) => 0,
        Kernels::Steps(steps) => {
            let purposes = usize::from(!steps.rule.reset_after) + usize::from(steps.rule.narrow);
            purposes * 2 * sizes.n * sizes.h
        }
    }
}

impl Forward {
    /// The arguments of both forward kernels.
    pub(super) fn arguments<F: Float>(
        &self,
        sizes: &Sizes,
        launch: &Launch,
        steps: &Range<usize>,
    ) -> ForwardLaunch<F> {
        ForwardLaunch::new(
            self.p.arg(),
            self.w_hh.arg(),
            self.b_ih.small_arg(),
            self.b_hh.small_arg(),
            self.h0.small_arg(),
            self.recurrent_mask.small_arg(),
            self.step_mask.small_arg(),
            self.zoneout.small_arg(),
            self.states.arg(),
            self.gates.optional(),
            self.scratch.optional(),
            sizes.n,
            sizes.t,
            launch.rows,
            steps.start,
            steps.end,
        )
    }
}

impl Backward {
    /// The arguments of both backward kernels.
    pub(super) fn arguments<F: Float>(&self, sizes: &Sizes, launch: &Launch) -> BackwardLaunch<F> {
        BackwardLaunch::new(
            self.gates.arg(),
            self.d_states.arg(),
            self.states.arg(),
            self.weight.arg(),
            self.h0.small_arg(),
            self.recurrent_mask.small_arg(),
            self.step_mask.small_arg(),
            self.zoneout.small_arg(),
            // `gates` is the first buffer.
            self.d_gates.or_alias(0),
            self.d_h0.arg(),
            sizes.n,
            sizes.t,
            launch.rows,
        )
    }
}
