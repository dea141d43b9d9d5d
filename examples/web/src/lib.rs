//! Builds and serves the web page that trains a character-level GRU.

// Public only for the program and the test.
#![allow(missing_docs)]

pub mod bundle;
pub mod error;
pub mod serve;
