//! The operator in Burn's intermediate representation, for backends that hand operations on
//! instead of running them: fusion queues them, a remote device sends them, a capture records them.
//!
//! One description serves all of them, since what is queued may be sent as it stands: the tensors
//! that are there, in the order of [`TENSORS`], and a row of scalars that says which and what for.
//! Whoever runs a description may have got it from a network: [`execute`] believes none of it.

mod defer;
mod encode;
#[cfg(feature = "fusion")]
mod fusion;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "router")]
mod router;

pub(crate) use self::encode::ENCODING;

use self::encode::Arguments;
use crate::backend::{GruBackend, GruCall, GruGradients, GruSaved, LayerMemory};
use burn::{
    backend::{
        TensorMetadata,
        ir::{BackendIr, CustomOpIr, HandleContainer, TensorIr},
        tensor::FloatTensor,
    },
    tensor::{DType, Shape},
};
use gru_spec::{Inputs, MissingInput, Sizes};

/// [`GruBackend::gru_states`].
pub(crate) const STATES: &str = "gru_op::states";
/// [`GruBackend::gru_states_and_gates`].
pub(crate) const STATES_AND_GATES: &str = "gru_op::states_and_gates";
/// [`GruBackend::gru_gradients`].
pub(crate) const GRADIENTS: &str = "gru_op::gradients";

/// The tensors of a call, all of which but x and w_hh may be absent. The last three are those of
/// [`GRADIENTS`].
const TENSORS: [&str; 12] = {
    let [
        x,
        h0,
        w_ih,
        w_hh,
        b_ih,
        b_hh,
        recurrent_mask,
        step_mask,
        zoneout,
    ] = gru_spec::NAMES;
    [
        x,
        h0,
        w_ih,
        w_hh,
        b_ih,
        b_hh,
        recurrent_mask,
        step_mask,
        zoneout,
        "states",
        "gates",
        "d_states",
    ]
};

/// Why a description is not one of ours.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error(
        "the call is written in encoding {0} of gru-op, this is encoding {ENCODING}: use the same \
         release of gru-op on both sides"
    )]
    Version(u64),

    #[error("the scalars are not those of a call")]
    Scalars,

    #[error("there is no activation {0}")]
    Activation(u64),

    #[error("{0}")]
    Spec(String),

    #[error("there is no operation {0}")]
    Operation(String),

    #[error("{expected} tensors must come, got {actual}")]
    Count { expected: usize, actual: usize },

    #[error("{name} must be there, as {because} is")]
    Absent {
        name: &'static str,
        because: &'static str,
    },

    #[error("{name} must be {expected:?}, got {actual:?}")]
    Shape {
        name: &'static str,
        expected: Vec<usize>,
        actual: Vec<usize>,
    },

    #[error("{name} must have {expected} dimensions, got {actual:?}")]
    Rank {
        name: &'static str,
        expected: usize,
        actual: Vec<usize>,
    },

    #[error("{name} must be {expected:?} like x, got {actual:?}")]
    Type {
        name: &'static str,
        expected: DType,
        actual: DType,
    },

    #[error("x must be of a floating-point type, got {0:?}")]
    NotFloat(DType),

    #[error("{name} is described as {described:?}, and is {actual:?}")]
    Lie {
        name: &'static str,
        described: Shape,
        actual: Shape,
    },

    #[error("the sizes do not fit into memory")]
    TooLarge,
}

