//! Whole ONNX models in [Burn](https://burn.dev), and models of Burn with GRUs as ONNX models.
//!
//! - Feature `import`, on by default: every GRU of the code that [burn-onnx](https://docs.rs/burn-onnx) generates becomes a
//!   `GruBlock` of [gru-op](https://docs.rs/gru-op). It is for build scripts and does not depend on gru-op.
//! - Feature `export`: an [`Exporter`] writes a model with `GRU` nodes. It is for programs.
//!
//! # Import
//!
//! In `build.rs`:
//!
//! ```no_run
//! use burn_onnx::ModelGen;
//! use gru_onnx::GruOverride;
//!
//! ModelGen::new()
//!     .input("model.onnx")
//!     .out_dir("model/")
//!     .register_op_override(GruOverride::new())
//!     .run_from_script();
//! ```
//!
//! The generated code calls `gru_convert::onnx::run`, so the program needs the crate `gru-convert`.
//!
//! Supported are:
//!
//! - all attributes of the operator: `activations` with their parameters, `clip`, `direction`,
//!   `hidden_size`, `layout`, `linear_before_reset`
//! - `B`, `initial_h`, and the outputs `Y` and `Y_h`, each present or absent
//! - weights that are initializers, `Constant` nodes, or expressions of them that the parser folds
//! - `sequence_lens`, by `mark_grus`
//! - weights of 16 or 8 bits for inference, by `GruOverride::prepared`
//!
//! Everything else is a panic of the build script that names the node and the reason: weights that the
//! model computes or reads at run time, sparse weights, activation parameters without a kernel, and GRUs in
//! the body of a loop or branch.
//!
//! # Export
//!
//! [`Exporter`] has an example.
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "export")]
mod export;
#[cfg(feature = "import")]
mod import;

#[cfg(all(doctest, feature = "import"))]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(feature = "export")]
pub use self::export::{ExportError, Exporter, Value, Values};
#[cfg(feature = "import")]
pub use self::import::{GruOverride, MarkError, mark_grus};
pub use gru_spec::Precision;
