//! A compared program: a process that answers one line to each line.
//!
//! | request, words separated by tabs | answer |
//! |---|---|
//! | (start) | `ok`, version; or `no`, reason |
//! | `prepare`, problem file, mode, output file | `ok`, names of the outputs, note; or `no`, reason |
//! | `sample`, numbers of untimed and of timed calls | nanoseconds of all timed calls |
//!
//! `prepare` reads the problem, makes one call and writes the outputs as `f32`, one after the other: `y`, `h_n`, and with
//! backward `d_x`, `d_h0`, and `d_w_ih.0`, `d_w_hh.0`, `d_b_ih.0`, `d_b_hh.0` for each direction of each layer.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::problem::Mode;

/// Stands before each program in Python.
const PROTOCOL: &str = include_str!("peers/protocol.py");
const TORCH: &str = include_str!("peers/torch_peer.py");

/// The program of a peer, from the folder that `benches/peers/install` fills.
///
/// # Errors
/// If the path of this program is not known.
pub fn command(peer: &str, bin: &Path) -> Result<Command, String> {
    let program = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(bin.join(name));
        command.args(arguments);
        command
    };
    let python = |source: &str, arguments: &[&str]| {
        let source = [PROTOCOL, source].concat();
        program("python", &[&["-c", &source], arguments].concat())
    };
    Ok(match peer {
        "onnxruntime" | "openvino" | "openvino-bf16" => {
            python(include_str!("peers/onnx_peer.py"), &[peer])
        }
        "ncnn" | "ncnn-int8" => python(include_str!("peers/ncnn_peer.py"), &[peer]),
        "paddle" => python(include_str!("peers/paddle_peer.py"), &[]),
        "torch" | "torch-cell" | "torch-split" | "torchrl" => python(TORCH, &[peer, "cpu"]),
        "candle" | "rten" | "tract" => program("rust-peers", &[peer]),
        "onednn" => {
            let mut command = program("onednn-peer", &[]);
            // Threads stay on the cores of this process.
            command.env("OMP_PROC_BIND", "true");
            command
        }
        "onednn-sycl" => {
            let mut command = program("onednn-sycl-peer", &[]);
            let lib = bin.join("../sycl/lib");
            command.env("OCL_ICD_FILENAMES", lib.join("libintelocl.so"));
            command.env("LD_LIBRARY_PATH", lib);
            command
        }
        _ => match peer.strip_prefix("torch-") {
            Some(device) => python(TORCH, &["torch", device]),
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
    pub fn start(name: &str, command: &mut Command) -> Result<Self, String> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|e| format!("{}: {e}", command.get_program().display()))?;
        let input = child.stdin.take().expect("the pipe was requested");
        let output = child.stdout.take().expect("the pipe was requested");
        let mut peer = Self {
            name: name.to_owned(),
            version: String::new(),
            child,
            input,
            output: BufReader::new(output),
        };
        peer.version = peer.answer()??.join(" ");
        Ok(peer)
    }

    /// Loads a problem and makes the first call. Returns the names of the outputs and a note, or the reason why the peer
    /// does not compute the problem.
    ///
    /// # Errors
    /// If the peer ended.
    pub fn prepare(
        &mut self,
        problem: &Path,
        mode: Mode,
        out: &Path,
    ) -> Result<Result<(Vec<String>, String), String>, String> {
        let (problem, out) = (problem.display(), out.display());
        self.ask(&format!("prepare\t{problem}\t{}\t{out}", mode.name()))?;
        Ok(self.answer()?.map(|words| {
            let names = words.first().map_or("", String::as_str).split_whitespace();
            let note = words.get(1).cloned().unwrap_or_default();
            (names.map(String::from).collect(), note)
        }))
    }

    /// Milliseconds of one call, measured over `calls` calls after `warm_up` others.
    ///
    /// # Errors
    /// If the peer ended.
    pub fn sample(&mut self, warm_up: usize, calls: usize) -> Result<f64, String> {
        self.ask(&format!("sample\t{warm_up}\t{calls}"))?;
        let words = self.answer()??;
        let nanoseconds: f64 = words
            .concat()
            .parse()
            .map_err(|_| self.unexpected(&words))?;
        Ok(nanoseconds / 1e6 / calls as f64)
    }

    fn ask(&mut self, line: &str) -> Result<(), String> {
        self.signal(true);
        writeln!(self.input, "{line}").map_err(|e| format!("{}: {e}", self.name))
    }

    /// The words after `ok`, or the reason after `no`. Stops the process.
    fn answer(&mut self) -> Result<Result<Vec<String>, String>, String> {
        let mut line = String::new();
        let _ = self.output.read_line(&mut line);
        self.signal(false);
        let words: Vec<String> = line.trim_end().split('\t').map(String::from).collect();
        match words[0].as_str() {
            "ok" => Ok(Ok(words[1..].to_vec())),
            "no" => Ok(Err(words[1..].join(" "))),
            _ => Err(self.unexpected(&words)),
        }
    }

    fn unexpected(&self, words: &[String]) -> String {
        format!("{}: unexpected answer {words:?}", self.name)
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
