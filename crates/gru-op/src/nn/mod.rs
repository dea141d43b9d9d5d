//! The [`GruBlock`] module: layers of GRUs in one or both directions.

mod block;
mod config;
mod display;
mod error;
#[cfg(feature = "store")]
mod file;
mod from_burn;
mod init;
mod kind;
mod layer;
#[cfg(all(test, feature = "autodiff", any(feature = "flex", feature = "ndarray")))]
mod memory_tests;

#[cfg(feature = "store")]
pub use self::file::GruFileError;
pub use self::{
    block::GruBlock,
    config::{GruBlockConfig, GruLayerOptions},
    error::GruError,
    init::GruInitializer,
    kind::GruMismatch,
    layer::GruLayer,
};
