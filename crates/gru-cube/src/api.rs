//! The two passes as others call them: by a plan, or by the fastest of several.

use crate::{
    autotune,
    launch::{self, BackwardInputs, BackwardOutputs, Call, ForwardInputs, ForwardOutputs},
    plan::{cut::Strategy, error::PlanError},
};
use cubecl::client::Client;

/// The state after every step, and the gates on request; of all steps or, so that `p` takes less
/// memory, of some, call by call.
///
/// One launch if the cut is a walk or persistent, one for each product if it is steps. Nothing waits
/// for the device, but for whether the cubes of a persistent cut met.
///
/// # Errors
/// If the device does not allow the cut, or cubes waited for each other in vain.
///
/// # Panics
/// If a buffer is too short, the type is not a float of 16 or 32 bits, or there are no such steps.
pub fn forward(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
    strategy: Strategy,
) -> Result<(), PlanError> {
    if strategy != Strategy::Tuned {
        return launch::forward::forward(client, call, inputs, outputs, strategy);
    }
    if !launch::forward::is_empty(call, inputs) {
        launch::forward::allowed(client, call, inputs, outputs, Strategy::Inferred)?;
        autotune::forward(client, call, inputs, outputs);
    }
    Ok(())
}

/// The gradients of `Σ states ⊙ d_states` with respect to `p` and the initial state, and what
/// the weight gradients are made of.
///
/// A walk with the weight in registers is one launch, any other walk is two, the persistent cut is
/// three, and steps are two more than the products of all steps: beside the recurrence the weight is
/// transposed, and at the end comes the gradient of the initial state. Nothing waits for the device, but
/// for whether the cubes of a persistent cut met.
///
/// # Errors
/// If the device does not allow the cut, or cubes waited for each other in vain.
///
/// # Panics
/// If there are no steps, a buffer is too short or the type is not a float of 16 or 32 bits.
pub fn backward(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
    strategy: Strategy,
) -> Result<(), PlanError> {
    if strategy != Strategy::Tuned {
        return launch::backward::backward(client, call, inputs, outputs, strategy);
    }
    if !launch::backward::is_empty(call) {
        launch::backward::allowed(client, call, inputs, outputs, Strategy::Inferred)?;
        autotune::backward(client, call, inputs, outputs);
    }
    Ok(())
}
