//! The [`GruBlock`] module: layers of GRUs in one or both directions.

mod block;
mod config;
mod init;
mod layer;

pub use self::{
    block::GruBlock,
    config::{GruBlockConfig, GruLayerOptions},
    init::GruInitializer,
    layer::GruLayer,
};
