//! All checks of a call.

use super::{CallError, Gru, Inputs, Weights};
use crate::spec::{Lengths, NAMES, PerInput, Shape, Sizes};

/// The number of elements of x per row and step: I, or 3H without an input weight.
pub(crate) fn features<E>(weights: &Weights<'_, E>, sizes: &Sizes) -> usize {
    match weights.w_ih {
        Some(_) => sizes.i,
        None => 3 * sizes.h,
    }
}

/// # Panics
/// If the sizes overflow, or a slice does not have the length that they require.
pub(crate) fn check_forward<E>(
    gru: &Gru,
    lengths: &Lengths,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: Option<&[E]>,
) {
    const OP: &str = "gru_cpu::Gru::forward";
    gru.spec.check();
    or_panic(OP, check_inputs(gru, lengths, inputs));
    let places = lengths.in_memory(gru.sizes).places();
    check_len(OP, "states", states, places * gru.sizes.h);
    check_saved(OP, gru, places, saved);
}

/// # Panics
/// If the sizes overflow, a slice does not have the length that they require, or the gradient of `w_ih` is
/// requested without `w_ih`.
pub(crate) fn check_backward<E>(
    gru: &Gru,
    lengths: &Lengths,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: Option<&[E]>,
    d_states: &[E],
    to: PerInput<Option<usize>>,
) {
    const OP: &str = "gru_cpu::Gru::backward";
    gru.spec.check();
    or_panic(OP, check_inputs(gru, lengths, inputs));
    check_gradients(OP, gru, inputs, to);
    let places = lengths.in_memory(gru.sizes).places();
    check_len(OP, "states", states, places * gru.sizes.h);
    check_len(OP, "d_states", d_states, places * gru.sizes.h);
    check_saved(OP, gru, places, saved);
}

/// After this check the length of a buffer in bytes does not overflow. The number of multiplications may:
/// [`Plan`](crate::threads::Plan) saturates it.
pub(crate) fn check_sizes(sizes: &Sizes) -> Result<(), CallError> {
    if sizes.fit_in_memory() {
        Ok(())
    } else {
        Err(CallError::TooLarge { sizes: *sizes })
    }
}

/// Checks the length of every weight and bias. The sizes are checked already.
pub(crate) fn check_weights<E>(weights: &Weights<'_, E>, sizes: &Sizes) -> Result<(), CallError> {
    let shapes = sizes.shapes(Default::default()).weights;
    try_len("w_ih", weights.w_ih, shapes.w_ih)?;
    try_len("w_hh", Some(weights.w_hh), Some(shapes.w_hh))?;
    try_len("b_ih", weights.b_ih, shapes.b_ih)?;
    try_len("b_hh", weights.b_hh, shapes.b_hh)
}

fn check_inputs<E>(gru: &Gru, lengths: &Lengths, inputs: &Inputs<'_, E>) -> Result<(), CallError> {
    let sizes = gru.sizes;
    check_sizes(&sizes)?;
    lengths.try_check(&sizes).map_err(CallError::Lengths)?;
    let mut shapes = lengths.shapes(sizes, Default::default());
    let places = lengths.in_memory(sizes).places();
    shapes.sequence.x = Shape::from([places, features(&inputs.weights, &sizes)]);
    let slices = inputs.as_ref().into_slots().into_iter();
    for ((name, slice), shape) in NAMES.into_iter().zip(slices).zip(shapes.into_slots()) {
        try_len(name, slice.copied(), shape)?;
    }
    if inputs.sequence.start_state.is_some() && inputs.sequence.starts.is_none() {
        return Err(CallError::NoStarts);
    }
    Ok(())
}

/// The number of elements of each gradient.
pub(crate) fn gradient_lens<E>(gru: &Gru, inputs: &Inputs<'_, E>) -> PerInput<Option<usize>> {
    let shapes = gru.sizes.shapes(gru.order.layout);
    let lens = shapes
        .differentiable()
        .map(|shape| shape.map(Shape::elements));
    PerInput {
        x: Some(inputs.sequence.x.len()),
        ..lens
    }
}

fn check_gradients<E>(op: &str, gru: &Gru, inputs: &Inputs<'_, E>, to: PerInput<Option<usize>>) {
    for (name, (gradient, expected)) in to.zip(gradient_lens(gru, inputs)).named() {
        if let (Some(gradient), Some(expected)) = (gradient, expected)
            && let Err(error) = length(name, gradient, expected)
        {
            panic!("{op}: gradient of {error}");
        }
    }
    assert!(
        inputs.weights.w_ih.is_some() || to.w_ih.is_none(),
        "{op}: a gradient of w_ih is requested, but the input is already projected"
    );
}

fn check_saved<E>(op: &str, gru: &Gru, places: usize, saved: Option<&[E]>) {
    if let Some(saved) = saved {
        check_len(op, "saved", saved, places * gru.saved_width());
    }
}

/// # Panics
/// If the slice has another number of elements.
pub(crate) fn check_len<E>(op: &str, tensor: &'static str, slice: &[E], expected: usize) {
    or_panic(op, length(tensor, slice.len(), expected));
}

fn try_len<E>(
    tensor: &'static str,
    slice: Option<&[E]>,
    shape: Option<Shape>,
) -> Result<(), CallError> {
    match (slice, shape) {
        (Some(slice), Some(shape)) => length(tensor, slice.len(), shape.elements()),
        _ => Ok(()),
    }
}

pub(crate) fn length(
    tensor: &'static str,
    actual: usize,
    expected: usize,
) -> Result<(), CallError> {
    if actual == expected {
        Ok(())
    } else {
        Err(CallError::Length {
            tensor,
            expected,
            actual,
        })
    }
}

/// # Panics
/// With the operation's name, if the check failed.
pub(crate) fn or_panic(op: &str, checked: Result<(), CallError>) {
    if let Err(error) = checked {
        panic!("{op}: {error}");
    }
}
