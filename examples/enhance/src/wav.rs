//! WAV files.

use crate::{Error, RATE};
use burn_store::burn_pack::{self, AtomicFile};
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};
use std::{
    io::{self, BufWriter},
    path::Path,
};

/// Reads every channel of a file, in the range −1 to 1.
///
/// # Errors
/// If the file is not a WAV file with 16,000 samples per second, has no samples, or a sample is not finite.
pub fn read(path: &Path) -> Result<Vec<Vec<f32>>, Error> {
    let failed = |source| Error::Wav {
        path: path.to_owned(),
        source,
    };
    let mut reader = WavReader::open(path).map_err(failed)?;
    let spec = reader.spec();
    if spec.sample_rate != RATE {
        return Err(Error::Rate {
            path: path.to_owned(),
            found: spec.sample_rate,
        });
    }
    let samples: Result<Vec<f32>, _> = match spec.sample_format {
        SampleFormat::Float => reader.samples::<f32>().collect(),
        SampleFormat::Int => {
            let scale = (1u64 << (spec.bits_per_sample - 1)) as f32;
            let samples = reader.samples::<i32>();
            samples.map(|sample| Ok(sample? as f32 / scale)).collect()
        }
    };
    let samples = samples.map_err(failed)?;
    if samples.is_empty() {
        let path = path.to_owned();
        return Err(Error::Empty { path });
    }
    if let Some(at) = samples.iter().position(|sample| !sample.is_finite()) {
        return Err(Error::Sample {
            path: path.to_owned(),
            at,
            found: samples[at],
        });
    }
    let channels = usize::from(spec.channels);
    let channel = |c: usize| samples.iter().skip(c).step_by(channels).copied().collect();
    Ok((0..channels).map(channel).collect())
}

/// Writes channels of equal length as float32 to a new file, which appears as a whole.
///
/// # Errors
/// If the file exists or cannot be written.
pub fn write(path: &Path, channels: &[Vec<f32>]) -> Result<(), Error> {
    let failed = |source| Error::Wav {
        path: path.to_owned(),
        source,
    };
    let not_new = |error: burn_pack::Error| failed(io::Error::other(error.to_string()).into());
    let spec = WavSpec {
        channels: channels.len() as u16,
        sample_rate: RATE,
        bits_per_sample: 32,
        sample_format: SampleFormat::Float,
    };
    let (new, file) = AtomicFile::create(path).map_err(not_new)?;
    let mut writer = WavWriter::new(BufWriter::new(file), spec).map_err(failed)?;
    for at in 0..channels.first().map_or(0, Vec::len) {
        for channel in channels {
            writer.write_sample(channel[at]).map_err(failed)?;
        }
    }
    writer.finalize().map_err(failed)?;
    new.commit_new().map_err(not_new)
}