/// Runs what `op` describes on the tensors of `handles`, and puts the results there.
///
/// # Errors
/// If the description is not that of a call, or is not true of the tensors. Then nothing was run.
pub(crate) fn execute<B: BackendIr + GruBackend>(
    handles: &mut HandleContainer<B::Handle>,
    op: &CustomOpIr,
) -> Result<(), Malformed> {
    let arguments = Arguments::decode(&op.scalars)?;
    let described = slots(&op.inputs, arguments.present)?;
    let shapes = results(&op.id, &described, &arguments)?;
    if op.outputs.len() != shapes.len() {
        return Err(Malformed::Count {
            expected: shapes.len(),
            actual: op.outputs.len(),
        });
    }
    for (output, shape) in op.outputs.iter().zip(shapes) {
        expect("a result", output, shape)?;
    }
    let mut tensors = [const { None }; TENSORS.len()];
    let mut of_x = None;
    for ((tensor, described), name) in tensors.iter_mut().zip(described).zip(TENSORS) {
        if let Some(described) = described {
            let actual = handles.get_float_tensor::<B>(described);
            if actual.shape() != described.shape {
                return Err(Malformed::Lie {
                    name,
                    described: described.shape.clone(),
                    actual: actual.shape(),
                });
            }
            // A backend may keep a type that it was asked for as another one.
            expect_type(name, actual.dtype(), *of_x.get_or_insert(actual.dtype()))?;
            *tensor = Some(actual);
        }
    }
    let results = run::<B>(&op.id, tensors, &arguments);
    for (output, result) in op.outputs.iter().zip(results) {
        handles.register_float_tensor::<B>(&output.id, result);
    }
    Ok(())
}

/// The results of a call that [`results`] took.
fn run<B: GruBackend>(
    id: &str,
    tensors: [Option<FloatTensor<B>>; TENSORS.len()],
    arguments: &Arguments,
) -> Vec<FloatTensor<B>> {
    const THERE: &str = "the tensors of the call were checked";
    let (inputs, [states, gates, d_states]) = split(tensors);
    let call = GruCall {
        inputs: inputs.expect(THERE),
        spec: arguments.spec,
        order: arguments.order,
        checkpointing: arguments.checkpointing,
        memory: LayerMemory::default(),
    };
    match id {
        STATES => vec![B::gru_states(call)],
        STATES_AND_GATES => {
            let GruSaved { states, gates } = B::gru_states_and_gates(call);
            vec![states, gates.expect("the operation returns gates")]
        }
        _ => {
            let states = states.expect(THERE);
            let saved = GruSaved { states, gates };
            let d_states = d_states.expect(THERE);
            let GruGradients(gradients) = B::gru_gradients(call, saved, d_states, arguments.wanted);
            gradients.into_array().into_iter().flatten().collect()
        }
    }
}

/// The inputs, and the other tensors: states, gates and d_states.
fn split<T>(
    tensors: [Option<T>; TENSORS.len()],
) -> (Result<Inputs<T>, MissingInput>, [Option<T>; 3]) {
    let mut tensors = tensors.into_iter();
    let mut next = || tensors.next().flatten();
    let inputs = Inputs::from_slots(std::array::from_fn(|_| next()));
    (inputs, std::array::from_fn(|_| next()))
}

/// The tensors that came, each in its place.
fn slots(
    tensors: &[TensorIr],
    present: u64,
) -> Result<[Option<&TensorIr>; TENSORS.len()], Malformed> {
    let expected = present.count_ones() as usize;
    if present >> TENSORS.len() != 0 {
        return Err(Malformed::Scalars);
    }
    if tensors.len() != expected {
        return Err(Malformed::Count {
            expected,
            actual: tensors.len(),
        });
    }
    let mut tensors = tensors.iter();
    Ok(std::array::from_fn(|k| match present >> k & 1 {
        0 => None,
        _ => tensors.next(),
    }))
}

