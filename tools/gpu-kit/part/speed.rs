//! `GruBlock`, `burn::nn::gru::Gru` and cuDNN with equal weights on this device: in float32, then, without Burn's layer, in
//! the 16-bit types that the device has. cuDNN needs PyTorch with CUDA, and runs `torch_peer.py` of the folder.

mod peers;

use std::path::Path;

use bench_support::{
    Layer, MODES, Mode, NoAnswer, Peer, Problem, Program, Shape,
    agree::{self, Outputs},
    interval, median, sgemm_rate, time,
};
use burn::tensor::{DType, Device};
use gru_cube::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, caught, device, read, table};
use peers::{Files, peers};

/// Small shapes first, then the most important shapes, then the slowest.
const ORDER: [&str; 11] = [
    "cell",
    "stream",
    "char-s",
    "char-l",
    "bi-char",
    "deep-char",
    "speech",
    "ragged",
    "big",
    "long",
    "audio",
];

/// A type of the numbers.
#[derive(Clone, Copy)]
struct Type {
    /// On the command line.
    name: &'static str,
    dtype: DType,
    /// Devices of the script.
    peers: &'static [&'static str],
    /// See [`agree::check`].
    rounding: f64,
}

/// The products of `cuda-tf32` round their factors to TF32. That is PyTorch's default for cuDNN, and what Burn's products
/// do on CUDA.
const TYPES: [Type; 3] = [
    Type {
        name: "float32",
        dtype: DType::F32,
        peers: &["cuda", "cuda-tf32"],
        rounding: agree::TF32,
    },
    Type {
        name: "float16",
        dtype: DType::F16,
        peers: &["cuda-float16"],
        rounding: agree::TF32,
    },
    Type {
        name: "bfloat16",
        dtype: DType::BF16,
        peers: &["cuda-bfloat16"],
        rounding: agree::BFLOAT16,
    },
];

/// Samples of a program, unless they take longer than `PATIENCE_MS`. At least one.
const SAMPLES: usize = 31;
const PATIENCE_MS: f64 = 1000.0;

/// A sample is a batch of calls of about this time. The device is waited for at its end.
const SAMPLE_MS: f64 = 10.0;

/// Calls that take longer are not preceded by another one.
const LONG_MS: f64 = 100.0;

/// Milliseconds of a call.
#[derive(Serialize, Deserialize)]
struct Times {
    program: String,
    median: f64,
    /// The 95% interval of the median.
    interval: (f64, f64),
    samples: usize,
}

#[derive(Serialize, Deserialize)]
struct Row {
    shape: String,
    dtype: String,
    mode: String,
    /// gru-op, Burn with float32, and the peers of the [`Type`].
    times: Vec<Times>,
    /// Milliseconds until a call of gru-op returned, before the device had finished.
    host: f64,
    /// Of gru-op.
    gflops: f64,
    /// The largest difference between two programs, relative to the largest value of the tensor.
    difference: f64,
    /// Size and GFLOP/s of a large matrix product, in the first row.
    product: Option<(usize, f64)>,
    /// Of PyTorch.
    version: Option<String>,
}

impl From<NoAnswer> for Stop {
    fn from(reason: NoAnswer) -> Self {
        Self::Failed(reason.into())
    }
}

/// The calls of a sample: some that are not timed, then the timed ones.
#[derive(Clone, Copy)]
struct Plan {
    warm_up: usize,
    batch: usize,
}

/// A program with a shape and a mode.
enum Runner<'a> {
    Burn(Box<Layer>, &'static str),
    Peer(&'a mut Peer),
}

impl Runner<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Burn(_, name) => name,
            Self::Peer(peer) => &peer.name,
        }
    }

    /// Milliseconds of a call and of its host part.
    fn sample(&mut self, plan: Plan, device: &Device) -> Result<[f64; 2], NoAnswer> {
        let Plan { warm_up, batch } = plan;
        match self {
            Self::Burn(layer, _) => {
                (0..warm_up).for_each(|_| layer.call());
                let times = time(&|| layer.call(), batch, device);
                Ok([times.done, times.host])
            }
            Self::Peer(peer) => Ok([peer.sample(warm_up, batch)?, 0.0]),
        }
    }
}

