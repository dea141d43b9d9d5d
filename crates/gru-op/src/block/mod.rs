//! The [`GruBlock`] module.

mod arguments;
mod config;
mod difference;
mod display;
mod error;
#[cfg(feature = "store")]
mod file;
mod from_burn;
mod gru_block;
mod init;
mod layer;
#[cfg(all(test, feature = "autodiff", feature = "flex"))]
mod memory_tests;
mod prepared;
mod spec_setters;

#[cfg(feature = "store")]
pub use self::file::GruFileError;
pub use self::{
    config::{GruBlockConfig, GruLayerOptions},
    difference::GruMismatch,
    error::GruError,
    gru_block::GruBlock,
    init::GruInitializer,
    layer::GruLayer,
    prepared::PreparedGru,
};
