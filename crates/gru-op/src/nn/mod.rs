//! The [`GruBlock`] module: layers of GRUs in one or both directions.

mod block;
mod config;
mod display;
#[cfg(feature = "store")]
mod file;
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
    init::GruInitializer,
    kind::GruMismatch,
    layer::GruLayer,
};
