//! ONNX Runtime in a Python process, one round per request.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::times::{Key, Times};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/reference.py");

/// A waiting process of `reference.py --time`.
pub struct OnnxRuntime {
    child: Child,
    rounds: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    pub version: String,
}

impl OnnxRuntime {
    /// Starts the process and waits until its sessions are built and checked.
    pub fn start(python: &str, root: &Path) -> Result<Self, String> {
        let mut child = Command::new(python)
            .args([SCRIPT.as_ref(), root.as_os_str()])
            .arg("--time")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{python}: cannot start Python: {e}"))?;
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

    /// Runs one round and adds its times.
    pub fn round(&mut self, times: &mut Times) -> Result<(), String> {
        let ask = self.rounds.as_mut().map(|rounds| rounds.write_all(b"\n"));
        if !matches!(ask, Some(Ok(()))) {
            return Err(format!(
                "{SCRIPT}: expected a waiting process, but it ended"
            ));
        }
        loop {
            let line = self.line()?;
            if line == "." {
                return Ok(());
            }
            let error = || format!("{SCRIPT}: expected model,what,threads,ms, got {line:?}");
            let [model, what, threads, ms]: [&str; 4] = line
                .split(',')
                .collect::<Vec<_>>()
                .try_into()
                .map_err(|_| error())?;
            let key = Key {
                model: model.into(),
                what: what.into(),
                peer: "onnxruntime".into(),
                threads: threads.parse().map_err(|_| error())?,
            };
            times.add(key, ms.parse().map_err(|_| error())?);
        }
    }

    fn line(&mut self) -> Result<String, String> {
        match self.lines.next() {
            Some(Ok(line)) => Ok(line),
            Some(Err(e)) => Err(format!("{SCRIPT}: {e}")),
            None => Err(format!("{SCRIPT}: expected times, but the process ended")),
        }
    }
}

impl Drop for OnnxRuntime {
    fn drop(&mut self) {
        // The process ends when its input ends.
        self.rounds = None;
        self.child.wait().ok();
    }
}
