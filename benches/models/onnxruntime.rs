//! ONNX Runtime in a process of Python beside this one, a round at a time.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::times::{Key, Times};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/reference.py");

/// `reference.py --time`, waiting.
pub struct OnnxRuntime {
    child: Child,
    rounds: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    /// Its version.
    pub version: String,
}

impl OnnxRuntime {
    /// Starts it, and waits until its sessions are made and checked.
    pub fn start(python: &str, root: &Path) -> Result<Self, String> {
        let mut child = Command::new(python)
            .args([SCRIPT.as_ref(), root.as_os_str()])
            .arg("--time")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{python}: expected a Python to start, {e}"))?;
        let output = child.stdout.take().expect("it was piped");
        let mut started = Self {
            rounds: child.stdin.take(),
            lines: BufReader::new(output).lines(),
            child,
            version: String::new(),
        };
        let first = started.line()?;
        match first.strip_prefix("onnxruntime ") {
            Some(version) => started.version = version.into(),
            None => return Err(format!("{SCRIPT}: expected a version, got {first:?}")),
        }
        Ok(started)
    }

    /// Makes one round, and adds what it took.
    pub fn round(&mut self, times: &mut Times) -> Result<(), String> {
        let ask = self.rounds.as_mut().map(|rounds| rounds.write_all(b"\n"));
        if !matches!(ask, Some(Ok(()))) {
            return Err(format!(
                "{SCRIPT}: expected it to wait for a round, it ended"
            ));
        }
        loop {
            let line = self.line()?;
            if line == "." {
                return Ok(());
            }
            let wrong = || format!("{SCRIPT}: expected model,what,threads,ms, got {line:?}");
            let [model, what, threads, ms]: [&str; 4] = line
                .split(',')
                .collect::<Vec<_>>()
                .try_into()
                .map_err(|_| wrong())?;
            let key = Key {
                model: model.into(),
                what: what.into(),
                peer: "onnxruntime".into(),
                threads: threads.parse().map_err(|_| wrong())?,
            };
            times.add(key, ms.parse().map_err(|_| wrong())?);
        }
    }

    fn line(&mut self) -> Result<String, String> {
        match self.lines.next() {
            Some(Ok(line)) => Ok(line),
            Some(Err(e)) => Err(format!("{SCRIPT}: {e}")),
            None => Err(format!("{SCRIPT}: expected times, it ended")),
        }
    }
}

impl Drop for OnnxRuntime {
    fn drop(&mut self) {
        // It ends with its input.
        self.rounds = None;
        self.child.wait().ok();
    }
}
