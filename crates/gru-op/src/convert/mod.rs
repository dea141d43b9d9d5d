//! Weights from other systems and back, each with its own names, gate order and layout.
//!
//! | system | module | weights | gates | biases |
//! |---|---|---|---|---|
//! | PyTorch `nn.GRU`, `nn.GRUCell` | [`pytorch`] | `weight_ih [3H,I]`, `weight_hh [3H,H]` | rows r, z, n | two `[3H]` |
//! | Keras `layers.GRU` | [`keras`] | `kernel [I,3H]`, `recurrent_kernel [H,3H]` | columns z, r, n | `[2,3H]` or `[3H]` |
//! | ONNX `GRU` | [`onnx`] | `W [D,3H,I]`, `R [D,3H,H]` | rows z, r, n | `B [D,6H]` |
//! | TensorFlow `GRUBlockCell` | [`tensorflow`] | `w_ru [I+H,2H]`, `w_c [I+H,H]` | columns r, z and n | `[2H]` and `[H]` |
//! | oneDNN, vanilla and LBR | [`onednn`] | `[L,D,I,3,H]`, `[L,D,H,3,H]` | z, r, n | `[L,D,3,H]` or `[L,D,4,H]` |
//! | cuDNN | [`cudnn`] | `[H,I]`, `[H,H]` for each gate | r, z, n | six `[H]` |
//! | `burn::nn::gru::{Gru, BiGru}` | `GruBlock::try_from(gru)` | three pairs of `Linear` | | |
//!
//! A [`StateDict`] holds arrays under a system's own names. Importers make a
//! [`GruBlock`](crate::GruBlock) or [`GruWeights`] of it, exporters the way back;
//! what one writes, the other reads unchanged. An exporter refuses a GRU that its system cannot
//! compute.

mod burn_nn;
pub mod cudnn;
pub mod keras;
pub mod onednn;
pub mod onnx;
mod order;
pub mod pytorch;
mod state_dict;
pub mod tensorflow;

pub use self::{order::GateOrder, state_dict::StateDict};

use crate::{
    GruWeights,
    spec::{Activations, Direction, GruSpec, Reset, Update},
};
use burn::tensor::{DType, Tensor};

/// Why weights could not be taken over or handed out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// An activation that has no kernel here or no name there.
    #[error("{gate} gate: activation {activation} is not supported")]
    Activation {
        /// Which gates.
        gate: &'static str,
        /// The activation's name.
        activation: String,
    },
    /// A tensor has another shape than the rest asks for.
    #[error("{name}: expected shape {expected:?}, got {actual:?}")]
    Shape {
        /// Which tensor.
        name: String,
        /// The shape that was expected.
        expected: Vec<usize>,
        /// The shape that was found.
        actual: Vec<usize>,
    },
    /// A tensor has no elements.
    #[error("{name}: expected numbers, got shape {actual:?}")]
    Empty {
        /// Which tensor.
        name: String,
        /// The shape that was found.
        actual: Vec<usize>,
    },
    /// A tensor has another number of dimensions.
    #[error("{name}: expected {expected} dimensions, got shape {actual:?}")]
    Rank {
        /// Which tensor.
        name: String,
        /// How many were expected.
        expected: usize,
        /// The shape that was found.
        actual: Vec<usize>,
    },
    /// A tensor does not hold floating-point numbers.
    #[error("{name}: expected floating-point numbers, got {actual:?}")]
    DType {
        /// Which tensor.
        name: String,
        /// What it holds.
        actual: DType,
    },
    /// A tensor is missing.
    #[error("{key}: expected a tensor of this name, got none")]
    MissingKey {
        /// Its name.
        key: String,
    },
    /// A tensor is there that a GRU of this system does not have.
    #[error("{key}: not expected; {expected}")]
    UnexpectedKey {
        /// Its name.
        key: String,
        /// What names are expected.
        expected: &'static str,
    },
    /// Some gates have a bias and some have none.
    #[error("{name}: expected a bias, as the other gates have one, got none")]
    MissingBias {
        /// Which bias.
        name: String,
    },
    /// The two directions of a module are configured differently.
    #[error("forward and reverse differ in {what}")]
    Directions {
        /// In what.
        what: &'static str,
    },
    /// Too many or too few of something.
    #[error("{what}: expected {expected}, got {actual}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many were expected.
        expected: usize,
        /// How many there are.
        actual: usize,
    },
    /// An option that this crate does not have, or that makes no sense.
    #[error("{option}: expected {expected}, got {actual}")]
    Option {
        /// Its name in the other system.
        option: &'static str,
        /// What is understood.
        expected: String,
        /// What was given.
        actual: String,
    },
    /// The other system has no way to say this.
    #[error("{system} cannot express {what}")]
    Inexpressible {
        /// Which system.
        system: &'static str,
        /// What it lacks.
        what: String,
    },
    /// A tensor could not be read back from its device.
    #[error("{name}: {reason}")]
    Read {
        /// Which tensor.
        name: String,
        /// What the backend said.
        reason: String,
    },
    /// A model of another system is not as its format has it, or lacks what was asked for.
    #[error("{reason}")]
    Model {
        /// What was wrong.
        reason: String,
    },
    /// The numbers of a tensor of a model cannot be had.
    #[error("{name}: {reason}")]
    Tensor {
        /// Which tensor.
        name: String,
        /// What was wrong.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {reason}")]
    File {
        /// Which file.
        path: String,
        /// What was wrong.
        reason: String,
    },
}

