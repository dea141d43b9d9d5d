//! A character-level GRU that learns a text: the parts of the program `char-gru`.

// Public for the binary and the tests; nobody else's interface.
#![allow(missing_docs)]

pub mod backend;
pub mod chart;
pub mod checkpoint;
pub mod clip;
pub mod config;
pub mod dashboard;
pub mod data;
pub mod error;
pub mod evaluate;
pub mod exchange;
pub mod model;
pub mod ngram;
pub mod sample;
pub mod schedule;
pub mod step;
pub mod text;
pub mod train;
pub mod vocabulary;
