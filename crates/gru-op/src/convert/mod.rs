//! Weights from other systems and back, each with its own names, gate order and layout.
//!
//! | system | module | weights | gates | biases |
//! |---|---|---|---|---|
//! | PyTorch `nn.GRU`, `nn.GRUCell` | [`pytorch`] | `weight_ih [3H,I]`, `weight_hh [3H,H]` | rows r, z, n | two `[3H]` |
//! | Keras `layers.GRU`, alone or `Bidirectional` | [`keras`] | `kernel [I,3H]`, `recurrent_kernel [H,3H]` | columns z, r, n | `[2,3H]` or `[3H]` |
//! | ONNX `GRU` | [`onnx`] | `W [D,3H,I]`, `R [D,3H,H]` | rows z, r, n | `B [D,6H]` |
//! | TensorFlow `GRUBlockCell` | [`tensorflow`] | `w_ru [I+H,2H]`, `w_c [I+H,H]` | columns r, z and n | `[2H]` and `[H]` |
//! | Apple's `MPSGraph` | [`mps_graph`] | `inputWeight [D·3H,I]`, `recurrentWeight [3H,H]` or `[2,3H,H]` | rows z, r, n or r, z, n | `[D·3H]`, and `[D·H]` |
//! | oneDNN, vanilla and LBR | [`onednn`] | `[L,D,I,3,H]`, `[L,D,H,3,H]` | z, r, n | `[L,D,3,H]` or `[L,D,4,H]` |
//! | cuDNN, one pseudo-layer | [`cudnn`] | `[H,I]`, `[H,H]` for each gate | r, z, n | six `[H]` |
//! | `burn::nn::gru::{Gru, BiGru}` | `GruBlock::try_from(gru)` | three pairs of `Linear` | | |
//!
//! A [`StateDict`] holds arrays under a system's own names: of a file `.pt` or `.safetensors` with
//! the feature `store`, `.npz` with `npz`, `.weights.h5` or `.keras` with `keras`. Every
//! module has the same three functions:
//!
//! - `config(&dict, prefix)`: what names and shapes tell about the GRU under `prefix`. The rest is
//!   added by `with_…`: its page says what that is.
//! - `import(&dict, prefix, &config, &device)`: the [`GruBlock`]. It refuses a
//!   configuration of another GRU, and says in what they differ; layout, memory, zoneout and the noise
//!   of training are free.
//! - `export(&block, prefix)`: the arrays, which `import` reads unchanged. It refuses a block that
//!   the system cannot compute.
//!
//! ONNX and MPSGraph say which GRU it is beside the arrays, in [`onnx::Attributes`] and
//! [`GruDescriptor`](crate::mps_graph::GruDescriptor): `config` wants these first, and `export` hands
//! them out with the arrays.
//!
//! ```
//! # fn main() -> Result<(), gru_op::convert::ConvertError> {
//! use burn::tensor::Device;
//! use gru_op::{GruBlockConfig, convert::{keras, pytorch}};
//!
//! let device = Device::flex();
//! let dict = pytorch::export(&GruBlockConfig::new(8, 16).init(&device), "gru.")?;
//!
//! let config = pytorch::config(&dict, "gru.")?.with_batch_first(true);
//! let gru = pytorch::import(&dict, "gru.", &config, &device)?;
//! let for_keras = keras::export(&gru, "gru/gru_cell/")?;
//!
//! let weights = gru.layers[0].weights(); // for `gru_sequence` and `gru_cell`
//! # Ok(()) }
//! ```

#[cfg(any(feature = "npz", feature = "keras"))]
mod archive;
mod bias;
mod burn_nn;
pub mod cudnn;
pub mod keras;
#[cfg(feature = "keras")]
mod keras_file;
pub mod mps_graph;
#[cfg(feature = "npz")]
mod npz;
pub mod onednn;
pub mod onnx;
mod order;
pub mod pytorch;
mod state_dict;
mod system;
pub mod tensorflow;

pub use self::{order::GateOrder, state_dict::StateDict};

#[cfg(doc)]
use crate::GruBlock;
use burn::tensor::DType;

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
    /// A tensor has a shape that none of its kind has, whatever the sizes.
    #[error("{name}: expected {expected}, got shape {actual:?}")]
    Form {
        /// Which tensor.
        name: String,
        /// What was expected, in letters.
        expected: &'static str,
        /// The shape that was found.
        actual: Vec<usize>,
    },
    /// A tensor has another number of dimensions.
    #[error("{name}: expected a tensor of rank {expected}, got shape {actual:?}")]
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
    /// No tensor has a name under the prefix.
    #[error("expected tensors whose names start with {prefix:?}, got none; {expected}")]
    Prefix {
        /// The prefix.
        prefix: String,
        /// What names are expected.
        expected: &'static str,
    },
    /// Two tensors would have the same name.
    #[error("{key}: expected one tensor of this name, got two")]
    SameKey {
        /// The name.
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
    /// A configuration is that of another GRU than the imported one.
    #[error(
        "{what} of the configuration: expected {expected}, as the imported GRU has it, got {actual}"
    )]
    Mismatch {
        /// In what they differ.
        what: &'static str,
        /// What the arrays, or the options of the system, say.
        expected: String,
        /// What the configuration says.
        actual: String,
    },
    /// A configuration that makes no block.
    #[error("{reason}")]
    Config {
        /// Why not.
        reason: String,
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

/// A file that could not be read or written.
#[cfg(any(feature = "store", feature = "npz", feature = "keras"))]
fn failed(path: impl std::fmt::Display, reason: impl std::fmt::Display) -> ConvertError {
    ConvertError::File {
        path: path.to_string(),
        reason: reason.to_string(),
    }
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
