//! Peak memory of a training step, measured per process and compared with the documented memory
//! contract.
//!
//!     cargo bench -p gru-benches --bench memory
//!
//! Linux only (VmHWM). Each line compares two processes: the first only holds the inputs and the
//! results, the second also computes them. The difference is the operator's own memory. The contract
//! allows the gates (4·T·N·H floats, none with recomputation) and nothing else that grows with T.
//!
//! With `--features wgpu` and `-- --backend wgpu`, the benchmark measures a GPU instead: it polls the
//! bytes in use of the allocator while the calls run.

use std::process::Command;

use burn::tensor::{Device, Distribution, Tensor};
use gru_op::{Checkpointing, GruBlockConfig};

/// N, T, I, H. Each shape needs 100 MiB or more, so the process itself hardly matters.
const SHAPES: [(&str, [usize; 4]); 3] = [
    ("char-l", [64, 200, 256, 512]),
    ("long16k", [8, 16_384, 64, 64]),
    ("long65k", [1, 65_536, 64, 64]),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let backend = match arguments.iter().position(|a| a == "--backend") {
        Some(at) => arguments[at + 1].as_str(),
        None => "flex",
    };
    if let Some(at) = arguments.iter().position(|a| a == "--child") {
        return child(&arguments[at + 1], &arguments[at + 2], backend);
    }
    println!("shape      mode       peak MiB   contract MiB   of contract");
    for (name, [n, t, i, h]) in SHAPES {
        for mode in ["infer", "speed", "lean"] {
            let floats = t * n;
            let kept = match mode {
                // x, y.
                "infer" => floats * (i + h),
                "lean" => floats * (2 * i + 2 * h),
                // x, y, their gradients, the gates.
                _ => floats * (2 * i + 2 * h + 4 * h),
            };
            // Parameters, and their gradients.
            let weights = 3 * h * (i + h + 2) * if mode == "infer" { 1 } else { 2 };
            let contract = ((kept + weights) * 4) as f64 / f64::from(1 << 20);
            let peak = peak(name, mode, backend) - peak(name, "nothing", backend);
            println!(
                "{name:10} {mode:9} {peak:9.1} {contract:14.1} {:12.0}%",
                100.0 * peak / contract
            );
        }
    }
}

/// The peak memory of a process that runs this mode, in MiB.
fn peak(shape: &str, mode: &str, backend: &str) -> f64 {
    let program = std::env::current_exe().expect("the program has a path");
    let output = Command::new(program)
        .args(["--child", shape, mode, "--backend", backend])
        // Freed buffers return to the system at once, so the peak contains no freed memory.
        .env("MALLOC_MMAP_THRESHOLD_", "65536")
        .output()
        .expect("the program can run again");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .unwrap_or_else(|_| panic!("{shape} {mode}: {text}"))
}

fn child(shape: &str, mode: &str, backend: &str) {
    let (_, [n, t, i, h]) = SHAPES.into_iter().find(|s| s.0 == shape).expect("a shape");
    let checkpointing = if mode == "lean" {
        Checkpointing::Recompute
    } else {
        Checkpointing::KeepGates
    };
    let config = GruBlockConfig::new(i, h)
        .with_checkpointing(checkpointing)
        .with_batch_first(false);
    let plain = match backend {
        "flex" => Device::flex(),
        #[cfg(feature = "wgpu")]
        "wgpu" => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        other => panic!("backend {other}: not in this build"),
    };
    let device = plain.clone().autodiff();
    let run = || match mode {
        "nothing" => {
            // Thread pools and code exist, data does not.
            let gru = GruBlockConfig::new(i.min(8), 8).init(&device);
            let x = Tensor::random([2, 8, i.min(8)], Distribution::Default, &device);
            drop(gru.forward(x, None).0.sum().backward());
        }
        "infer" => {
            let x = Tensor::random([t, n, i], Distribution::Default, &plain);
            let (y, _) = config.init(&plain).forward(x.clone(), None);
            plain.sync().expect("the call is done");
            assert_eq!(y.dims(), [t, n, h]);
            drop(x);
        }
        _ => {
            let gru = config.init(&device);
            let x = Tensor::<3>::random([t, n, i], Distribution::Default, &device).require_grad();
            let (y, _) = gru.forward(x.clone(), None);
            // The gradient of a sum is one value, expanded to the shape of y.
            let gradients = y.sum().backward();
            assert!(x.grad(&gradients).is_some());
            plain.sync().expect("the calls are done");
        }
    };
    #[cfg(feature = "wgpu")]
    if backend == "wgpu" {
        // The first calls tune the matrix products on copies.
        run();
        plain.memory_cleanup();
        let sampler = bench_support::MemorySampler::start(cubecl::Device::default().client());
        run();
        return println!("{}", sampler.peak());
    }
    run();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().split(' ').next()?.parse::<f64>().ok());
    println!("{}", kib.map_or(f64::NAN, |kib| kib / 1024.0));
}
