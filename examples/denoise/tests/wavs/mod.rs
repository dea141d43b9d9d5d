//! WAV files of tests, written and read only by hound.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

/// A temporary folder. Dropping the value removes it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "denoise-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

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
