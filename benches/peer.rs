//! A compared program: a process that answers one line to each line.
//!
//! | request, words separated by tabs | answer |
//! |---|---|
//! | (start) | `ready`, version; or `no`, reason |
//! | `prepare`, problem file, mode, output file | `ok`, names of the outputs, note; or `no`, reason |
//! | `sample`, numbers of untimed and of timed calls | nanoseconds of all timed calls |
//!
//! `prepare` reads the problem, makes one call and writes the outputs as `f32`, one after the other: `y`, `h_n`, and with
//! backward `d_x`, `d_h0`, and `d_w_ih.0`, `d_w_hh.0`, `d_b_ih.0`, `d_b_hh.0` for each direction of each layer.

use std::{
    env, fmt,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::problem::Mode;

/// Why a peer gave no result.
#[derive(Debug)]
pub enum NoAnswer {
    /// It does not compute this.
    Declined(String),
    /// It ended, or its answer is not of the protocol.
    Failed(String),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declined(reason) | Self::Failed(reason) => f.write_str(reason),
        }
    }
}

impl From<NoAnswer> for String {
    fn from(reason: NoAnswer) -> Self {
        reason.to_string()
    }
}

const ONNX_RUNTIME: &str = include_str!("peers/onnxruntime_peer.py");
const TORCH: &str = include_str!("peers/torch_peer.py");

/// The program of a peer, from the folder that `benches/peers/install` fills.
///
/// # Errors
/// If the path of this program is not known.
pub fn command(peer: &str, bin: &Path) -> Result<Command, String> {
    let python = |arguments: &[&str]| {
        let mut command = Command::new(bin.join("python"));
        command.arg("-c").args(arguments);
        command
    };
    Ok(match peer {
        "onnxruntime" => python(&[ONNX_RUNTIME]),
        "torch" | "torch-cell" | "torch-split" | "torchrl" => python(&[TORCH, peer, "cpu"]),
        "candle" => Command::new(bin.join("candle-peer")),
        "onednn" => {
            let mut command = Command::new(bin.join("onednn-peer"));
            // Threads stay on the cores of this process.
            command.env("OMP_PROC_BIND", "true");
            command
        }
        _ => match peer.strip_prefix("torch-") {
            Some(device) => python(&[TORCH, "torch", device]),
            None => {
                let mut command = Command::new(env::current_exe().map_err(|e| e.to_string())?);
                command.args(["serve", peer]);
                command
            }
        },
    })
}

/// A running peer. It is stopped except while it answers, so threads that wait actively do not slow the others.
pub struct Peer {
    /// The name in records.
    pub name: String,
    /// The version that the peer reported.
    pub version: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the process.
    ///
    /// # Errors
    /// The reason why there is no such peer.
    pub fn start(name: &str, command: &mut Command) -> Result<Self, NoAnswer> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| {
            let program = command.get_program().display();
            NoAnswer::Failed(format!("{program}: {e}"))
        })?;
        let input = child.stdin.take().expect("the pipe was requested");
        let output = child.stdout.take().expect("the pipe was requested");
        let mut peer = Self {
            name: name.to_owned(),
            version: String::new(),
            child,
            input,
            output: BufReader::new(output),
        };
        peer.version = peer.answer("ready")?.join(" ");
        peer.pause();
        Ok(peer)
    }

    /// Loads a problem and makes the first call. Returns the names of the outputs and a note.
    ///
    /// # Errors
    /// The reason why the peer does not compute the problem.
    pub fn prepare(
        &mut self,
        problem: &Path,
        mode: Mode,
        out: &Path,
    ) -> Result<(Vec<String>, String), NoAnswer> {
        let (problem, out) = (problem.display(), out.display());
        self.ask(&format!("prepare\t{problem}\t{}\t{out}", mode.name()))?;
        let words = self.answer("ok")?;
        self.pause();
        let names = words.first().map_or("", String::as_str).split_whitespace();
        let note = words.get(1).cloned().unwrap_or_default();
        Ok((names.map(String::from).collect(), note))
    }

    /// Milliseconds of one call, measured over `calls` calls after `warm_up` others.
    ///
    /// # Errors
    /// If the peer ended.
    pub fn sample(&mut self, warm_up: usize, calls: usize) -> Result<f64, NoAnswer> {
        self.ask(&format!("sample\t{warm_up}\t{calls}"))?;
        let words = self.answer("ok")?;
        self.pause();
        let nanoseconds = words.first().and_then(|word| word.parse::<f64>().ok());
        let nanoseconds = nanoseconds
            .ok_or_else(|| NoAnswer::Failed(format!("{}: answered {words:?}", self.name)))?;
        Ok(nanoseconds / 1e6 / calls as f64)
    }

    fn ask(&mut self, line: &str) -> Result<(), NoAnswer> {
        self.signal(true);
        let written = writeln!(self.input, "{line}");
        written.map_err(|e| NoAnswer::Failed(format!("{}: {e}", self.name)))
    }

    /// The words after the first word, which must be `expected`.
    fn answer(&mut self, expected: &str) -> Result<Vec<String>, NoAnswer> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        let mut words = line.trim_end().split('\t').map(String::from);
        match (read, words.next()) {
            (Ok(count), Some(first)) if count > 0 && first == expected => Ok(words.collect()),
            (Ok(count), Some(first)) if count > 0 && first == "no" => {
                self.pause();
                let words = words.collect::<Vec<_>>();
                Err(NoAnswer::Declined(words.join(" ")))
            }
            _ => Err(NoAnswer::Failed(format!(
                "{}: expected `{expected}`, got `{}`",
                self.name,
                line.trim_end()
            ))),
        }
    }

    fn pause(&self) {
        self.signal(false);
    }

    #[cfg(unix)]
    fn signal(&self, run: bool) {
        use rustix::process::{Pid, Signal, kill_process};
        let signal = if run { Signal::CONT } else { Signal::STOP };
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    #[cfg(not(unix))]
    fn signal(&self, _: bool) {}
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
