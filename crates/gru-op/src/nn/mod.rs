//! The [`GruBlock`] module: layers of GRUs in one or both directions.

mod block;
mod config;
mod init;

pub use self::{
    block::{GruBlock, GruLayer},
    config::GruBlockConfig,
    init::GruInitializer,
};
