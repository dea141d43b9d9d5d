//! Removes noise from speech in a WAV file, and compares the precisions of the network's weights.

use std::error::Error;
use std::io::BufWriter;
use std::path::Path;

use denoise::RATE;
use denoise::denoiser::denoise;
use denoise::network::Model;
use gru_cpu::spec::Precision;
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output] = &arguments[..] else {
        return Err("usage: denoise IN.wav OUT.wav".into());
    };
    let channels = read(Path::new(input)).map_err(|e| format!("{input}: {e}"))?;
    let mut full: Vec<Vec<f32>> = vec![];
    println!("precision   bytes of GRUs   network, µs   difference, dB");
    for precision in [Precision::Full, Precision::Bf16, Precision::Int8] {
        let model = Model::new(precision);
        let denoised = channels.iter().map(|sound| denoise(&model, sound));
        let (sounds, times): (Vec<_>, Vec<_>) = denoised.unzip();
        let mut times = times.concat();
        times.sort();
        let (name, time) = (format!("{precision:?}"), times[times.len() / 2]);
        let micros = 1e6 * time.as_secs_f64();
        print!("{name:9}   {:13}   {micros:11.1}", model.bytes());
        if full.is_empty() {
            println!();
            full = sounds;
        } else {
            println!("   {:14.1}", distance(&sounds.concat(), &full.concat()));
        }
    }
    write(Path::new(output), &full).map_err(|e| format!("{output}: {e}").into())
}

/// The power of the difference of two sounds relative to the power of the second, in dB.
fn distance(sound: &[f32], reference: &[f32]) -> f64 {
    let power = |x: f32| f64::from(x).powi(2);
    let error: f64 = sound.iter().zip(reference).map(|(a, b)| power(a - b)).sum();
    10.0 * (error / reference.iter().copied().map(power).sum::<f64>()).log10()
}

/// Reads every channel of a file. Full scale is 1.
fn read(path: &Path) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
    let reader = WavReader::open(path)?;
    let spec = reader.spec();
    if spec.sample_rate != RATE {
        let found = spec.sample_rate;
        return Err(format!("sample rate: expected {RATE}, got {found}").into());
    }
    let samples: Vec<f32> = match spec.sample_format {
        SampleFormat::Float => reader.into_samples().collect::<Result<_, _>>()?,
        SampleFormat::Int => {
            let scale = (1u64 << (spec.bits_per_sample - 1)) as f32;
            let samples = reader.into_samples::<i32>();
            let samples = samples.map(|sample| Ok(sample? as f32 / scale));
            samples.collect::<Result<_, hound::Error>>()?
        }
    };
    let channels = usize::from(spec.channels);
    let channel = |c: usize| samples.iter().skip(c).step_by(channels).copied().collect();
    Ok((0..channels).map(channel).collect())
}

/// Writes channels of equal length as float32 to a new file, which appears as a whole.
fn write(path: &Path, channels: &[Vec<f32>]) -> Result<(), Box<dyn Error>> {
    let spec = WavSpec {
        channels: channels.len() as u16,
        sample_rate: RATE,
        bits_per_sample: 32,
        sample_format: SampleFormat::Float,
    };
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let new = builder.tempfile_in(path.parent().unwrap_or(path))?;
    let mut writer = WavWriter::new(BufWriter::new(new.as_file()), spec)?;
    for at in 0..channels[0].len() {
        for channel in channels {
            writer.write_sample(channel[at])?;
        }
    }
    writer.finalize()?;
    new.as_file().sync_all()?;
    new.persist_noclobber(path)?;
    Ok(())
}
