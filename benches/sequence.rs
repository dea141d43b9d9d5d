//! `GruBlock` beside `burn::nn::gru::Gru`: same backend, same process, same weights, turn by turn.
//!
//!     cargo bench -p gru-benches --bench sequence [-- OPTIONS]
//!
//! --backends flex,ndarray   which backends; both by default; with the feature wgpu (or vulkan,
//!                           metal: the same by other shaders) also wgpu, with cuda also cuda
//! --threads 1,2             one run for each, in a process of its own; all cores by default
//! --shapes char-s,long      which shapes
//! --modes infer,fwd_bwd     which modes; all by default
//! --sgemm 2048              size of the product that tells the sgemm rate
//! --csv FILE                also append rows to this record (see benches/record)
//!
//! Milliseconds are medians of 15 samples or more, of 3 where a call takes a second; "host ms" is
//! when a call of ours returns, before a GPU is done. "of sgemm" is the share of the rate of a
//! large product by the same backend, measured in the same process. Burn's `Gru` has one layer and
//! one direction: for others it is composed of several, as its users do.

use std::{
    fs::OpenOptions,
    hint::black_box,
    io::Write,
    process::Command,
    time::{Duration, Instant},
};

use burn::{
    nn::gru::{Gru, GruConfig},
    tensor::{DType, Device, Distribution, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig, GruSpec};

/// N, T, I, H, layers, directions.
const SHAPES: &[(&str, [usize; 6])] = &[
    ("cell", [1, 1, 64, 128, 1, 1]),
    ("stream", [1, 128, 64, 128, 1, 1]),
    ("audio", [1, 2048, 1, 32, 1, 1]),
    ("char-s", [32, 64, 128, 256, 1, 1]),
    ("char-l", [64, 100, 256, 512, 1, 1]),
    ("speech", [16, 400, 80, 512, 1, 1]),
    ("long", [8, 2048, 64, 64, 1, 1]),
    ("big", [64, 50, 1024, 1024, 1, 1]),
    ("bi-char", [32, 64, 128, 256, 1, 2]),
    ("deep-char", [32, 64, 128, 256, 3, 1]),
];

const MODES: [Mode; 3] = [Mode::Infer, Mode::TrainForward, Mode::ForwardBackward];

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// Nothing recorded.
    Infer,
    /// Everything recorded that backward needs.
    TrainForward,
    /// Gradients of x, the initial state, every weight and bias.
    ForwardBackward,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Infer => "infer",
            Self::TrainForward => "train_fwd",
            Self::ForwardBackward => "fwd_bwd",
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        Some(arguments.get(at + 1)?.clone())
    };
    let list = |name: &str, default: &str| -> Vec<String> {
        let words = option(name).unwrap_or_else(|| default.to_string());
        words.split(',').map(String::from).collect()
    };
    if let Some(threads) = option("--threads").filter(|_| std::env::var("GRU_BENCH").is_err()) {
        // Thread pools are sized once: a process for each count.
        for threads in threads.split(',') {
            let program = std::env::current_exe().expect("a program has a path");
            let status = Command::new(program)
                .args(&arguments)
                .env("GRU_BENCH", threads)
                .env("RAYON_NUM_THREADS", threads)
                .env("MATMUL_NUM_THREADS", threads)
                .status();
            assert!(status.is_ok_and(|s| s.success()), "{threads} threads");
        }
        return;
    }
    let threads = std::env::var("GRU_BENCH").unwrap_or_else(|_| {
        let all = std::thread::available_parallelism();
        all.map_or(1, usize::from).to_string()
    });
    let mut record = option("--csv").map(|path| Record::open(&path));
    let (shapes, modes) = (list("--shapes", ""), list("--modes", ""));
    let size = option("--sgemm").map_or(2048, |size| size.parse().expect("--sgemm is a number"));
    for name in list("--backends", "flex,ndarray") {
        let device = device(&name);
        let rate = sgemm_rate(&device, size);
        println!("\n{name}, {threads} threads, sgemm {rate:.0} GFLOP/s\n");
        println!(
            "{:10} {:10} {:>10} {:>10} {:>7} {:>9} {:>9} {:>12} {:>9}",
            "shape",
            "mode",
            "burn ms",
            "ours ms",
            "times",
            "GFLOP/s",
            "of sgemm",
            "saved floats",
            "host ms"
        );
        for (shape, sizes) in SHAPES {
            if shapes != [""] && !shapes.iter().any(|s| s == shape) {
                continue;
            }
            for mode in MODES {
                if modes != [""] && !modes.iter().any(|m| m == mode.name()) {
                    continue;
                }
                let (burn, ours) = side_by_side(sizes, mode, &device);
                let flops = flops(sizes, mode);
                let gflops = flops / (ours.median * 1e6);
                let saved = if mode == Mode::Infer { 0 } else { saved(sizes) };
                let (theirs, factor) = match burn.median.is_nan() {
                    true => ("–".to_string(), "–".to_string()),
                    false => (
                        format!("{:.4}", burn.median),
                        format!("{:.1}x", burn.median / ours.median),
                    ),
                };
                println!(
                    "{shape:10} {:10} {theirs:>10} {:10.4} {factor:>7} {gflops:9.1} {:8.0}% \
                     {saved:12} {:9.4}",
                    mode.name(),
                    ours.median,
                    100.0 * gflops / rate,
                    ours.host,
                );
                if let Some(record) = &mut record {
                    for (peer, times, saved) in [("burn", burn, 0), ("gru-op", ours, saved)] {
                        if times.median.is_nan() {
                            continue;
                        }
                        let peer = format!("{peer}-{name}");
                        record.row(&peer, shape, mode, &threads, times, flops, rate, saved);
                    }
                }
            }
        }
    }
}

