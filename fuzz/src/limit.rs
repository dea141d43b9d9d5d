//! One limit on time and memory for the readers of files.

use cap::Cap;
use std::{
    alloc::System,
    time::{Duration, Instant},
};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// The longest time for a file of the fuzzer's sizes, with AddressSanitizer.
const TIME: Duration = Duration::from_secs(5);

/// Runs a reader. Its memory is at most proportional to the file plus a constant: four times the arrays that it may have,
/// because a buffer that grows needs three times its size. More memory aborts, more time panics.
pub fn limited<R>(file: &[u8], read: impl FnOnce() -> R) -> R {
    let memory = 4 * ((64 << 20) + 16 * file.len());
    let (start, before) = (Instant::now(), MEMORY.allocated());
    MEMORY
        .set_limit(before + memory)
        .expect("it is above the allocated memory");
    let result = read();
    MEMORY
        .set_limit(usize::MAX)
        .expect("it is the largest limit");
    let time = start.elapsed();
    assert!(time < TIME, "expected at most {TIME:?}, got {time:?}");
    result
}
