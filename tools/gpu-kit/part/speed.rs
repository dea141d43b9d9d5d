//! `GruBlock` and `burn::nn::gru::Gru` with equal weights on this device.

use std::time::Duration;

use bench_support::{Mode, Shape, sgemm_rate, side_by_side};
use gru_cube::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, caught, device, read, table};
use crate::report::Report;

/// Small shapes first, then the most important shapes, then the slowest.
pub const ORDER: [&str; 10] = [
    "cell",
    "stream",
    "char-s",
    "char-l",
    "bi-char",
    "deep-char",
    "speech",
    "big",
    "long",
    "audio",
];

#[derive(Serialize, Deserialize)]
pub struct Row {
    pub shape: String,
    pub mode: String,
    /// Milliseconds, medians. None if Burn's `Gru` did not run.
    pub burn: Option<f64>,
    pub ours: f64,
    /// Milliseconds until the call returned, before the device had finished.
    pub host: f64,
    pub gflops: f64,
    /// GFLOP/s of a large matrix product, and its size.
    pub sgemm: f64,
    pub size: usize,
}

pub fn run(rows: &mut Rows, clock: &Clock, _: &[String]) -> Result<(), Stop> {
    let device = device();
    let client = cubecl::Device::default().client();
    // A CPU would tune for minutes, and a smaller size is enough.
    let size = if Limits::of(&client).cpu { 256 } else { 4096 };
    let sgemm = sgemm_rate(&device, size);
    for mode in [Mode::ForwardBackward, Mode::Infer] {
        for name in ORDER {
            clock.check(|| format!("for {name} {}", mode.name()))?;
            let shape = Shape::find(name).expect("a shape");
            let patience = Duration::from_millis(500);
            let (burn, ours) = match caught(|| side_by_side(shape, mode, &device, patience)) {
                Ok(times) => times,
                Err(panic) => return Err(format!("{name} {}: {panic}", mode.name()).into()),
            };
            rows.add(&Row {
                shape: name.to_owned(),
                mode: mode.name().to_owned(),
                burn: Some(burn.done),
                ours: ours.done,
                host: ours.host,
                gflops: shape.flops(mode) / (ours.done * 1e6),
                sgemm,
                size,
            })?;
        }
    }
    Ok(())
}

pub fn page(rows: &[Value], _: &Report) -> String {
    let rows = read::<Row>(rows);
    let first = rows.first();
    let sgemm = first.map(|Row { sgemm, size, .. }| {
        format!("A product of two {size} x {size} matrices: {sgemm:.0} GFLOP/s.\n\n")
    });
    let lines = rows.into_iter().map(|row| {
        let burn = row.burn.map_or("–".to_owned(), |ms| format!("{ms:.3}"));
        let times = row
            .burn
            .map_or("–".to_owned(), |ms| format!("{:.1}", ms / row.ours));
        vec![
            row.shape,
            row.mode,
            burn,
            format!("{:.3}", row.ours),
            times,
            format!("{:.0}", row.gflops),
            format!("{:.0}%", 100.0 * row.gflops / row.sgemm),
            format!("{:.3}", row.host),
        ]
    });
    let head = [
        "shape",
        "mode",
        "Burn ms",
        "ours ms",
        "times",
        "GFLOP/s",
        "of a product",
        "host ms",
    ];
    sgemm.unwrap_or_default() + &table(&head, lines)
}
