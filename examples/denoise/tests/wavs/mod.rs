//! WAV files of tests, written and read only by hound.

use std::path::Path;

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

pub fn int(bits_per_sample: u16, channels: u16) -> WavSpec {
    WavSpec {
        channels,
        sample_rate: 48_000,
        bits_per_sample,
        sample_format: SampleFormat::Int,
    }
}

pub fn float(channels: u16) -> WavSpec {
    WavSpec {
        sample_format: SampleFormat::Float,
        ..int(32, channels)
    }
}

/// Samples from -1 to 1, channels interleaved.
pub fn write(path: &Path, spec: WavSpec, samples: &[f32]) {
    let mut writer = WavWriter::create(path, spec).unwrap();
    let scale = f64::from(2.0f32).powi(i32::from(spec.bits_per_sample) - 1);
    for &x in samples {
        match spec.sample_format {
            SampleFormat::Int => {
                let x = (f64::from(x) * scale).round().clamp(-scale, scale - 1.0);
                writer.write_sample(x as i32).unwrap();
            }
            SampleFormat::Float => writer.write_sample(x).unwrap(),
        }
    }
    writer.finalize().unwrap();
}

pub fn read(path: &Path) -> (WavSpec, Vec<f32>) {
    let mut reader = WavReader::open(path).unwrap();
    let spec = reader.spec();
    let scale = f64::from(2.0f32).powi(i32::from(spec.bits_per_sample) - 1);
    let samples = match spec.sample_format {
        SampleFormat::Int => {
            let samples = reader.samples::<i32>();
            let scaled = samples.map(|x| (f64::from(x.unwrap()) / scale) as f32);
            scaled.collect()
        }
        SampleFormat::Float => reader.samples::<f32>().map(Result::unwrap).collect(),
    };
    (spec, samples)
}
