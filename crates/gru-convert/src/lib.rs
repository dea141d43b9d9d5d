//! Converts GRU weights between [`gru_op`] and other systems. Each system has its own names, gate order
//! and layout.
//!
//! | system | module | weights | gates | biases |
//! |---|---|---|---|---|
//! | PyTorch `nn.GRU`, `nn.GRUCell` | [`pytorch`] | `weight_ih [3H,I]`, `weight_hh [3H,H]` | rows r, z, n | two `[3H]` |
//! | Keras `layers.GRU`, also in `Bidirectional` | [`keras`] | `kernel [I,3H]`, `recurrent_kernel [H,3H]` | columns z, r, n | `[2,3H]` or `[3H]` |
//! | ONNX `GRU` | [`onnx`] | `W [D,3H,I]`, `R [D,3H,H]` | rows z, r, n | `B [D,6H]` |
//! | TensorFlow `GRUBlockCell` | [`tensorflow`] | `w_ru [I+H,2H]`, `w_c [I+H,H]` | columns r, z and n | `[2H]` and `[H]` |
//! | Apple's `MPSGraph` | [`mps_graph`] | `inputWeight [D·3H,I]`, `recurrentWeight [3H,H]` or `[2,3H,H]` | rows z, r, n or r, z, n | `[D·3H]`, and `[D·H]` |
//! | oneDNN, vanilla and LBR | [`onednn`] | `[L,D,I,3,H]`, `[L,D,H,3,H]` | z, r, n | `[L,D,3,H]` or `[L,D,4,H]` |
//! | cuDNN, one pseudo-layer | [`cudnn`] | `[H,I]`, `[H,H]` for each gate | r, z, n | six `[H]` |
//! | Burn `Gru`, `BiGru` | [`burn_nn`] | `[I,H]`, `[H,H]` for each gate | r, z, n | six `[H]` |
//!
//! A module of Burn in memory needs no converter: `GruBlock::try_from(gru)`.
//!
//! A [`StateDict`] contains arrays with a system's own names, from a file or from the program. Every
//! module has the same three functions:
//!
//! - `config(&dict, prefix)` infers the configuration of the GRU under `prefix` from names and shapes. The
//!   page of each module says what the arrays do not contain. Set that by `with_…`.
//! - `import(&dict, prefix, &config, &device)` builds the [`GruBlock`]. Arrays outside of the prefix are ignored. If the
//!   configuration does not match the arrays, it returns an error that names the first difference. Layout,
//!   checkpointing, zoneout, dropout, `recurrent_bias` and the initializers may differ.
//! - `export(&block, prefix)` writes the arrays, which `import` reads unchanged. It returns an error if the
//!   system cannot compute what the block does.
//!
//! [`pytorch::load`] and [`burn_nn::load`] load a whole model, whose GRUs are blocks.
//!
//! ONNX and MPSGraph describe the GRU next to the arrays, in [`onnx::Attributes`] and
//! [`GruDescriptor`](gru_op::mps_graph::GruDescriptor). There `config` takes this description too, and
//! `export` returns it with the arrays.
//!
//! ```
//! # fn main() -> Result<(), gru_convert::ConvertError> {
//! use burn::tensor::Device;
//! use gru_convert::{keras, pytorch};
//! use gru_op::GruBlockConfig;
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
//!
//! # Features
//!
//! | feature | files |
//! |---|---|
//! | `store` | reads `.pt`, `.safetensors` and `.bpk`, writes `.safetensors`; loads whole models |
//! | `npz` | reads NumPy's `.npz` |
//! | `keras` | reads Keras' `.weights.h5`, `.keras` and `.h5` |
//! | `onnx` | reads and writes `.onnx` |
//!
//! `autodiff`, `flex` and `fusion` are on by default, as in gru-op, and turn on the features of the same
//! names in gru-op. Keep `fusion` on. Without default features, name it if Burn's own `fusion` is on, or the
//! build fails. Other backends are features of gru-op.
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod arrays;
pub mod burn_nn;
pub mod cudnn;
mod error;
mod files;
pub mod keras;
mod looks;
mod model;
pub mod mps_graph;
pub mod onednn;
pub mod onnx;
pub mod pytorch;
mod state_dict;
mod system;
pub mod tensorflow;

#[cfg(all(doctest, feature = "flex", feature = "store"))]
#[doc = include_str!("../README.md")]
mod readme {}

pub use self::{error::ConvertError, state_dict::StateDict};
/// The crate of [`GruBlock`], for code that depends on this crate only.
pub use gru_op;

#[cfg(doc)]
use gru_op::GruBlock;