/// The shapes of a call's results.
///
/// # Errors
/// If the tensors do not fit to each other and to the operation.
fn results(
    id: &str,
    tensors: &[Option<&TensorIr>; TENSORS.len()],
    arguments: &Arguments,
) -> Result<Vec<Vec<usize>>, Malformed> {
    let Arguments {
        spec,
        order,
        wanted,
        ..
    } = arguments;
    let (inputs, [states, gates, d_states]) = split(*tensors);
    let inputs = inputs.map_err(|MissingInput(name)| Malformed::Absent {
        name,
        because: "the call",
    })?;
    let x = inputs.sequence.x;
    let [first, second, features] = dims("x", x)?;
    let [n, t] = order.layout.split([first, second]);
    let [h, _] = dims("w_hh", inputs.weights.w_hh)?;
    let saved = spec.saved_per_unit();
    let (gate_units, saved_units) = h
        .checked_mul(3)
        .zip(h.checked_mul(saved))
        .ok_or(Malformed::TooLarge)?;
    let largest = features.max(saved_units);
    [first, second, largest]
        .iter()
        .try_fold(8, |bytes: usize, &size| bytes.checked_mul(size))
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or(Malformed::TooLarge)?;

    for (tensor, name) in tensors.iter().zip(TENSORS) {
        if let Some(tensor) = tensor {
            expect_type(name, tensor.dtype, x.dtype)?;
        }
    }
    let i = features;
    let shapes = Sizes { n, t, i, h }.shapes(order.layout);
    for ((name, input), shape) in inputs.named().zip(shapes_of(&inputs, shapes)) {
        let one_for_all_units = name == "zoneout" && input.shape.last() == Some(&1);
        let shape = if one_for_all_units {
            vec![first, second, 1]
        } else {
            shape.to_vec()
        };
        expect(name, input, shape)?;
    }
    let sequence = |features| vec![first, second, features];
    if inputs.weights.w_ih.is_none() {
        expect("x without w_ih", x, sequence(gate_units))?;
    }
    match id {
        STATES => Ok(vec![sequence(h)]),
        STATES_AND_GATES => Ok(vec![sequence(h), sequence(saved_units)]),
        GRADIENTS => {
            let always = |name, tensor: Option<_>| {
                tensor.ok_or(Malformed::Absent {
                    name,
                    because: "the call",
                })
            };
            expect("states", always("states", states)?, sequence(h))?;
            expect("d_states", always("d_states", d_states)?, sequence(h))?;
            if let Some(gates) = gates {
                expect("gates", gates, sequence(saved_units))?;
            }
            if wanted.w_ih && inputs.weights.w_ih.is_none() {
                return Err(Malformed::Absent {
                    name: "w_ih",
                    because: "the wish for its gradient",
                });
            }
            let gradients = wanted.zip(shapes.differentiable()).into_array();
            let wanted = gradients.into_iter().filter(|(wanted, _)| *wanted);
            Ok(wanted
                .filter_map(|(_, shape)| Some(shape?.to_vec()))
                .collect())
        }
        other => Err(Malformed::Operation(other.into())),
    }
}

/// The shapes of the inputs that are present.
fn shapes_of<T>(inputs: &Inputs<T>, shapes: Inputs<gru_spec::Shape>) -> Vec<gru_spec::Shape> {
    let present = inputs.as_ref().into_slots().into_iter();
    let pairs = present.zip(shapes.into_slots());
    pairs
        .filter_map(|(input, shape)| input.and(shape))
        .collect()
}

fn expect_type(name: &'static str, actual: DType, of_x: DType) -> Result<(), Malformed> {
    match actual {
        _ if !of_x.is_float() => Err(Malformed::NotFloat(of_x)),
        _ if actual == of_x => Ok(()),
        _ => Err(Malformed::Type {
            name,
            expected: of_x,
            actual,
        }),
    }
}

fn dims<const D: usize>(name: &'static str, tensor: &TensorIr) -> Result<[usize; D], Malformed> {
    let actual = tensor.shape.to_vec();
    actual.try_into().map_err(|actual| Malformed::Rank {
        name,
        expected: D,
        actual,
    })
}

fn expect(name: &'static str, tensor: &TensorIr, expected: Vec<usize>) -> Result<(), Malformed> {
    let actual = tensor.shape.to_vec();
    if actual == expected {
        Ok(())
    } else {
        Err(Malformed::Shape {
            name,
            expected,
            actual,
        })
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests;
