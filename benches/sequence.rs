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
//! --csv FILE                also append rows to this record (see benches/results)
//!
//! Milliseconds are medians of 15 samples or more, of 3 where a call takes a second; "host ms" is
//! when a call of ours returns, before a GPU is done. "of sgemm" is the share of the rate of a
//! large product by the same backend, measured in the same process. Burn's `Gru` has one layer and
//! one direction: for others it is composed of several, as its users do.

use std::{fs::OpenOptions, io::Write, process::Command, time::Duration};

use bench_support::{MODES, Mode, SHAPES, Times, flops, saved, sgemm_rate, side_by_side};
use burn::tensor::Device;

/// How long a shape and mode is measured, or as long as a few calls take.
const PATIENCE: Duration = Duration::from_secs(2);

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
                let (burn, ours) = side_by_side(sizes, mode, &device, PATIENCE);
                let flops = flops(sizes, mode);
                let gflops = flops / (ours.median * 1e6);
                let saved = if mode == Mode::Infer { 0 } else { saved(sizes) };
                let (theirs, factor) = if burn.median.is_nan() {
                    ("–".to_string(), "–".to_string())
                } else {
                    (
                        format!("{:.4}", burn.median),
                        format!("{:.1}x", burn.median / ours.median),
                    )
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

/// Rows of `benches/results`.
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
