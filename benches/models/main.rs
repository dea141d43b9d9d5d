//! The GRUs of published models in ONNX Runtime and gru-op: same inputs, interleaved.
//!
//!     cargo bench -p gru-benches --bench models -- DIR [OPTIONS]
//!     cargo bench -p gru-benches --bench models -- --step
//!
//! `models/fetch.py` and `models/reference.py` fill DIR.
//!
//! --rounds 15         number of rounds
//! --python python3    a Python with numpy, onnx, onnxruntime, safetensors
//! --csv FILE          also append rows to this record
//! --step              measures the parts of one step instead; needs no files
//!
//! Milliseconds per second of sound, medians. Only the GRUs run, all GRUs of a model in sequence. `file`
//! is one call for the whole file. `frame` is one call per frame with a carried state.

mod network;
mod onnxruntime;
mod step;
mod times;

use std::{path::Path, process::ExitCode};

use burn::tensor::Device;
use network::{MODELS, Network, STREAMS};
use onnxruntime::OnnxRuntime;
use times::{Key, Times};

const OPTIONS: [&str; 3] = ["--rounds", "--python", "--csv"];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let (mut root, mut rounds, mut python, mut csv) = (None, 15, "python3".to_string(), None);
    while let Some(argument) = arguments.next() {
        let takes_value = OPTIONS.contains(&argument.as_str());
        let value = takes_value.then(|| arguments.next()).flatten();
        if takes_value && value.is_none() {
            return Err(format!("{argument} needs a value"));
        }
        match (argument.as_str(), value) {
            // cargo adds this option.
            ("--bench", _) => {}
            ("--step", _) => {
                step::run();
                return Ok(());
            }
            ("--rounds", Some(count)) => {
                let error = || format!("--rounds: expected a number, got {count}");
                rounds = count.parse().map_err(|_| error())?;
            }
            ("--python", Some(program)) => python = program,
            ("--csv", value @ Some(_)) => csv = value,
            (option, _) if option.starts_with('-') => {
                return Err(format!("unknown option {option}"));
            }
            (dir, _) => root = Some(dir.to_string()),
        }
    }
    let root = root.ok_or("expected DIR, the folder that fetch.py filled")?;
    compare(Path::new(&root), rounds, &python, csv.as_deref())
}

/// A pool of so many threads: a call uses the pool in which it is made.
fn pool(threads: usize) -> rayon::ThreadPool {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("a pool")
}

fn compare(root: &Path, rounds: usize, python: &str, csv: Option<&str>) -> Result<(), String> {
    let device = Device::flex();
    let networks = MODELS
        .iter()
        .map(|model| Network::load(root, model, &device));
    let mut networks = networks.collect::<Result<Vec<_>, _>>()?;
    let mut theirs = OnnxRuntime::start(python, root)?;
    let mut times = Times::default();
    let pools = [pool(1), pool(2)];
    for _ in 0..rounds {
        theirs.round(&mut times)?;
        for network in &mut networks {
            let key = |what: &str, peer: &str, threads| Key {
                model: network.name.into(),
                what: what.into(),
                peer: peer.into(),
                threads,
            };
            for threads in [1, 2] {
                let pool = &pools[threads - 1];
                let file = pool.install(|| network.time_file());
                times.add(key("file", "GruBlock", threads), file);
                let frame = pool.install(|| network.time_steps());
                times.add(key("frame", "GruBlock", threads), frame);
            }
            for (which, (peer, _)) in STREAMS.iter().enumerate() {
                times.add(key("frame", peer, 1), network.time_streams(which));
            }
        }
    }
    println!(
        "ms per second of sound, medians of {rounds} rounds; onnxruntime {}\n",
        theirs.version
    );
    times.print(&MODELS.map(|(name, ..)| name));
    match csv {
        Some(path) => {
            let written = times.write(path, &theirs.version);
            written.map_err(|e| format!("{path}: {e}"))
        }
        None => Ok(()),
    }
}
