//! The log of a run.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;

/// A file of JSON lines, each with the number of its step.
pub struct Log {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Log {
    /// Creates a file at `path`, or continues one and removes the lines after `step`.
    pub fn open(path: &Path, step: usize) -> Result<Self, Error> {
        let failed = |reason: io::Error| Error::write(path, reason);
        let kept = match step {
            0 => String::new(),
            _ => {
                let text = match fs::read_to_string(path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                    text => text.map_err(failed)?,
                };
                let lines = text.lines().filter(|line| {
                    let line: Option<Value> = serde_json::from_str(line).ok();
                    line.and_then(|l| l["step"].as_u64())
                        .is_some_and(|s| s <= step as u64)
                });
                lines.flat_map(|line| [line, "\n"]).collect()
            }
        };
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
        file.write_all(kept.as_bytes()).map_err(failed)?;
        file.flush().map_err(failed)?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
        })
    }

    /// Appends an object with a number `step`. Flushes each line, so that the file can be followed and
    /// survives a kill.
    pub fn line(&mut self, line: &Value) -> Result<(), Error> {
        writeln!(self.file, "{line}")
            .and_then(|()| self.file.flush())
            .map_err(|reason| Error::write(&self.path, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_resumed_log_takes_back_what_comes_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Log::open(&path, 0).unwrap();
        for step in 1..=5 {
            log.line(&json!({"step": step, "loss": 0.5})).unwrap();
        }
        log.line(&json!({"step": 5, "validation": 0.6})).unwrap();
        drop(log);
        // A line that a kill truncated.
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"step\":6,\"lo");
        fs::write(&path, text).unwrap();
        let mut log = Log::open(&path, 3).unwrap();
        log.line(&json!({"step": 4})).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let steps: Vec<u64> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["step"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        assert_eq!(steps, [1, 2, 3, 4]);
    }
}
