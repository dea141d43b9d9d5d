//! Shared code of the tests and benchmarks: cases, expected results and tolerances.
//!
//! | module | content |
//! |---|---|
//! | [`activations`] | one of each activation |
//! | [`case`] | what a case is, in words |
//! | [`draw`] | the values of a case, and the expected results |
//! | [`matrix`] | all cases |
//! | [`runs`] | runs a case on a backend and compares |
//! | [`random`] | random numbers that are equal on every machine |
//! | [`oracle`] | the equations in float64, on a tape that differentiates them exactly |
//! | [`close`] | named tensors, their comparison, and every tolerance with its reason |
//! | [`cover`] | covering arrays: rows of options with every pair or triple of values |
//! | [`panics`] | calls that must panic |
//! | [`onnx_file`] | writes `.onnx` files with one GRU |
//! | `passes` | the oracle with the signatures of gru-cpu's passes, with the feature `passes` |
//! | `conformance` | the recorded vectors of other frameworks, with the feature `conformance` |
//! | `webgpu` | a GPU with the smallest limits of WebGPU, with the feature `webgpu` |
//!
//! Except for `webgpu`, this crate uses neither Burn nor a GPU: all tensors are flat row-major `Vec<f64>`.

pub mod activations;
pub mod case;
pub mod close;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod cover;
pub mod draw;
pub mod matrix;
pub mod onnx_file;
pub mod oracle;
pub mod panics;
#[cfg(feature = "passes")]
pub mod passes;
pub mod random;
pub mod runs;
#[cfg(feature = "webgpu")]
pub mod webgpu;
