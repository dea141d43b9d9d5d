//! Samples the memory in use of a device while calls run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{JoinHandle, sleep, spawn},
    time::Duration,
};

use cubecl::{MemoryScope, client::Client};

/// Polls a device for its memory in use.
pub struct MemorySampler {
    done: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl MemorySampler {
    /// Starts polling.
    pub fn start(client: Client) -> Self {
        let (done, peak) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (its_done, its_peak) = (done.clone(), peak.clone());
        let thread = spawn(move || {
            while !its_done.load(Relaxed) {
                let usage = client.memory_report(MemoryScope::Device).usage();
                its_peak.fetch_max(usage.bytes_in_use, Relaxed);
                sleep(Duration::from_millis(1));
            }
        });
        Self { done, peak, thread }
    }

    /// Stops polling and returns the peak in MiB.
    pub fn peak(self) -> f64 {
        self.done.store(true, Relaxed);
        self.thread.join().expect("the sampler has not panicked");
        self.peak.load(Relaxed) as f64 / f64::from(1 << 20)
    }
}
