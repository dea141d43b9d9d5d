//! `GruBlock` and `burn::nn::gru::Gru`: same backend, same process, same weights, interleaved.
//!
//!     cargo bench -p gru-benches --bench sequence [-- OPTIONS]
//!
//! --backends flex,ndarray   the backends; default: both. The features wgpu, vulkan and metal add wgpu,
//!                           the feature cuda adds cuda
//! --threads 1,2             one process for each thread count; default: all cores
//! --shapes char-s,long      the shapes; default: all
//! --modes infer,fwd_bwd     the modes; default: all
//! --sgemm 2048              size of the matrix product that measures the sgemm rate
//! --csv FILE                also appends rows to this record (see benches/results)
//!
//! Milliseconds are medians of at least 15 samples, or of 3 samples if a call takes a second. "host ms"
//! is the time until `GruBlock` returns, before a GPU has finished. "of sgemm" is the share of the rate
//! of a large matrix product in the same process on the same backend. Burn's `Gru` has one layer and one
//! direction. For other shapes, several `Gru`s are combined, as its users do.

use std::{fs::OpenOptions, io::Write, process::Command, time::Duration};

use bench_support::{MODES, Mode, SHAPES, Times, flops, saved, sgemm_rate, side_by_side};
use burn::tensor::Device;

/// Time for one shape and mode. A few calls always run, even if they take longer.
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
        // Thread pools get their size once, so each count needs a process.
        for threads in threads.split(',') {
            let program = std::env::current_exe().expect("the program has a path");
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
        #[allow(deprecated)] // Supported as long as it exists.
        "ndarray" => Device::ndarray(),
        #[cfg(feature = "wgpu")]
        "wgpu" => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cuda")]
        "cuda" => {
            let found = Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec();
            found.into_iter().next().expect("a CUDA device exists")
        }
        other => panic!("backend {other}: not in this build"),
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

    #[allow(clippy::too_many_arguments)] // One argument per column.
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
