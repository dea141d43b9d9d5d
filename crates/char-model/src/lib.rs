//! A character-level GRU that learns a text: shared by the examples `char-gru` and `web`.
//!
//! The crate uses no terminal, clock or thread. Functions that wait for a device are `async`, because a
//! browser cannot block.

// Public only for the programs and the tests.
#![allow(missing_docs)]

pub mod data;
pub mod error;
pub mod evaluate;
pub mod exchange;
pub mod file;
pub mod model;
pub mod ngram;
pub mod sample;
pub mod schedule;
pub mod step;
pub mod text;
pub mod trainer;
pub mod vocabulary;

pub use training_kit::clip;

/// Each test that draws random numbers holds this lock, because the backend has one generator for all
/// threads.
#[cfg(test)]
fn drawing() -> std::sync::MutexGuard<'static, ()> {
    static DRAWING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let held = DRAWING.lock();
    // A failed test leaves no state behind.
    held.unwrap_or_else(std::sync::PoisonError::into_inner)
}