fn device(name: &str) -> Device {
    match name {
        "flex" => Device::flex(),
        #[allow(deprecated)] // Its users are served until it goes.
        "ndarray" => Device::ndarray(),
        #[cfg(feature = "wgpu")]
        "wgpu" => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cuda")]
        "cuda" => {
            let found = Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec();
            found.into_iter().next().expect("there is a CUDA device")
        }
        other => panic!("this build has no backend {other}"),
    }
}

/// Inputs of each layer.
fn layer_inputs([_, _, i, h, layers, directions]: [usize; 6]) -> impl Iterator<Item = usize> {
    (0..layers).map(move |layer| if layer == 0 { i } else { h * directions })
}

/// Of the products alone: the gates come for free, or should.
fn flops(sizes: &[usize; 6], mode: Mode) -> f64 {
    let &[n, t, _, h, _, directions] = sizes;
    let forward: usize = layer_inputs(*sizes)
        .map(|i| 2 * n * t * (i + h) * 3 * h * directions)
        .sum();
    let passes = if mode == Mode::ForwardBackward { 3 } else { 1 };
    (forward * passes) as f64
}

/// Floats that training keeps beside inputs and states, by the contract; `memory.rs` measures it.
fn saved(&[n, t, _, h, layers, directions]: &[usize; 6]) -> usize {
    GruSpec::default().saved_per_unit() * n * t * h * layers * directions
}

#[derive(Clone, Copy)]
struct Times {
    median: f64,
    least: f64,
    /// Median until the call returns.
    host: f64,
    samples: usize,
}

/// One sample: milliseconds until the call returns, and until its work is done.
#[derive(Clone, Copy)]
struct Sample {
    host: f64,
    done: f64,
}

fn side_by_side(sizes: &[usize; 6], mode: Mode, device: &Device) -> (Times, Times) {
    let device = match mode {
        Mode::Infer => device.clone(),
        _ => device.clone().autodiff(),
    };
    let case = Case::new(*sizes, &device);
    let burn = || case.burn(mode);
    let ours = || case.ours(mode);
    // Warm, and how many make a millisecond: short calls in batches, so that the clock does not
    // count.
    let batch = |run: &dyn Fn()| {
        time(run, 1, &device);
        let one = time(run, 1, &device).done;
        ((1.0 / one.max(1e-6)).ceil().max(1.0) as usize, one > 1e3)
    };
    // Burn's graphs that no backward frees are searched by every later backward, for minutes after
    // some thousands.
    let with_burn = mode != Mode::TrainForward;
    let (burn_batch, slow) = if with_burn { batch(&burn) } else { (1, false) };
    let (ours_batch, _) = batch(&ours);
    let (burn_least, ours_least) = if slow { (2, 3) } else { (5, 15) };
    let (mut burn_ms, mut ours_ms) = (Vec::new(), Vec::new());
    let start = Instant::now();
    let early = || start.elapsed() < Duration::from_secs(2);
    while ours_ms.len() < ours_least || (early() && ours_ms.len() < 101) {
        if with_burn && (burn_ms.len() < burn_least || early()) {
            burn_ms.push(time(&burn, burn_batch, &device));
        }
        ours_ms.push(time(&ours, ours_batch, &device));
    }
    (times(burn_ms), times(ours_ms))
}

fn time(run: &dyn Fn(), batch: usize, device: &Device) -> Sample {
    device.sync().expect("the device works");
    let start = Instant::now();
    (0..batch).for_each(|_| run());
    let ms = || start.elapsed().as_secs_f64() * 1e3 / batch as f64;
    let host = ms();
    device.sync().expect("the device works");
    Sample { host, done: ms() }
}

fn times(samples: Vec<Sample>) -> Times {
    let sorted = |of: fn(&Sample) -> f64| {
        let mut ms: Vec<f64> = samples.iter().map(of).collect();
        ms.sort_by(f64::total_cmp);
        ms
    };
    let (done, host) = (sorted(|s| s.done), sorted(|s| s.host));
    let middle = |ms: &[f64]| ms.get(ms.len() / 2).copied().unwrap_or(f64::NAN);
    Times {
        median: middle(&done),
        least: done.first().copied().unwrap_or(f64::NAN),
        host: middle(&host),
        samples: samples.len(),
    }
}

