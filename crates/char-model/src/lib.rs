//! A character-level GRU that learns a text: what the examples `char-gru` and `web` share.
//!
//! No terminal, no clock, no thread. What waits for a device is `async`, since a browser cannot
//! wait otherwise.

// Public for the programs and the tests; nobody else's interface.
#![allow(missing_docs)]

pub mod clip;
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

/// Held by each test that draws random numbers: the backend has one generator for all threads.
#[cfg(test)]
fn drawing() -> std::sync::MutexGuard<'static, ()> {
    static DRAWING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let held = DRAWING.lock();
    // A test that failed has left nothing behind.
    held.unwrap_or_else(std::sync::PoisonError::into_inner)
}
