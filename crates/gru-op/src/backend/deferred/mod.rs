//! The operator in Burn's intermediate representation, for backends that defer operations: fusion queues them,
//! a remote device sends them, a capture records them.
//!
//! All of them use the same description of a call: the tensors that are present, in the order of [`TENSORS`],
//! and a row of scalars. Descriptions may come from the network, so [`execute`] validates them completely.

mod arguments;
mod defer;
#[cfg(any(feature = "fusion", feature = "remote", test))]
mod execute;
#[cfg(feature = "fusion")]
mod fusion;
#[cfg(feature = "capture")]
mod recorded;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "router")]
mod router;

#[cfg(feature = "capture")]
pub use self::recorded::RecordedCall;

use self::arguments::Arguments;
use crate::backend::is_addressable;
use burn::{backend::ir::TensorIr, tensor::DType};
use gru_spec::{Inputs, MissingInput, NAMES, Sizes};

/// [`GruBackend::gru_forward`](crate::backend::GruBackend::gru_forward) without gates.
const STATES: &str = "gru_op::states";
/// The same with gates.
const STATES_AND_GATES: &str = "gru_op::states_and_gates";
/// [`GruBackend::gru_gradients`](crate::backend::GruBackend::gru_gradients).
const GRADIENTS: &str = "gru_op::gradients";

/// The tensors of a call: its inputs, and three more for [`GRADIENTS`].
const TENSORS: [&str; NAMES.len() + 3] = {
    let mut all = [""; NAMES.len() + 3];
    let (inputs, others) = all.split_at_mut(NAMES.len());
    inputs.copy_from_slice(&NAMES);
    others.copy_from_slice(&["states", "gates", "d_states"]);
    all
};

/// A value for each of [`TENSORS`], if the tensor is present.
type Slots<T> = [Option<T>; TENSORS.len()];

/// The inputs, and the other tensors: states, gates and d_states.
fn split<T>(tensors: Slots<T>) -> (Result<Inputs<T>, MissingInput>, [Option<T>; 3]) {
    let mut tensors = tensors.into_iter();
    let mut next = || tensors.next().flatten();
    let inputs = Inputs::from_slots(std::array::from_fn(|_| next()));
    (inputs, std::array::from_fn(|_| next()))
}

/// The shapes of a call's results.
///
/// # Errors
/// If there is no such operation, or the shapes or dtypes do not match.
fn results(
    id: &str,
    tensors: &Slots<&TensorIr>,
    arguments: &Arguments,
) -> Result<Vec<Vec<usize>>, String> {
    let (inputs, [states, gates, d_states]) = split(*tensors);
    let inputs = inputs.map_err(|MissingInput(name)| missing(name))?;
    let (x, w_ih, w_hh) = (inputs.sequence.x, inputs.weights.w_ih, inputs.weights.w_hh);
    let [first, second, i] = dims("x", x)?;
    let [h, _] = dims("w_hh", w_hh)?;
    let layout = arguments.order.layout;
    let lengths = &arguments.lengths;
    let [n, t] = lengths.batch(layout, [first, second]);
    let gate_units = h.checked_mul(4);
    let fits = |units: usize| {
        let widest = i.max(units);
        is_addressable(&[n, t, widest]) && is_addressable(&[first, second, widest])
    };
    if !gate_units.is_some_and(fits) {
        return Err("the sizes do not fit in memory".into());
    }
    for (name, tensor) in TENSORS.iter().zip(tensors) {
        if let Some(tensor) = tensor {
            expect_dtype(name, tensor.dtype, x.dtype)?;
        }
    }
    let sequence = |features| [first, second, features];
    let sizes = Sizes { n, t, i, h };
    lengths
        .try_check(&sizes)
        .map_err(|error| error.to_string())?;
    let shapes = lengths.shapes(sizes, layout);
    // The other three tensors have no shape here.
    for ((name, tensor), shape) in TENSORS.iter().zip(tensors).zip(shapes.into_slots()) {
        let (Some(tensor), Some(shape)) = (tensor, shape) else {
            continue;
        };
        if *name == "zoneout" && tensor.shape.last() == Some(&1) {
            expect_shape(name, tensor, &sequence(1))?;
        } else {
            expect_shape(name, tensor, &shape)?;
        }
    }
    if w_ih.is_none() {
        expect_shape("x without w_ih", x, &sequence(3 * h))?;
    }
    if inputs.sequence.start_state.is_some() && inputs.sequence.starts.is_none() {
        return Err(missing("starts"));
    }
    let saved = sequence(arguments.spec.saved_per_unit() * h);
    match id {
        STATES => Ok(vec![sequence(h).into()]),
        STATES_AND_GATES => Ok(vec![sequence(h).into(), saved.into()]),
        GRADIENTS => {
            for (name, tensor) in [("states", states), ("d_states", d_states)] {
                expect_shape(name, tensor.ok_or_else(|| missing(name))?, &sequence(h))?;
            }
            if let Some(gates) = gates {
                expect_shape("gates", gates, &saved)?;
            }
            if arguments.wanted.w_ih && w_ih.is_none() {
                return Err("w_ih: required, because its gradient was requested".into());
            }
            let gradients = arguments.wanted.zip(shapes.differentiable()).into_array();
            let wanted = gradients.into_iter().filter(|(wanted, _)| *wanted);
            Ok(wanted
                .filter_map(|(_, shape)| Some(shape?.to_vec()))
                .collect())
        }
        other => Err(format!("there is no operation {other}")),
    }
}

fn missing(name: &str) -> String {
    format!("{name}: expected a tensor, got none")
}

fn expect_dtype(name: &str, actual: DType, of_x: DType) -> Result<(), String> {
    if !of_x.is_float() {
        Err(format!("x: expected a floating-point dtype, got {of_x:?}"))
    } else if actual != of_x {
        Err(format!(
            "{name}: expected {of_x:?}, the dtype of x, got {actual:?}"
        ))
    } else {
        Ok(())
    }
}

fn dims<const D: usize>(name: &str, tensor: &TensorIr) -> Result<[usize; D], String> {
    let shape = tensor.shape.to_vec();
    let error = |shape: Vec<usize>| format!("{name}: expected {D} dimensions, got {shape:?}");
    shape.try_into().map_err(error)
}

fn expect_shape(name: &str, tensor: &TensorIr, expected: &[usize]) -> Result<(), String> {
    let actual = tensor.shape.to_vec();
    if actual == expected {
        Ok(())
    } else {
        Err(format!(
            "{name}: expected shape {expected:?}, got {actual:?}"
        ))
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests;
