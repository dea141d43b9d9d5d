//! This program as a peer: `GruBlock`, a prepared `GruBlock`, Burn's own `Gru` or only the loss on a backend. The protocol
//! is described in [`crate::peer`].

use std::{
    fs,
    io::{self, BufRead, Write},
    path::Path,
    time::Instant,
};

use burn::tensor::{DType, Device};
use clap::ValueEnum;

use crate::{
    layer::{Layer, Program},
    problem::{Mode, Problem, Shape},
};

/// Answers the requests of standard input. `peer` is `gru-op-`, `prepared-`, `burn-` or `loss-`, a backend, and a type
/// other than float32, such as `gru-op-cuda-bfloat16`.
pub fn serve(peer: &str) {
    let programs = [
        ("gru-op-", Program::Block),
        ("prepared-", Program::Prepared),
        ("burn-", Program::Burn),
        ("loss-", Program::Loss),
    ];
    let found = programs
        .iter()
        .find_map(|&(prefix, program)| Some((program, peer.strip_prefix(prefix)?)));
    let Some((program, backend)) = found else {
        return say(&format!("no\t{peer}: no such peer"));
    };
    let (backend, dtype) = match backend.rsplit_once('-') {
        Some((backend, "float16")) => (backend, DType::F16),
        Some((backend, "bfloat16")) => (backend, DType::BF16),
        _ => (backend, DType::F32),
    };
    let device = match device(backend) {
        Ok(device) => device,
        Err(reason) => return say(&format!("no\t{reason}")),
    };
    say(&format!(
        "ready\t{}",
        if matches!(program, Program::Burn | Program::Loss) {
            burn_version()
        } else {
            env!("CARGO_PKG_VERSION")
        }
    ));
    let mut layer = None;
    for line in io::stdin().lock().lines() {
        let line = line.expect("the driver writes text");
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["prepare", problem, mode, out] => {
                drop(layer.take());
                let mode = Mode::from_str(mode, false).expect("the driver knows the modes");
                let name = Path::new(problem)
                    .file_stem()
                    .and_then(|name| name.to_str());
                let shape = name
                    .and_then(Shape::find)
                    .expect("a file is named after its shape");
                if let Some(only) = program.only().filter(|&only| only != mode) {
                    say(&format!("no\tonly {}", only.name()));
                    continue;
                }
                let prepared = Layer::new(&Problem::new(shape), program, mode, &device, dtype);
                let (mut names, mut bytes) = (Vec::new(), Vec::new());
                for (name, floats) in prepared.outputs() {
                    names.push(name);
                    bytes.extend(floats.iter().flat_map(|float| float.to_le_bytes()));
                }
                fs::write(out, bytes).expect("the output file can be written");
                say(&format!("ok\t{}\t{}", names.join(" "), prepared.note()));
                layer = Some(prepared);
            }
            ["sample", warm_up, calls] => {
                let layer: &Layer = layer.as_ref().expect("a problem is prepared");
                let [warm_up, calls] =
                    [warm_up, calls].map(|count| count.parse().expect("the driver sends numbers"));
                (0..warm_up).for_each(|_| layer.call());
                device.sync().expect("the device works");
                let start = Instant::now();
                (0..calls).for_each(|_| layer.call());
                device.sync().expect("the device works");
                say(&format!("ok\t{}", start.elapsed().as_nanos()));
            }
            _ => say(&format!("no\tunknown request {line}")),
        }
    }
}

fn say(line: &str) {
    println!("{line}");
    io::stdout().flush().expect("the driver reads");
}

fn device(backend: &str) -> Result<Device, String> {
    match backend {
        "flex" => Ok(Device::flex()),
        #[allow(deprecated)] // Supported as long as it exists.
        "ndarray" => Ok(Device::ndarray()),
        #[cfg(feature = "wgpu")]
        "wgpu" => Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "cuda")]
        "cuda" => {
            let found = Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec();
            found
                .into_iter()
                .next()
                .ok_or_else(|| "there is no CUDA device".into())
        }
        other => Err(format!("backend {other}: not in this build")),
    }
}

/// The version in Cargo.lock.
fn burn_version() -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let entry = lock.split("name = \"burn\"\nversion = \"").nth(1);
    entry
        .and_then(|entry| entry.split('"').next())
        .unwrap_or("unknown")
}
