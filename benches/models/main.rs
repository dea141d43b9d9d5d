//! The GRUs of published models in ONNX Runtime and gru-op: same inputs, interleaved.
//!
//!     cargo bench -p gru-benches --bench models -- DIR [OPTIONS]
//!
//! Milliseconds per second of sound, medians. Only the GRUs run, all GRUs of a model in sequence. `file`
//! is one call for the whole file. `frame` is one call per frame with a carried state.

mod network;
mod onnxruntime;
mod times;

use std::{path::PathBuf, process::ExitCode};

use burn::tensor::Device;
use clap::Parser;
use network::{MODELS, Network, STREAMS};
use onnxruntime::OnnxRuntime;
use times::{Key, Times};

#[derive(Parser)]
#[command(about = "The GRUs of published models in ONNX Runtime and gru-op")]
struct Options {
    /// The folder that fetch.py and reference.py filled
    dir: PathBuf,
    /// Number of rounds
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// A Python with numpy, onnx, onnxruntime and safetensors
    #[arg(long, default_value = "python3")]
    python: String,
    /// Cargo adds this option
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match compare(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// A pool of so many threads: a call uses the pool in which it is made.
fn pool(threads: usize) -> rayon::ThreadPool {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("a pool")
}

fn compare(options: &Options) -> Result<(), String> {
    let Options {
        dir: root,
        rounds,
        python,
        ..
    } = options;
    let device = Device::flex();
    let networks = MODELS
        .iter()
        .map(|model| Network::load(root, model, &device));
    let mut networks = networks.collect::<Result<Vec<_>, _>>()?;
    let mut theirs = OnnxRuntime::start(python, root)?;
    let mut times = Times::default();
    let pools = [pool(1), pool(2)];
    for _ in 0..*rounds {
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
    Ok(())
}
