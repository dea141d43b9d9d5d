//! Trains a character model on this device and on the CPU, with the same text and initial weights.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, read_sync};
use char_model::{
    data::Corpus,
    model::CharGruConfig,
    text::Text,
    trainer::{Settings, Trainer},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, device, read, table};

const STEPS: usize = 200;

/// The first steps compile and tune.
const WARM: usize = 20;

/// Allowed difference of the losses, in nats. Rounding differences grow because each step continues from
/// the previous step. A wrong gradient causes a large difference at once. Burn's products on CUDA round to TF32.
const APART: f64 = if cfg!(feature = "cuda") { 3e-2 } else { 1e-3 };

#[derive(Serialize, Deserialize)]
struct Row {
    step: usize,
    cpu: f64,
    gpu: f64,
    /// Seconds of this step.
    cpu_seconds: f64,
    gpu_seconds: f64,
    characters: usize,
}

pub fn run(rows: &mut Rows, clock: &Clock, _: &[String]) -> Result<(), Stop> {
    let (cpu, gpu) = (Device::flex(), device());
    let [cpu, gpu] = [cpu.autodiff(), gpu.autodiff()];
    let settings = Settings {
        epochs: 100,
        batch: 16,
        seq: 64,
        rate: 4e-3,
        clip: 1.0,
        seed: 1,
    };
    let (text, vocabulary) = Text::new(lipsum::LIBER_PRIMUS).map_err(|e| e.to_string())?;
    let corpus =
        Corpus::new(text, vocabulary.clone(), 0.1, settings.seq).map_err(|e| e.to_string())?;
    cpu.clone().seed(settings.seed);
    let config = CharGruConfig::new(vocabulary.len(), 64, 128, 1, 0.0);
    let model = config.init(&cpu);
    let trainer = |device: &Device| {
        let model = model.clone().fork(device);
        Trainer::new(
            settings.clone(),
            &corpus,
            model,
            std::slice::from_ref(device),
        )
    };
    let (mut on_cpu, mut on_gpu) = (trainer(&cpu), trainer(&gpu));
    let mut apart: f64 = 0.0;
    for step in 1..=STEPS {
        clock.check(|| format!("after {} steps", step - 1))?;
        let timed = |trainer: &mut Trainer| {
            let start = Instant::now();
            let made = read_sync(trainer.step()).map_err(|e| e.to_string())?;
            Ok::<_, String>((made, start.elapsed().as_secs_f64()))
        };
        let ((cpu, cpu_seconds), (gpu, gpu_seconds)) = (timed(&mut on_cpu)?, timed(&mut on_gpu)?);
        apart = apart.max((f64::from(cpu.loss) - f64::from(gpu.loss)).abs());
        rows.add(&Row {
            step,
            cpu: cpu.loss.into(),
            gpu: gpu.loss.into(),
            cpu_seconds,
            gpu_seconds,
            characters: cpu.characters,
        })?;
    }
    if apart <= APART {
        Ok(())
    } else {
        Err(format!("losses differ by {apart:.2e}, expected at most {APART:.0e}").into())
    }
}

pub fn page(rows: &[Value]) -> String {
    let rows = read::<Row>(rows);
    let apart = rows
        .iter()
        .map(|row| (row.cpu - row.gpu).abs())
        .fold(0.0, f64::max);
    let mut intro = format!(
        "{} steps: losses differ by at most {apart:.1e}.",
        rows.len()
    );
    if let Some(warm) = rows.get(WARM..).filter(|warm| !warm.is_empty()) {
        let characters: usize = warm.iter().map(|row| row.characters).sum();
        let rate = |seconds: fn(&Row) -> f64| {
            let seconds: f64 = warm.iter().map(seconds).sum();
            characters as f64 / seconds
        };
        intro += &format!(
            " From step {}: {:.0} characters per second on this device, {:.0} on the CPU.",
            WARM + 1,
            rate(|row| row.gpu_seconds),
            rate(|row| row.cpu_seconds)
        );
    }
    intro += "\n\n";
    let some = rows
        .into_iter()
        .filter(|row| row.step == 1 || row.step % 50 == 0);
    let lines = some.map(|row| {
        vec![
            row.step.to_string(),
            format!("{:.5}", row.gpu),
            format!("{:.5}", row.cpu),
        ]
    });
    intro + &table(&["step", "loss on this device", "loss on the CPU"], lines)
}
