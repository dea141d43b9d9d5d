//! A demonstration with synthetic sound.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use hound::{SampleFormat, WavSpec};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::error::{Error, write_error};
use crate::file::denoise;
use crate::noise::noise;
use crate::speech::speech;
use crate::suppressor::Suppressor;
use crate::wav::{Planes, Reader, Writer};
use crate::{FRAME, FULL_SCALE, RATE};

/// Duration in seconds.
pub const SECONDS: f32 = 8.0;
/// Seed of the random generator.
pub const SEED: u64 = 1;
/// Level of the noise. The speech has a level of 0.1, so the ratio is 6 dB.
const NOISE: f32 = 0.05;

/// Speech without and with noise. Full scale is 1.
pub fn sounds(seconds: f32, seed: u64) -> [Vec<f32>; 2] {
    let mut rng = StdRng::seed_from_u64(seed);
    let clean = speech(seconds, &mut rng);
    let noise = noise(clean.len(), NOISE, &mut rng);
    let noisy = clean.iter().zip(noise).map(|(x, e)| x + e).collect();
    [clean, noisy]
}

/// Writes `clean.wav`, `noisy.wav` and `denoised.wav`, and returns a report.
///
/// # Errors
/// If a file cannot be written.
pub fn run(model: &dyn Suppressor, folder: &Path) -> Result<String, Error> {
    fs::create_dir_all(folder).map_err(|reason| write_error(folder, reason))?;
    let [clean, noisy] = sounds(SECONDS, SEED);
    let path = |name: &str| folder.join(name);
    write(&path("clean.wav"), &clean)?;
    write(&path("noisy.wav"), &noisy)?;
    denoise(model, &path("noisy.wav"), &path("denoised.wav"))?;

    let denoised = read(&path("denoised.wav"))?;
    let mut text = String::new();
    for (name, speaks) in [("words", true), ("pauses", false)] {
        let [before, after] = [&noisy, &denoised].map(|sound| level(sound, &clean, speaks));
        let _ = writeln!(
            text,
            "{name:7} {before:6.1} dB before, {after:6.1} dB after"
        );
    }
    let spoken = level(&clean, &clean, true);
    let _ = writeln!(
        text,
        "(relative to full scale; the clean speech has {spoken:.1} dB)"
    );
    let [before, after] = [&noisy, &denoised].map(|sound| si_sdr(sound, &clean));
    let _ = writeln!(
        text,
        "SI-SDR {before:6.1} dB before, {after:6.1} dB after (of the clean speech)"
    );
    let _ = writeln!(
        text,
        "{} holds clean.wav, noisy.wav and denoised.wav",
        folder.display()
    );
    Ok(text)
}

/// The level, in dB of full scale, of the frames with speech or of the silent frames in the clean sound.
/// A frame counts only if its neighbours have the same kind.
fn level(sound: &[f32], clean: &[f32], speaks: bool) -> f64 {
    let frames = clean.len() / FRAME;
    let around = |frame: usize| &clean[(frame - 1) * FRAME..(frame + 2) * FRAME];
    let chosen = (1..frames.saturating_sub(1)).filter(|&frame| {
        if speaks {
            around(frame).iter().filter(|&&x| x == 0.0).count() < FRAME / 10
        } else {
            around(frame).iter().all(|&x| x == 0.0)
        }
    });
    let (mut power, mut count) = (0.0, 0);
    for frame in chosen {
        let samples = &sound[frame * FRAME..][..FRAME];
        power += samples.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        count += FRAME;
    }
    10.0 * (power / f64::from(count.max(1) as u32)).max(1e-12).log10()
}

/// The scale-invariant ratio of signal and distortion in dB, by Le Roux et al. 2019
/// (<https://arxiv.org/abs/1811.02508>): `‖αr‖²/‖αr − s‖²` with the sound `s`, the reference `r` and
/// `α = ⟨s,r⟩/‖r‖²`.
pub fn si_sdr(sound: &[f32], reference: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
        products.sum()
    };
    let scale = dot(sound, reference) / dot(reference, reference);
    let signal = scale * scale * dot(reference, reference);
    let errors = sound.iter().zip(reference);
    let errors = errors.map(|(&s, &r)| (scale * f64::from(r) - f64::from(s)).powi(2));
    10.0 * (signal / errors.sum::<f64>()).log10()
}

/// Writes one channel with 16 bits.
fn write(path: &Path, sound: &[f32]) -> Result<(), Error> {
    let spec = WavSpec {
        channels: 1,
        sample_rate: RATE,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut writer = Writer::create(path, spec)?;
    let mut planes: Planes = vec![[0.0; FRAME]];
    for frame in sound.chunks(FRAME) {
        for (to, x) in planes[0].iter_mut().zip(frame) {
            *to = x * FULL_SCALE;
        }
        writer.frame(&planes, frame.len())?;
    }
    writer.finish()
}

/// Reads the first channel.
fn read(path: &Path) -> Result<Vec<f32>, Error> {
    let mut reader = Reader::open(path)?;
    let mut planes = Planes::new();
    let mut sound = Vec::new();
    while (sound.len() as u64) < reader.len() {
        reader.frame(&mut planes)?;
        sound.extend(planes[0].map(|x| x / FULL_SCALE));
    }
    sound.truncate(reader.len() as usize);
    Ok(sound)
}
