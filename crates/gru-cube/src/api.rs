//! The two passes, by a plan or by the fastest of several.

use crate::{
    autotune::{self, Buffers},
    launch::{self, BackwardInputs, BackwardOutputs, Call, ForwardInputs, ForwardOutputs},
    plan::{error::PlanError, schedule::Strategy},
    self_test,
};
use cubecl::client::Client;

/// Computes the state after every step, and the gates if an output for them is given. The call may compute
/// some steps only, so that a caller can compute `p` in chunks of time.
///
/// Sequence kernels and persistent kernels are one launch, or a few if the sequence is long or rows have different
/// lengths. Step kernels are one launch for each product. The function does not wait for the device, except for a
/// self-test, and for a persistent kernel in another stream. If a grid barrier times out, the states are NaN.
///
/// # Errors
/// If the device does not allow the schedule or a tensor, or a self-test fails.
///
/// # Panics
/// - If a buffer is too short, or the type is not a float of 16 or 32 bits.
/// - If starts or lengths lack a tensor, or lengths do not fit the call.
/// - If the steps do not exist.
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
        let plan = launch::forward::allowed(client, call, inputs, outputs, Strategy::Inferred)?;
        self_test::forward(client, call, inputs, outputs, plan)?;
        let buffers = Buffers::Forward(inputs.clone(), outputs.clone());
        autotune::run(client, call, buffers);
    }
    Ok(())
}

/// Computes the gradients of `Σ states ⊙ d_states` with respect to `p` and the initial state, and the rhs
/// operands of the weight gradients.
///
/// A sequence kernel is one launch with a resident weight, otherwise two. A persistent kernel is three launches. Both have
/// a few more if the sequence is long or rows have different lengths. Step kernels need one launch for each product and
/// two more. The additional launches transpose the weight and compute the gradient of the initial state. The function
/// waits as [`forward`] does, and a time-out makes the gradients NaN.
///
/// # Errors
/// If the device does not allow the schedule or a tensor, or a self-test fails.
///
/// # Panics
/// - If a buffer is too short, or the type is not a float of 16 or 32 bits.
/// - If starts or lengths lack a tensor, or lengths do not fit the call.
/// - If there are no steps.
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
        let plan = launch::backward::allowed(client, call, inputs, outputs, Strategy::Inferred)?;
        self_test::backward(client, call, inputs, outputs, plan)?;
        let buffers = Buffers::Backward(inputs.clone(), outputs.clone());
        autotune::run(client, call, buffers);
    }
    Ok(())
}
