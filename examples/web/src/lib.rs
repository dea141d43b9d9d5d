//! The page on which a character-level GRU learns: how it is built, and how it is served.

// Public for the program and the test; nobody else's interface.
#![allow(missing_docs)]

pub mod bundle;
pub mod error;
pub mod serve;
