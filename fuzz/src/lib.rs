//! Shared code of the fuzz targets.

pub mod draw;
#[cfg(feature = "files")]
pub mod file;
#[cfg(feature = "files")]
pub mod import;
pub mod panics;
pub mod passes;
