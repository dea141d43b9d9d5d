//! Compares gru-op, Burn's own `Gru`, PyTorch, ONNX Runtime, oneDNN and others on the CPU, and makes the tables of the
//! documents.
//!
//!     cargo run --release -p gru-benches -- [OPTIONS]
//!     cargo run --release -p gru-benches -- tables [--write]
//!
//! `--help` lists the options. The features wgpu, vulkan, metal and cuda add the peers gru-op-wgpu, burn-wgpu, gru-op-cuda,
//! burn-cuda, torch-cuda, torch-cuda-tf32, and gru-op-cuda-float16 and the like. A name with -replay at the end is a
//! recorded graph. prepared-flex is `GruBlock::prepare`.
//! Peers with fewer bits are prepared-flex-bf16, openvino-bf16, prepared-flex-int8 and ncnn-int8.
//!
//! Before anything is timed, all peers of a row compute it, and their numbers are compared. Samples are interleaved: a
//! sample of each peer, then the next sample of each peer. Calls below a millisecond are timed in batches. A peer that is
//! missing or fails ends the command.
//!
//! `tables` compares the generated tables of the documents with their records. `--write` updates them.

mod agree;
mod burn_gru;
mod chart;
mod facts;
mod layer;
mod peer;
mod problem;
mod protocol;
mod record;
mod serve;
mod tables;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    builder::{RangedU64ValueParser, TypedValueParser},
};

use crate::{
    peer::Peer,
    problem::{Mode, Problem, SHAPES, Shape},
    record::{Record, Row},
};

const PEERS: &str = "gru-op-flex,prepared-flex,burn-flex,candle,rten,tract,ncnn,paddle,torch,torch-cell,torch-split,torchrl,\
    onnxruntime,openvino,onednn,onednn-sycl";

const SAMPLES: usize = 31;
const SECONDS: usize = 8;
/// The fewest samples of a slow peer. An interval of the median requires six.
const LEAST_SAMPLES: usize = 7;

#[derive(Parser)]
#[command(
    about = "Compares gru-op with other GRUs",
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    task: Option<Task>,

    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Task {
    /// Compare the generated tables of the documents with their records
    Tables {
        /// Update them
        #[arg(long)]
        write: bool,
    },
    /// Run as a peer of another process
    #[command(hide = true)]
    Serve { peer: String },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.task {
        None => compare(&cli.options),
        Some(Task::Tables { write }) => tables::check(&root(), *write),
        Some(Task::Serve { peer }) => {
            serve::serve(peer);
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[derive(Args)]
struct Options {
    /// The peers
    #[arg(long, value_delimiter = ',', default_value = PEERS)]
    peers: Vec<String>,

    /// The shapes
    #[arg(long, value_delimiter = ',', value_parser = shape, default_values = SHAPES.iter().map(|shape| shape.name))]
    shapes: Vec<&'static Shape>,

    /// The modes: inference, or forward and backward
    #[arg(long, value_enum, value_delimiter = ',', default_values = Mode::value_variants().iter().map(|mode| mode.name()))]
    modes: Vec<Mode>,

    /// The thread counts. Default: all cores
    #[arg(long, value_delimiter = ',', value_parser = positive(), default_values_t = [facts::cores().len()])]
    threads: Vec<usize>,

    /// The cores of each peer. Default: as many as threads
    #[arg(long, value_parser = positive())]
    cores: Option<usize>,

    /// Samples of each peer
    #[arg(long, value_parser = positive(), default_value_t = SAMPLES)]
    samples: usize,

    /// Time of each peer and row. A slower peer has fewer samples, at least 7
    #[arg(long, value_parser = positive(), default_value_t = SECONDS)]
    seconds: usize,

    /// Add the rows to this record, and replace older rows. Not with fewer samples or seconds than the default
    #[arg(long)]
    csv: Option<PathBuf>,

    /// The folder of `benches/peers/install`
    #[arg(long, default_value_os_t = root().join("target/peers"))]
    folder: PathBuf,
}

fn positive() -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(1..)
}

fn shape(name: &str) -> Result<&'static Shape, String> {
    let all = || {
        let names = SHAPES.iter().map(|shape| shape.name);
        names.collect::<Vec<_>>().join(", ")
    };
    Shape::find(name).ok_or_else(|| format!("expected one of {}", all()))
}

fn compare(options: &Options) -> Result<(), String> {
    // The checkout may change later.
    facts::commit();
    facts::date();
    let is_short = options.samples < SAMPLES || options.seconds < SECONDS;
    if options.csv.is_some() && is_short {
        return Err(format!(
            "--csv: expected at least {SAMPLES} samples and {SECONDS} seconds"
        ));
    }
    let mut record = options.csv.as_deref().map(Record::open).transpose()?;
    let scratch = tempfile::tempdir().map_err(|e| e.to_string())?;
    options.threads.iter().try_for_each(|&threads| {
        let pinned = facts::pin(options.cores.unwrap_or(threads));
        println!("{threads} threads, {pinned}");
        let is_usual = options.cores.is_none() && !pinned.starts_with("not");
        let note = if is_usual { "" } else { &pinned };
        let mut peers = start(options, threads)?;
        for shape in &options.shapes {
            for &mode in &options.modes {
                let rows = compare_row(options, shape, mode, threads, &mut peers, scratch.path())?;
                if let Some(record) = &mut record {
                    record.add(rows, note)?;
                }
            }
        }
        Ok(())
    })
}

/// Starts all peers.
fn start(options: &Options, threads: usize) -> Result<Vec<Peer>, String> {
    let mut peers = Vec::new();
    for name in &options.peers {
        let mut command = peer::command(name, &options.folder.join("bin"))?;
        for pool in ["RAYON", "MATMUL", "OMP", "MKL", "RTEN"] {
            command.env(format!("{pool}_NUM_THREADS"), threads.to_string());
        }
        let peer = Peer::start(name, command.envs(KEEP_MEMORY)).map_err(|reason| {
            format!("{name}: missing, {reason}. `benches/peers/install` installs it, --peers selects others")
        })?;
        println!("{name}: {}", peer.version);
        peers.push(peer);
    }
    Ok(peers)
}

/// Lets glibc keep freed memory. Otherwise it returns most of a call's memory to the system, because a peer frees
/// everything after each call, and the next call waits for page faults.
const KEEP_MEMORY: [(&str, &str); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", "1073741824"),
    ("MALLOC_TRIM_THRESHOLD_", "4294967296"),
    ("MALLOC_TOP_PAD_", "67108864"),
];

/// A sample begins with untimed calls of this time, and at least one: other peers used the caches, and threads that
/// slept may share a core for some milliseconds until the system moves one of them. Without it, two threads of gru-op
/// took 2.6 ms instead of 1.3 ms for `torchrl-cpu`.
const WARM_UP_MS: f64 = 20.0;

/// Calls that take longer are not preceded by another one.
const LONG_MS: f64 = 200.0;

/// A row is measured again if other machines on the same host took this percentage of its time or more. In such a row
/// peers with as many threads as cores lose most.
const MOST_STEAL: f64 = 5.0;

/// Measurements of a row, at most. The last one counts.
const ATTEMPTS: usize = 3;

/// A peer that computes a row.
struct Runner<'a> {
    peer: &'a mut Peer,
    note: String,
    /// Untimed and timed calls of a sample.
    warm_up: usize,
    batch: usize,
    samples: Vec<f64>,
}

