//! `GruBlock` beside `burn::nn::gru::Gru`, with the same weights on this device.

use std::time::Duration;

use burn::tensor::{Device, DeviceKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use side_by_side::{Mode, SHAPES, flops, sgemm_rate, side_by_side};

use super::{Clock, Rows, Stop, caught, read, table};
use crate::report::Report;

/// In this order: those of which most depends, and those that take longest, last.
const ORDER: [&str; 10] = [
    "char-s",
    "char-l",
    "cell",
    "stream",
    "speech",
    "big",
    "bi-char",
    "deep-char",
    "long",
    "audio",
];

#[derive(Serialize, Deserialize)]
pub struct Row {
    pub shape: String,
    pub mode: String,
    /// Milliseconds, medians; none if Burn's was not run.
    pub burn: Option<f64>,
    pub ours: f64,
    /// Until our call returned, before the device was done.
    pub host: f64,
    pub gflops: f64,
    /// GFLOP/s of a large product here.
    pub sgemm: f64,
}

pub fn run(rows: &mut Rows, clock: &Clock, _: &[String]) -> Result<(), Stop> {
    let device = Device::wgpu(DeviceKind::DefaultDevice);
    let sgemm = sgemm_rate(&device, 2048);
    for mode in [Mode::ForwardBackward, Mode::Infer, Mode::TrainForward] {
        for name in ORDER {
            clock.check(|| format!("for {name} {}", mode.name()))?;
            let (_, sizes) = SHAPES
                .iter()
                .find(|shape| shape.0 == name)
                .expect("a shape");
            let patience = Duration::from_millis(500);
            let (burn, ours) = match caught(|| side_by_side(sizes, mode, &device, patience)) {
                Ok(times) => times,
                Err(panic) => return Err(format!("{name} {}: {panic}", mode.name()).into()),
            };
            rows.add(&Row {
                shape: name.to_owned(),
                mode: mode.name().to_owned(),
                burn: Some(burn.median).filter(|ms| ms.is_finite()),
                ours: ours.median,
                host: ours.host,
                gflops: flops(sizes, mode) / (ours.median * 1e6),
                sgemm,
            })?;
        }
    }
    Ok(())
}

pub fn page(rows: &[Value], _: &Report) -> String {
    let rows = read::<Row>(rows);
    let sgemm = rows.first().map_or(f64::NAN, |row| row.sgemm);
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
    format!(
        "A product of 2048² : {sgemm:.0} GFLOP/s.\n\n{}",
        table(&head, lines)
    )
}
