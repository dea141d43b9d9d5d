//! The warnings of gru-op and its kernels, in a process of its own.

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::sync::Mutex;

struct Warnings;

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() == Level::Warn && metadata.target().starts_with("gru_")
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) {
            WARNINGS.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Collects the warnings from now on.
pub fn collect() {
    log::set_logger(&Warnings).expect("the first logger");
    log::set_max_level(LevelFilter::Warn);
}

/// The warnings since the last call.
pub fn take() -> Vec<String> {
    std::mem::take(&mut *WARNINGS.lock().unwrap())
}