fn compare_row(
    options: &Options,
    shape: &'static Shape,
    mode: Mode,
    threads: usize,
    peers: &mut [Peer],
    scratch: &Path,
) -> Result<Vec<Row>, String> {
    println!(
        "\n{} {:?} {} {threads} threads",
        shape.name,
        shape.sizes,
        mode.name()
    );
    let problem = Problem::new(shape);
    let file = scratch.join(shape.name).with_extension("bin");
    problem
        .write(&file)
        .map_err(|e| format!("{}: {e}", file.display()))?;
    let mut runners = Vec::new();
    let mut outputs = Vec::new();
    for peer in peers {
        let out = scratch.join(format!("{}.out", peer.name));
        match peer.prepare(&file, mode, &out)? {
            Ok((names, note)) => {
                // oneDNN ignores starts, and then has no outputs.
                if !names.is_empty() {
                    let read = agree::Outputs::read(&peer.name, &names, &out, &problem, mode);
                    outputs.push(read?);
                }
                runners.push(Runner {
                    peer,
                    note,
                    warm_up: 0,
                    batch: 1,
                    samples: Vec::new(),
                });
            }
            Err(reason) => println!("{:16} {reason}", peer.name),
        }
    }
    let rounding = agree::rounding(&options.peers);
    let differences = agree::check(&outputs, &problem, rounding)?;
    drop(outputs);
    runners.iter_mut().try_for_each(Runner::choose_batch)?;
    let mut steal = 0.0;
    for _ in 0..ATTEMPTS {
        steal = take_samples(options, &mut runners)?;
        if steal.is_nan() || steal < MOST_STEAL {
            break;
        }
        println!("{steal:.1}% of the time was stolen");
    }
    let rows: Vec<Row> = runners
        .into_iter()
        .map(|runner| {
            let peer = (runner.peer.name.as_str(), runner.peer.version.as_str());
            let row = Row::new(peer, (shape.name, mode.name(), threads), &runner.samples);
            Row {
                batch: Some(runner.batch),
                gflops: shape.flops(mode) / (row.median_ms * 1e6),
                difference: differences.get(&runner.peer.name).copied(),
                steal_percent: Some(steal),
                note: runner.note,
                ..row
            }
        })
        .collect();
    let ours = rows.iter().find(|row| row.peer.starts_with("gru-op"));
    for row in &rows {
        let factor = ours.map_or(String::new(), |ours| record::factor(row, ours).to_string());
        println!(
            "{:16} {:10.4} ms ({:.4} to {:.4}, {} samples) {factor:>6} {}",
            row.peer, row.median_ms, row.low_ms, row.high_ms, row.samples, row.note
        );
    }
    Ok(rows)
}

/// Takes all samples of a row, alternately. Returns the percentage of stolen time.
fn take_samples(options: &Options, runners: &mut [Runner]) -> Result<f64, String> {
    for runner in &mut *runners {
        runner.samples.clear();
    }
    let before = facts::steal();
    let limit = options.seconds as f64 * 1e3;
    for round in 0..options.samples {
        for runner in &mut *runners {
            let spent = runner.samples.iter().sum::<f64>() * runner.batch as f64;
            if round < LEAST_SAMPLES || spent <= limit {
                let ms = runner.peer.sample(runner.warm_up, runner.batch)?;
                runner.samples.push(ms);
            }
        }
    }
    Ok(before.percent_until(&facts::steal()))
}

impl Runner<'_> {
    /// Chooses how many calls a sample has.
    fn choose_batch(&mut self) -> Result<(), String> {
        let mut one = self.peer.sample(0, 1)?;
        if one < LONG_MS {
            one = one.min(self.peer.sample(1, 1)?);
        }
        let calls = |ms: f64| (ms / one.max(1e-6)).ceil().max(1.0) as usize;
        self.warm_up = if one < LONG_MS { calls(WARM_UP_MS) } else { 0 };
        self.batch = calls(1.0);
        Ok(())
    }
}
