//! `GruBlock` and `burn::nn::gru::Gru` with equal weights on this device.

use std::time::Duration;

use bench_support::{Layer, MODES, Problem, Program, Shape, sgemm_rate, side_by_side};
use gru_cube::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, alone, caught, device, read, share, table, together};
use crate::report::Report;

/// Small shapes first, then the most important shapes, then the slowest.
pub const ORDER: [&str; 11] = [
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

/// How long both programs are measured.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Serialize, Deserialize)]
pub struct Row {
    pub shape: String,
    pub mode: String,
    /// Milliseconds, medians.
    pub burn: f64,
    pub ours: f64,
    /// Milliseconds until the call returned, before the device had finished.
    pub host: f64,
    pub gflops: f64,
    /// Size and GFLOP/s of a large matrix product, from one process.
    pub product: Option<(usize, f64)>,
}

/// `more` is empty, or a share of the shapes.
pub fn run(rows: &mut Rows, clock: &Clock, more: &[String]) -> Result<(), Stop> {
    let device = device();
    let client = cubecl::Device::default().client();
    // A CPU would tune for minutes, and a smaller size is enough.
    let size = if Limits::of(&client).cpu { 256 } else { 4096 };
    let (first, step) = share(more)?;
    let product = (first == 0).then(|| {
        together(|| sgemm_rate(&device, size));
        (size, alone(|| sgemm_rate(&device, size)))
    });
    for name in ORDER.into_iter().skip(first).step_by(step) {
        let shape = Shape::find(name).expect("a shape");
        let problem = Problem::new(shape);
        let layers = |mode| {
            let programs = [Program::Block, Program::Burn];
            programs.map(|program| Layer::new(&problem, program, mode, &device))
        };
        // Compiles kernels and tunes Burn's products, which can take minutes.
        let prepare = || {
            let calls = || MODES.map(|mode| layers(mode).each_ref().map(Layer::call));
            caught(|| {
                calls();
                device.sync().expect("the device works");
            })
        };
        together(prepare).map_err(|panic| format!("{name}: {panic}"))?;
        for mode in MODES {
            clock.check(|| format!("for {name} {}", mode.name()))?;
            let [ours, burn] = alone(|| side_by_side(&layers(mode), &device, PATIENCE));
            rows.add(&Row {
                shape: name.to_owned(),
                mode: mode.name().to_owned(),
                burn: burn.done,
                ours: ours.done,
                host: ours.host,
                gflops: shape.flops(mode) / (ours.done * 1e6),
                product,
            })?;
        }
    }
    Ok(())
}

pub fn page(rows: &[Value], _: &Report) -> String {
    let rows = read::<Row>(rows);
    let product = rows.iter().find_map(|row| row.product);
    let intro = product.map(|(size, rate)| {
        format!("A product of two {size} x {size} matrices: {rate:.0} GFLOP/s.\n\n")
    });
    let lines = rows.into_iter().map(|row| {
        vec![
            row.shape,
            row.mode,
            format!("{:.3}", row.burn),
            format!("{:.3}", row.ours),
            format!("{:.1}", row.burn / row.ours),
            format!("{:.0}", row.gflops),
            product.map_or("–".to_owned(), |(_, rate)| {
                format!("{:.0}%", 100.0 * row.gflops / rate)
            }),
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
    intro.unwrap_or_default() + &table(&head, lines)
}
