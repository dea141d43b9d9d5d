//! Peak memory of a training step on the device, compared with the documented memory contract.

use std::time::{Duration, Instant};

use bench_support::MemorySampler;
use burn::tensor::{Distribution, Tensor};
use gru_op::{Checkpointing, GruBlockConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, device, read, table};

/// N, T, I, H: some hundred MiB each.
const SHAPES: [(&str, [usize; 4]); 2] = [
    ("char-l", [64, 200, 256, 512]),
    ("long", [8, 16_384, 64, 64]),
];

/// How long the memory is sampled.
const SAMPLED: Duration = Duration::from_secs(2);

#[derive(Serialize, Deserialize)]
struct Row {
    shape: String,
    memory: String,
    /// MiB.
    peak: f64,
    /// x, y, their gradients, kept gates if any, the weights and their gradients.
    contract: f64,
}

pub fn run(rows: &mut Rows, clock: &Clock, _: &[String]) -> Result<(), Stop> {
    let plain = device();
    let device = plain.clone().autodiff();
    for (shape, [n, t, i, h]) in SHAPES {
        for (name, checkpointing, kept) in [
            ("speed", Checkpointing::KeepGates, 4 * h),
            ("lean", Checkpointing::Recompute, 0),
        ] {
            clock.check(|| format!("for {shape} {name}"))?;
            let config = GruBlockConfig::new(i, h)
                .with_checkpointing(checkpointing)
                .with_batch_first(false);
            let train = || -> Result<(), String> {
                let gru = config.init(&device);
                let x =
                    Tensor::<3>::random([t, n, i], Distribution::Default, &device).require_grad();
                let gradients = gru.forward(x.clone(), None).0.sum().backward();
                x.grad(&gradients).ok_or("x has no gradient")?;
                plain.sync().map_err(|e| e.to_string())
            };
            // The first call compiles kernels.
            train()?;
            plain.memory_cleanup();
            let sampler = MemorySampler::start(cubecl::Device::default().client());
            // A fast device ends a step between two samples.
            let start = Instant::now();
            while start.elapsed() < SAMPLED {
                train()?;
            }
            let floats = t * n * (2 * i + 2 * h + kept) + 6 * h * (i + h + 2);
            rows.add(&Row {
                shape: shape.to_owned(),
                memory: name.to_owned(),
                peak: sampler.peak(),
                contract: (floats * size_of::<f32>()) as f64 / f64::from(1 << 20),
            })?;
        }
    }
    Ok(())
}

pub fn page(rows: &[Value]) -> String {
    let lines = read::<Row>(rows).into_iter().map(|row| {
        vec![
            row.shape,
            row.memory,
            format!("{:.0}", row.peak),
            format!("{:.0}", row.contract),
            format!("{:.0}%", 100.0 * row.peak / row.contract),
        ]
    });
    table(
        &["shape", "memory", "peak MiB", "contract MiB", "of it"],
        lines,
    )
}
