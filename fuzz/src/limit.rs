//! One limit on time and memory for the readers of files.

use cpu_time::ProcessTime;
use peak_alloc::PeakAlloc;
use std::time::Duration;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The longest time of the CPU for a file of the fuzzer's sizes, with AddressSanitizer.
const TIME: Duration = Duration::from_secs(5);

/// Runs a reader. Its memory is at most proportional to the file plus a constant: four times the arrays that it may have,
/// because a buffer that grows needs three times its size. More memory or time panics.
pub fn limited<R>(file: &[u8], read: impl FnOnce() -> R) -> R {
    let limit = 4 * ((64 << 20) + 16 * file.len());
    let (start, before) = (ProcessTime::now(), MEMORY.current_usage());
    MEMORY.reset_peak_usage();
    let result = read();
    let (time, memory) = (start.elapsed(), MEMORY.peak_usage() - before);
    assert!(time < TIME, "expected at most {TIME:?}, got {time:?}");
    assert!(
        memory <= limit,
        "expected at most {limit} bytes of memory, got {memory}"
    );
    result
}
