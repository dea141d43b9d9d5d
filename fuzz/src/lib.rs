//! Shared code of the fuzz targets.

pub mod draw;
#[cfg(feature = "files")]
pub mod file;
#[cfg(feature = "files")]
pub mod import;
#[cfg(feature = "files")]
pub mod limit;
pub mod panics;
pub mod passes;

#[cfg(fuzzing)]
pub use libfuzzer_sys::fuzz_target;

/// Without a fuzzer a target is checked by the compiler, and does nothing.
#[cfg(not(fuzzing))]
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: $type:ty| $body:expr) => {
        fn main() {
            let _ = |$input: $type| $body;
        }
    };
}