/// GFLOP/s of the best of some products of square matrices.
fn sgemm_rate(device: &Device, size: usize) -> f64 {
    let matrix = || Tensor::<2>::random([size, size], Distribution::Default, device);
    let (a, b) = (matrix(), matrix());
    let run = || drop(black_box(a.clone().matmul(b.clone())));
    run();
    let best = times((0..9).map(|_| time(&run, 1, device)).collect()).least;
    2.0 * (size as f64).powi(3) / (best * 1e6)
}

struct Case {
    /// Layer by layer, direction by direction.
    burn: Vec<Gru>,
    ours: GruBlock,
    directions: usize,
    x: Tensor<3>,
    h0: Tensor<3>,
    up: Tensor<3>,
}

impl Case {
    fn new(sizes: [usize; 6], device: &Device) -> Self {
        let [n, t, i, h, layers, directions] = sizes;
        let burn: Vec<Gru> = layer_inputs(sizes)
            .flat_map(|i| (0..directions).map(move |_| i))
            .map(|i| GruConfig::new(i, h, true).init(device))
            .collect();
        let weights = burn.iter().map(|gru| {
            let block = GruBlock::try_from(gru.clone()).expect("the default has kernels");
            block.layers[0].weights()
        });
        let ours = GruBlockConfig::new(i, h)
            .with_num_layers(layers)
            .with_bidirectional(directions == 2)
            .init_with(weights.collect())
            .expect("the shapes are those of the configuration");
        let noise =
            |shape: [usize; 3]| Tensor::random(shape, Distribution::Default, (device, DType::F32));
        Self {
            burn,
            ours,
            directions,
            x: noise([n, t, i]),
            h0: noise([layers * directions, n, h]),
            up: noise([n, t, directions * h]),
        }
    }

    fn burn(&self, mode: Mode) {
        self.run(mode, |x, h0| {
            let mut x = x;
            for (l, layer) in self.burn.chunks(self.directions).enumerate() {
                let outputs = layer.iter().enumerate().map(|(d, gru)| {
                    let state = h0
                        .clone()
                        .narrow(0, l * self.directions + d, 1)
                        .squeeze_dim(0);
                    match d {
                        0 => gru.forward(x.clone(), Some(state)),
                        _ => gru.forward(x.clone().flip([1]), Some(state)).flip([1]),
                    }
                });
                x = Tensor::cat(outputs.collect(), 2);
            }
            x
        });
    }

    fn ours(&self, mode: Mode) {
        self.run(mode, |x, h0| self.ours.forward(x, Some(h0)).0);
    }

    fn run(&self, mode: Mode, forward: impl Fn(Tensor<3>, Tensor<3>) -> Tensor<3>) {
        let (x, h0) = (self.x.clone(), self.h0.clone());
        if mode == Mode::Infer {
            black_box(forward(x, h0));
            return;
        }
        let (x, h0) = (x.require_grad(), h0.require_grad());
        let y = forward(x.clone(), h0.clone());
        if mode == Mode::ForwardBackward {
            let gradients = (y * self.up.clone()).sum().backward();
            black_box((x.grad(&gradients), h0.grad(&gradients)));
        } else {
            black_box(y);
        }
    }
}

/// Rows of `benches/record`.
struct Record {
    file: std::fs::File,
    machine: String,
    date: String,
}

impl Record {
    const HEAD: &str = "date,machine,peer,version,shape,mode,threads,median_ms,min_ms,samples,\
                        gflops,sgemm_gflops,saved_floats";

    fn open(path: &str) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.unwrap_or_else(|e| panic!("{path}: {e}"));
        if file.metadata().is_ok_and(|m| m.len() == 0) {
            writeln!(file, "{}", Self::HEAD).expect("the record can be written");
        }
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = cpu.lines().find_map(|line| line.strip_prefix("model name"));
        let machine = name.map_or("unknown", |n| n.trim_start_matches([':', '\t', ' ']));
        let date = Command::new("date").arg("+%F").output();
        let date = date.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
        Self {
            file,
            machine: machine.to_string(),
            date: date.unwrap_or_default(),
        }
    }

    #[allow(clippy::too_many_arguments)] // A row has so many columns.
    fn row(
        &mut self,
        peer: &str,
        shape: &str,
        mode: Mode,
        threads: &str,
        times: Times,
        flops: f64,
        rate: f64,
        saved: usize,
    ) {
        let version = if peer.starts_with("burn") {
            "0.22.1"
        } else {
            env!("CARGO_PKG_VERSION")
        };
        writeln!(
            self.file,
            "{},{},{peer},{version},{shape},{},{threads},{:.5},{:.5},{},{:.2},{rate:.1},{saved}",
            self.date,
            self.machine,
            mode.name(),
            times.median,
            times.least,
            times.samples,
            flops / (times.median * 1e6),
        )
        .expect("the record can be written");
    }
}
