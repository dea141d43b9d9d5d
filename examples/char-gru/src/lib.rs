//! A character-level GRU: its text, model, training and sampling.
//!
//! The program `char-gru` adds files and a terminal. The web page of `examples/web` uses this library in a browser,
//! where nothing can wait for a GPU. So the functions that read from a device are `async`.

pub mod checkpoint;
pub mod clip;
pub mod data;
pub mod device;
pub mod error;
pub mod learner;
pub mod model;
pub mod sample;
pub mod train;