/// `more` is empty, or names of shapes and [`TYPES`].
pub fn run(rows: &mut Rows, clock: &Clock, more: &[String]) -> Result<(), Stop> {
    let types = TYPES.map(|of| of.name);
    let mut known = ORDER.iter().chain(&types);
    if let Some(other) = more
        .iter()
        .find(|&name| !known.clone().any(|known| known == name))
    {
        let known = known.by_ref().copied().collect::<Vec<_>>();
        return Err(format!("expected {}, got {other:?}", known.join(", ")).into());
    }
    let are_wanted = |names: &[&'static str]| -> Vec<&'static str> {
        let named = names
            .iter()
            .filter(|name| more.iter().any(|wanted| wanted == *name));
        let named: Vec<_> = named.copied().collect();
        if named.is_empty() {
            names.to_vec()
        } else {
            named
        }
    };
    let device = device();
    let client = cubecl::Device::default().client();
    // A smaller size is enough for a CPU.
    let size = if Limits::of(&client).cpu { 256 } else { 4096 };
    sgemm_rate(&device, size);
    let mut product = Some((size, sgemm_rate(&device, size)));
    let files = Files::new();
    let names = are_wanted(&types);
    let wanted_types: Vec<_> = TYPES
        .into_iter()
        .filter(|of| names.contains(&of.name) && device.supports_dtype(of.dtype))
        .collect();
    if wanted_types.is_empty() {
        return Err(format!("the device does not have {}", names.join(" or ")).into());
    }
    let mut peers = peers(&wanted_types);
    let shapes = are_wanted(&ORDER);
    let rows_of = wanted_types
        .into_iter()
        .flat_map(|of| shapes.iter().map(move |&name| (of, name)));
    for (of_type, name) in rows_of {
        let shape = Shape::find(name).expect("a shape");
        let problem = Problem::new(shape);
        let written = problem.write(&files.problem);
        written.map_err(|e| format!("{}: {e}", files.problem.display()))?;
        for mode in MODES {
            clock.check(|| format!("for {name} {} {}", of_type.name, mode.name()))?;
            let (mut runners, difference) =
                prepare(&problem, mode, (&device, of_type), &mut peers, &files)?;
            let (times, host) = measure(&mut runners, &device)?;
            rows.add(&Row {
                shape: name.to_owned(),
                dtype: of_type.name.to_owned(),
                mode: mode.name().to_owned(),
                gflops: shape.flops(mode) / (times[0].median * 1e6),
                times,
                host,
                difference,
                product: product.take(),
                version: peers.first().map(|peer| peer.version.clone()),
            })?;
        }
    }
    Ok(())
}

/// All programs after their first call, which compiles kernels, and the largest difference of their numbers.
fn prepare<'a>(
    problem: &Problem,
    mode: Mode,
    (device, of_type): (&Device, Type),
    peers: &'a mut [Peer],
    files: &Files,
) -> Result<(Vec<Runner<'a>>, f64), Stop> {
    let mut runners = Vec::new();
    let mut outputs = Vec::new();
    let mut programs = vec![(Program::Block, "gru-op")];
    programs.extend((of_type.dtype == DType::F32).then_some((Program::Burn, "burn")));
    for (program, name) in programs {
        let layer = Layer::new(problem, program, mode, device, of_type.dtype);
        let tensors = caught(|| layer.outputs())
            .map_err(|panic| format!("{} {name}: {panic}", problem.shape.name))?;
        outputs.push(Outputs::new(name, tensors, problem, mode)?);
        runners.push(Runner::Burn(Box::new(layer), name));
    }
    let is_of_type = |peer: &&mut Peer| of_type.peers.contains(&peer.name.as_str());
    for peer in peers.iter_mut().filter(is_of_type) {
        let out: &Path = &files.outputs;
        let (names, _) = peer.prepare(&files.problem, mode, out)?;
        outputs.push(Outputs::read(&peer.name, &names, out, problem, mode)?);
        runners.push(Runner::Peer(peer));
    }
    let differences = agree::check(&outputs, problem, of_type.rounding)?;
    Ok((runners, differences.into_values().fold(0.0, f64::max)))
}

