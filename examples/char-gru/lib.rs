//! The parts of the program `char-gru`: its commands, files, charts and devices. What it trains stands
//! in the crate `char-model`.

// Public for the binaries and the tests; nobody else's interface.
#![allow(missing_docs)]

pub mod allocator;
pub mod backend;
pub mod chart;
pub mod checkpoint;
pub mod config;
pub mod dashboard;
pub mod devices;
pub mod error;
pub mod train;

/// Held by each test that draws random numbers: the backend has one generator for all threads.
#[cfg(test)]
fn drawing() -> std::sync::MutexGuard<'static, ()> {
    static DRAWING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let held = DRAWING.lock();
    // A test that failed has left nothing behind.
    held.unwrap_or_else(std::sync::PoisonError::into_inner)
}
