//! The GRUs of published models beside ONNX Runtime: same inputs, turn by turn.
//!
//!     cargo bench -p gru-benches --bench models -- DIR [OPTIONS]
//!     cargo bench -p gru-benches --bench models -- --step
//!
//! DIR is what `models/fetch.py` filled and `models/reference.py` recorded in.
//!
//! --rounds 15         how often each takes its turn
//! --python python3    a Python that has numpy, onnx, onnxruntime, safetensors
//! --csv FILE          also append rows to this record
//! --step              instead: where the time of one step goes; needs no files
//!
//! Milliseconds for one second of sound, medians; GRUs alone, those of one model in a row. `file` is
//! one call for the whole file, `frame` one call for each frame, with the state carried on.

mod network;
mod onnxruntime;
mod step;
mod times;

use std::{path::Path, process::ExitCode};

use burn::tensor::Device;
use network::{MODELS, Network};
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
            // cargo says so.
            ("--bench", _) => {}
            ("--step", _) => {
                step::run();
                return Ok(());
            }
            ("--rounds", Some(count)) => {
                let wrong = || format!("--rounds: expected a number, got {count}");
                rounds = count.parse().map_err(|_| wrong())?;
            }
            ("--python", Some(program)) => python = program,
            ("--csv", value @ Some(_)) => csv = value,
            (option, _) if option.starts_with('-') => {
                return Err(format!("{option}: no such option"));
            }
            (dir, _) => root = Some(dir.to_string()),
        }
    }
    let root = root.ok_or("which models? give the folder that fetch.py filled")?;
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
            let stream = key("frame", "Stream", 1);
            for threads in [1, 2] {
                let pool = &pools[threads - 1];
                let file = pool.install(|| network.time_file());
                times.add(key("file", "GruBlock", threads), file);
                let frame = pool.install(|| network.time_steps());
                times.add(key("frame", "GruBlock", threads), frame);
            }
            times.add(stream, network.time_streams());
        }
    }
    println!(
        "ms for a second of sound, medians of {rounds} rounds; onnxruntime {}\n",
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
