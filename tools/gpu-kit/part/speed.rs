//! `GruBlock` and `burn::nn::gru::Gru` with equal weights on this device.

use std::time::Duration;

use bench_support::{
    Layer, MODES, Mode, Problem, Program, Shape, Times, sgemm_rate, side_by_side, time,
};
use burn::tensor::Device;
use gru_cube::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, alone, caught, device, read, share, table, together};
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

/// How long both programs are measured.
const PATIENCE: Duration = Duration::from_millis(500);

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
    let names: Vec<_> = ORDER.into_iter().skip(first).step_by(step).collect();
    // Burn's Gru is tuned only if there is time left to measure.
    let least = clock.left() * 3 / 5;
    // Compiles kernels and tunes Burn's products, which can take minutes: ours first.
    let can_run = together(|| -> Result<_, Stop> {
        if first == 0 {
            sgemm_rate(&device, size);
        }
        let mut can_run = Vec::new();
        for program in [Program::Block, Program::Burn] {
            for &name in &names {
                if program == Program::Burn && clock.left() < least {
                    return Ok(can_run);
                }
                let call = || {
                    let problem = Problem::new(Shape::find(name).expect("a shape"));
                    for mode in MODES {
                        Layer::new(&problem, program, mode, &device).call();
                    }
                    device.sync().expect("the device works");
                };
                caught(call).map_err(|panic| format!("{name}: {panic}"))?;
                can_run.push((program, name));
            }
        }
        Ok(can_run)
    })?;
    let product = (first == 0).then(|| (size, alone(|| sgemm_rate(&device, size))));
    for name in names {
        let shape = Shape::find(name).expect("a shape");
        for mode in MODES {
            clock.check(|| format!("for {name} {}", mode.name()))?;
            let [burn, ours] = [Program::Burn, Program::Block]
                .map(|program| can_run.iter().any(|&(p, n)| p == program && n == name));
            let (burn, ours) = match (burn, ours) {
                (true, _) => {
                    let (burn, ours) = alone(|| side_by_side(shape, mode, &device, PATIENCE));
                    (Some(burn.done), ours)
                }
                (false, true) => (None, alone(|| block(shape, mode, &device))),
                (false, false) => return Err(format!("no time to tune {name}").into()),
            };
            rows.add(&Row {
                shape: name.to_owned(),
                mode: mode.name().to_owned(),
                burn,
                ours: ours.done,
                host: ours.host,
                gflops: shape.flops(mode) / (ours.done * 1e6),
                product,
            })?;
        }
    }
    Ok(())
}

/// Times of `GruBlock` alone: of calls that follow each other for some milliseconds, the fastest of five.
fn block(shape: &'static Shape, mode: Mode, device: &Device) -> Times {
    let layer = Layer::new(&Problem::new(shape), Program::Block, mode, device);
    let call = || layer.call();
    let one = time(&call, 2, device).done;
    let batch = (10.0 / one.max(1e-2)).ceil() as usize;
    let samples = [(); 5].map(|()| time(&call, batch, device));
    let least = samples.into_iter().min_by(|a, b| a.done.total_cmp(&b.done));
    least.expect("five samples")
}

pub fn page(rows: &[Value], _: &Report) -> String {
    let rows = read::<Row>(rows);
    let product = rows.iter().find_map(|row| row.product);
    let intro = product.map(|(size, rate)| {
        format!("A product of two {size} x {size} matrices: {rate:.0} GFLOP/s.\n\n")
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
