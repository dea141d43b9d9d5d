//! Compares gru-op, Burn's own `Gru`, candle, PyTorch, ONNX Runtime and oneDNN on the CPU, and makes the tables of the
//! documents.
//!
//!     cargo run --release -p gru-benches -- [OPTIONS]
//!     cargo run --release -p gru-benches -- tables [--write]
//!
//! `--help` lists the options. The features wgpu, vulkan, metal and cuda add the peers gru-op-wgpu, burn-wgpu, gru-op-cuda,
//! burn-cuda, torch-cuda, torch-cuda-tf32, and gru-op-cuda-float16 and the like. prepared-flex is `GruBlock::prepare`,
//! loss-flex only the loss and its gradient.
//!
//! Before anything is timed, all peers of a row compute it, and their numbers are compared. Samples are interleaved: a
//! sample of each peer, then the next sample of each peer. Calls below a millisecond are timed in batches. A peer that is
//! missing or fails ends the command.
//!
//! `tables` compares the generated tables of the documents with their records. `--write` updates them.

mod agree;
mod burn_gru;
mod facts;
mod layer;
mod peer;
mod problem;
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
    peer::{NoAnswer, Peer},
    problem::{Mode, Problem, SHAPES, Shape},
    record::{Record, Row},
};

const PEERS: &str = "gru-op-flex,prepared-flex,burn-flex,candle,torch,torch-cell,torch-split,torchrl,onnxruntime,onednn";

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
    let is_short = options.samples < SAMPLES || options.seconds < SECONDS;
    // The checkout may change later.
    facts::commit();
    facts::date();
    let mut record = match &options.csv {
        Some(_) if is_short => {
            return Err(format!(
                "--csv: expected at least {SAMPLES} samples and {SECONDS} seconds"
            ));
        }
        Some(path) => Some(Record::open(path)?),
        None => None,
    };
    let scratch = tempfile::tempdir().map_err(|e| e.to_string())?;
    options.threads.iter().try_for_each(|&threads| {
        let pinned = facts::pin(threads);
        println!("{threads} threads, {pinned}");
        let mut peers = start(options, threads)?;
        for shape in &options.shapes {
            for &mode in &options.modes {
                let rows = compare_row(options, shape, mode, threads, &mut peers, scratch.path())?;
                if let Some(record) = &mut record {
                    record.add(rows, &pinned)?;
                }
            }
        }
        Ok(())
    })
}

/// Starts all peers.
fn start(options: &Options, threads: usize) -> Result<Vec<Peer>, String> {
    let start = |name: &String| {
        let mut command = peer::command(name, &options.folder.join("bin"))?;
        for pool in ["RAYON", "MATMUL", "OMP", "MKL"] {
            command.env(format!("{pool}_NUM_THREADS"), threads.to_string());
        }
        let peer = Peer::start(name, command.envs(KEEP_MEMORY))?;
        println!("{name}: {}", peer.version);
        Ok(peer)
    };
    let started = options.peers.iter().map(|name| {
        start(name).map_err(|reason: String| {
            format!(
                "{name}: missing, {reason}. `benches/peers/install` installs it, --peers selects others"
            )
        })
    });
    started.collect()
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
    difference: Option<f64>,
    /// Untimed and timed calls of a sample.
    warm_up: usize,
    batch: usize,
    samples: Vec<f64>,
    /// Milliseconds of all samples.
    spent: f64,
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
        match peer.prepare(&file, mode, &out) {
            Ok((names, note)) => {
                if !names.is_empty() {
                    outputs.push(agree::Outputs::read(
                        &peer.name, &names, &out, &problem, mode,
                    )?);
                }
                runners.push(Runner {
                    peer,
                    note,
                    difference: None,
                    warm_up: 0,
                    batch: 1,
                    samples: Vec::new(),
                    spent: 0.0,
                });
            }
            Err(NoAnswer::Declined(reason)) => println!("{:16} {reason}", peer.name),
            Err(NoAnswer::Failed(reason)) => return Err(reason),
        }
    }
    let rounding = agree::rounding(&options.peers);
    let differences = agree::check(&outputs, &problem, rounding)?;
    drop(outputs);
    for runner in &mut runners {
        runner.difference = differences.get(&runner.peer.name).copied();
    }
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
        .map(|runner| runner.row(shape, mode, threads, steal))
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
        runner.spent = 0.0;
    }
    let before = facts::steal();
    let limit = options.seconds as f64 * 1e3;
    for round in 0..options.samples {
        for runner in &mut *runners {
            if round < LEAST_SAMPLES || runner.spent <= limit {
                runner.take_sample()?;
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

    fn take_sample(&mut self) -> Result<(), String> {
        let ms = self.peer.sample(self.warm_up, self.batch)?;
        self.spent += ms * self.batch as f64;
        self.samples.push(ms);
        Ok(())
    }

    fn row(self, shape: &Shape, mode: Mode, threads: usize, steal: f64) -> Row {
        let peer = (self.peer.name.as_str(), self.peer.version.as_str());
        let row = Row::new(peer, (shape.name, mode.name(), threads), &self.samples);
        Row {
            batch: Some(self.batch),
            gflops: shape.flops(mode) / (row.median_ms * 1e6),
            difference: self.difference,
            steal_percent: Some(steal),
            note: self.note,
            ..row
        }
    }
}