pub(crate) fn expect_shape(
    name: &str,
    expected: &[usize],
    actual: &[usize],
) -> Result<(), ConvertError> {
    match expected == actual {
        true => Ok(()),
        false => Err(ConvertError::Shape {
            name: name.to_owned(),
            expected: expected.to_vec(),
            actual: actual.to_vec(),
        }),
    }
}

/// Refuses a GRU with options of which `system` has none, besides `reset` (any, if absent).
fn expect_plain(
    system: &'static str,
    spec: &GruSpec,
    reset: Option<Reset>,
) -> Result<(), ConvertError> {
    let lacks = [
        (reset.is_some_and(|reset| spec.reset != reset)).then(|| format!("{:?}", spec.reset)),
        (spec.update != Update::Keeps).then(|| format!("Update::{:?}", spec.update)),
        (spec.activations != Activations::default()).then(|| format!("{:?}", spec.activations)),
        spec.clip_gates.map(|c| format!("clip_gates {c}")),
        spec.clip_state.map(|c| format!("clip_state {c}")),
    ];
    match lacks.into_iter().flatten().next() {
        Some(what) => Err(ConvertError::Inexpressible { system, what }),
        None => Ok(()),
    }
}

/// The input weight, which every system but MPSGraph has.
fn w_ih(system: &'static str, weights: &GruWeights) -> Result<Tensor<2>, ConvertError> {
    let missing = || ConvertError::Inexpressible {
        system,
        what: "a GRU without w_ih".into(),
    };
    weights.w_ih.clone().ok_or_else(missing)
}

/// Both biases as `[3H]`, zeros where one is absent; none if both are.
fn both_biases(weights: &GruWeights) -> Option<(Tensor<1>, Tensor<1>)> {
    if weights.b_ih.is_none() && weights.b_hh.is_none() {
        return None;
    }
    let [h, gates] = weights.w_hh.dims();
    let zeros = |len| Tensor::<1>::zeros([len], (&weights.w_hh.device(), weights.w_hh.dtype()));
    let b_ih = weights.b_ih.clone().unwrap_or_else(|| zeros(gates));
    let b_hh = match &weights.b_hh {
        Some(b) if b.dims() == [h] => Tensor::cat(vec![zeros(2 * h), b.clone()], 0),
        Some(b) => b.clone(),
        None => zeros(gates),
    };
    Some((b_ih, b_hh))
}

/// The direction of the `d`-th of a layer's directions in a system that has no layer in reverse
/// only.
fn direction_of(d: usize) -> Direction {
    match d {
        0 => Direction::Forward,
        _ => Direction::Reverse,
    }
}
