//! What tests and benches of the GRU share: problems, inputs, truth and tolerances.
//!
//! | module | what it holds |
//! |---|---|
//! | [`activations`] | one of each activation |
//! | [`problem`] | sizes and conventions of one run, and the catalogue that tests walk through |
//! | [`inputs`] | seeded inputs and upstream gradients, NaN-poisoned buffers |
//! | [`oracle`] | the equations in float64, on a tape that differentiates them exactly |
//! | [`close`] | named tensors, the comparison and every tolerance with its reason |
//! | [`cover`] | covering arrays: rows of options with every pair or triple of values |
//! | `passes` | the oracle over slices, as gru-cpu's passes, with the feature `passes` |
//! | `conformance` | the recorded vectors of other frameworks, with the feature `conformance` |
//! | `proxy` | a network on one machine, with the feature `network` |
//!
//! Nothing here uses Burn or a kernel: all tensors are flat row-major `Vec<f64>`.

pub mod activations;
pub mod close;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod cover;
mod draw;
pub mod inputs;
pub mod oracle;
#[cfg(feature = "passes")]
pub mod passes;
pub mod problem;
#[cfg(feature = "network")]
pub mod proxy;
