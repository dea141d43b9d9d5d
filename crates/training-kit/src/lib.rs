//! What the training programs of the examples share: gradient clipping, and with the feature
//! `terminal` the progress bar, the log and the settings of the memory allocator.

// Public only for the programs and the tests.
#![allow(missing_docs)]

pub mod clip;
pub mod error;

#[cfg(feature = "terminal")]
pub mod allocator;
#[cfg(feature = "terminal")]
pub mod log;
#[cfg(feature = "terminal")]
pub mod progress;