/// Interleaved samples of all programs, and the host time of the first.
fn measure(runners: &mut [Runner], device: &Device) -> Result<(Vec<Times>, f64), NoAnswer> {
    let mut plans = Vec::new();
    let mut samples = Vec::new();
    for runner in &mut *runners {
        let one = Plan {
            warm_up: 0,
            batch: 1,
        };
        // The program has made a call.
        let first = runner.sample(one, device)?;
        let [done, _] = first;
        plans.push(if done < LONG_MS {
            let batch = (SAMPLE_MS / done.max(1e-3)).ceil() as usize;
            let plan = Plan {
                warm_up: batch,
                batch,
            };
            // For calls that follow each other fusion finds other kernels, which are compiled.
            runner.sample(plan, device)?;
            runner.sample(plan, device)?;
            plan
        } else {
            one
        });
        samples.push(if done < PATIENCE_MS {
            Vec::new()
        } else {
            vec![first]
        });
    }
    for _ in 0..SAMPLES {
        for (k, runner) in runners.iter_mut().enumerate() {
            let spent: f64 = samples[k].iter().map(|[done, _]| done).sum();
            if spent * (plans[k].batch as f64) < PATIENCE_MS {
                samples[k].push(runner.sample(plans[k], device)?);
            }
        }
    }
    let host = median(samples[0].iter().map(|&[_, host]| host).collect());
    let times = runners.iter().zip(samples).map(|(runner, samples)| {
        let samples: Vec<f64> = samples.into_iter().map(|[done, _]| done).collect();
        Times {
            program: runner.name().to_owned(),
            interval: interval(&samples),
            samples: samples.len(),
            median: median(samples),
        }
    });
    Ok((times.collect(), host))
}

pub fn page(rows: &[Value]) -> String {
    let rows = read::<Row>(rows);
    let mut intro = String::new();
    if let Some((size, rate)) = rows.iter().find_map(|row| row.product) {
        intro += &format!("A product of two {size} x {size} matrices: {rate:.0} GFLOP/s.\n\n");
    }
    if let Some(version) = rows.iter().find_map(|row| row.version.as_ref()) {
        intro += &format!("PyTorch {version}. ");
    }
    intro += "Milliseconds with the 95% interval of the median, and the time divided by the time of gru-op.\n\n";
    let lines = rows.iter().map(|row| {
        let ours = row.times[0].median;
        let cell = |times: &Times| {
            let (low, high) = times.interval;
            let factor = times.median / ours;
            format!("{:.4} ({low:.4} to {high:.4}) {factor:.2}", times.median)
        };
        let of = |programs: &[&str]| {
            let is_one = |times: &&Times| programs.contains(&times.program.as_str());
            let found = row.times.iter().find(is_one);
            found.map_or("–".to_owned(), cell)
        };
        vec![
            row.shape.clone(),
            row.dtype.clone(),
            row.mode.clone(),
            of(&["gru-op"]),
            of(&["burn"]),
            of(&["cuda", "cuda-float16", "cuda-bfloat16"]),
            of(&["cuda-tf32"]),
            format!("{:.3}", row.host),
            format!("{:.0}", row.gflops),
            format!("{:.0e}", row.difference),
        ]
    });
    let head = [
        "shape",
        "type",
        "mode",
        "gru-op",
        "Burn",
        "cuDNN",
        "cuDNN, TF32",
        "host",
        "GFLOP/s",
        "difference",
    ];
    intro + &table(&head, lines)
}
