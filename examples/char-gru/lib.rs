//! A character-level GRU that learns a text: the parts of the program `char-gru`.

// Public for the binary and the tests; nobody else's interface.
#![allow(missing_docs)]

pub mod allocator;
pub mod backend;
pub mod chart;
pub mod checkpoint;
pub mod clip;
pub mod config;
pub mod dashboard;
pub mod data;
pub mod devices;
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

/// Held by each test that draws random numbers: the backend has one generator for all threads.
#[cfg(test)]
fn drawing() -> std::sync::MutexGuard<'static, ()> {
    static DRAWING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let held = DRAWING.lock();
    // A test that failed has left nothing behind.
    held.unwrap_or_else(std::sync::PoisonError::into_inner)
}
