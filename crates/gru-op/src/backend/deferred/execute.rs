//! From the description of a call to its results.

use super::{
    GRADIENTS, STATES, STATES_AND_GATES, Slots, TENSORS, arguments::Arguments, expect_dtype,
    expect_shape, results, split,
};
use crate::backend::{GruBackend, GruCall, GruGradients, GruSaved};
use burn::backend::{
    TensorMetadata,
    ir::{BackendIr, CustomOpIr, HandleContainer, TensorIr},
    tensor::FloatTensor,
};
use gru_spec::Checkpointing;

/// Runs the call that `op` describes on the tensors of `handles`, and registers the results there.
///
/// # Errors
/// If the description is not a valid call, or does not match the tensors. Then nothing was run.
pub(crate) fn execute<B: BackendIr + GruBackend>(
    handles: &mut HandleContainer<B::Handle>,
    op: &CustomOpIr,
) -> Result<(), String> {
    let arguments = Arguments::decode(&op.scalars)?;
    let described = slots(&op.inputs, arguments.present)?;
    let shapes = results(&op.id, &described, &arguments)?;
    if op.outputs.len() != shapes.len() {
        let (expected, actual) = (shapes.len(), op.outputs.len());
        return Err(format!("expected {expected} results, got {actual}"));
    }
    for (output, shape) in op.outputs.iter().zip(shapes) {
        expect_shape("result", output, &shape)?;
    }
    let mut tensors = [const { None }; TENSORS.len()];
    let mut of_x = None;
    for ((tensor, described), name) in tensors.iter_mut().zip(described).zip(TENSORS) {
        let Some(described) = described else { continue };
        let actual = handles.get_float_tensor::<B>(described);
        let shape = actual.shape();
        if shape != described.shape {
            let declared = &described.shape;
            return Err(format!(
                "{name}: declared shape {declared:?}, actual shape {shape:?}"
            ));
        }
        // The dtype may differ from the description: a backend may store another one than requested.
        expect_dtype(name, actual.dtype(), *of_x.get_or_insert(actual.dtype()))?;
        *tensor = Some(actual);
    }
    let results = run::<B>(&op.id, tensors, &arguments);
    for (output, result) in op.outputs.iter().zip(results) {
        handles.register_float_tensor::<B>(&output.id, result);
    }
    Ok(())
}

/// The results of a valid call.
fn run<B: GruBackend>(
    id: &str,
    tensors: Slots<FloatTensor<B>>,
    arguments: &Arguments,
) -> Vec<FloatTensor<B>> {
    const CHECKED: &str = "the tensors of the call were checked";
    let (inputs, [states, gates, d_states]) = split(tensors);
    let call = GruCall {
        inputs: inputs.expect(CHECKED),
        spec: arguments.spec,
        order: arguments.order,
        // Only autodiff reads this, and it is above.
        checkpointing: Checkpointing::default(),
        lengths: arguments.lengths.clone(),
        memory: None,
    };
    match id {
        STATES | STATES_AND_GATES => {
            let GruSaved { states, gates } = B::gru_forward(call, id == STATES_AND_GATES);
            [Some(states), gates].into_iter().flatten().collect()
        }
        _ => {
            debug_assert_eq!(id, GRADIENTS);
            let states = states.expect(CHECKED);
            let saved = GruSaved { states, gates };
            let d_states = d_states.expect(CHECKED);
            let GruGradients(gradients) = B::gru_gradients(call, saved, d_states, arguments.wanted);
            gradients.into_array().into_iter().flatten().collect()
        }
    }
}

/// The tensors of a description, each in its slot.
fn slots(tensors: &[TensorIr], present: u64) -> Result<Slots<&TensorIr>, String> {
    let expected = present.count_ones() as usize;
    if present >> TENSORS.len() != 0 || tensors.len() != expected {
        let actual = tensors.len();
        return Err(format!(
            "expected the {expected} tensors of bits {present:#b}, got {actual}"
        ));
    }
    let mut tensors = tensors.iter();
    Ok(std::array::from_fn(|k| match present >> k & 1 {
        0 => None,
        _ => tensors.next(),
    }))
}
