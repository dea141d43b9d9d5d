//! WAV files, read and written frame by frame, with only one frame in memory.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

use crate::error::Error;
use crate::{FRAME, FULL_SCALE, RATE};

/// The maximum number of channels.
pub const MOST_CHANNELS: u16 = 8;
/// Largest sample. Floats may exceed full scale. The analysis computes sixth powers of samples (in the
/// scale of 16-bit integers) in float32, which ends at 1e38.
pub const LARGEST: f32 = 16.0;

/// One frame of each channel.
pub type Planes = Vec<[f32; FRAME]>;

/// Reads frames.
pub struct Reader {
    path: PathBuf,
    reader: WavReader<BufReader<File>>,
    read: u64,
}

impl Reader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If the file is not a WAV, or has an unsupported rate, sample format or number of channels.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let own = || path.to_path_buf();
        let reader = WavReader::open(path).map_err(|source| Error::ReadWav {
            path: own(),
            source,
        })?;
        let spec = reader.spec();
        let (bits, kind) = match spec.sample_format {
            SampleFormat::Int => (&[16, 24, 32][..], "integers"),
            SampleFormat::Float => (&[32][..], "floats"),
        };
        if spec.sample_rate != RATE {
            let found = spec.sample_rate;
            return Err(Error::Rate { path: own(), found });
        }
        if !(1..=MOST_CHANNELS).contains(&spec.channels) {
            let found = spec.channels;
            return Err(Error::Channels { path: own(), found });
        }
        if !bits.contains(&spec.bits_per_sample) {
            return Err(Error::Format {
                path: own(),
                bits: spec.bits_per_sample,
                kind,
            });
        }
        Ok(Self {
            path: own(),
            reader,
            read: 0,
        })
    }

    /// Channels and sample format.
    pub fn spec(&self) -> WavSpec {
        self.reader.spec()
    }

    /// Samples per channel.
    pub fn len(&self) -> u64 {
        u64::from(self.reader.duration())
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the next frame of every channel. After the end, frames are filled with silence.
    ///
    /// # Errors
    /// If the file is shorter than its header claims, or if a sample is not a number or too large.
    pub fn frame(&mut self, planes: &mut Planes) -> Result<(), Error> {
        let spec = self.spec();
        planes.resize(spec.channels.into(), [0.0; FRAME]);
        let whole = (self.len() - self.read).min(FRAME as u64) as usize;
        planes.iter_mut().for_each(|plane| plane[whole..].fill(0.0));
        match spec.sample_format {
            SampleFormat::Int => {
                let unit = FULL_SCALE / (1u64 << (spec.bits_per_sample - 1)) as f32;
                self.samples::<i32>(planes, whole, |sample| sample as f32 * unit)?;
            }
            SampleFormat::Float => {
                self.samples::<f32>(planes, whole, |sample| sample * FULL_SCALE)?;
            }
        }
        for at in 0..whole {
            for (channel, plane) in planes.iter().enumerate() {
                let found = plane[at] / FULL_SCALE;
                // NaN is in no range.
                if !(-LARGEST..=LARGEST).contains(&found) {
                    return Err(Error::Sample {
                        path: self.path.clone(),
                        channel: channel + 1,
                        at: self.read + at as u64,
                        found,
                    });
                }
            }
        }
        self.read += whole as u64;
        Ok(())
    }

    fn samples<S: hound::Sample>(
        &mut self,
        planes: &mut Planes,
        whole: usize,
        scale: impl Fn(S) -> f32,
    ) -> Result<(), Error> {
        let mut samples = self.reader.samples::<S>();
        for at in 0..whole {
            for plane in planes.iter_mut() {
                let sample = samples.next().unwrap_or(Err(hound::Error::FormatError(
                    "it has fewer samples than its header claims",
                )));
                plane[at] = scale(sample.map_err(|source| Error::ReadWav {
                    path: self.path.clone(),
                    source,
                })?);
            }
        }
        Ok(())
    }
}

/// Writes frames to a temporary file. [`finish`](Self::finish) moves it to the target path. Without that, the temporary
/// file is removed.
pub struct Writer {
    path: PathBuf,
    writer: WavWriter<BufWriter<File>>,
    // Dropped after the writer, which writes the header.
    part: Part,
}

/// The path of a temporary file, which is removed with it.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // After `finish` there is no such file.
        let _ = fs::remove_file(&self.0);
    }
}

impl Writer {
    /// Creates a file.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, spec: WavSpec) -> Result<Self, Error> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = Part(part.into());
        let writer = WavWriter::create(&part.0, spec).map_err(|source| failed(path, source))?;
        Ok(Self {
            path: path.to_path_buf(),
            writer,
            part,
        })
    }

    /// Writes the first `whole` samples of a frame of every channel. Integers are rounded and clamped to
    /// full scale.
    ///
    /// # Errors
    /// If writing fails.
    pub fn frame(&mut self, planes: &Planes, whole: usize) -> Result<(), Error> {
        let spec = self.writer.spec();
        let units = (1u64 << (spec.bits_per_sample - 1)) as f32;
        for at in 0..whole {
            for plane in planes {
                let sample = plane[at] / FULL_SCALE;
                let written = match spec.sample_format {
                    SampleFormat::Int => {
                        let most = (1i64 << (spec.bits_per_sample - 1)) - 1;
                        let whole = (sample * units).round() as i64;
                        self.writer
                            .write_sample(whole.clamp(-most - 1, most) as i32)
                    }
                    SampleFormat::Float => self.writer.write_sample(sample),
                };
                written.map_err(|source| failed(&self.path, source))?;
            }
        }
        Ok(())
    }

    /// Completes the file and moves it to the target path.
    ///
    /// # Errors
    /// If this fails.
    pub fn finish(self) -> Result<(), Error> {
        let Self { path, writer, part } = self;
        let done = writer.finalize();
        let done = done.and_then(|()| Ok(fs::rename(&part.0, &path)?));
        done.map_err(|source| failed(&path, source))
    }
}

fn failed(path: &Path, source: hound::Error) -> Error {
    Error::WriteWav {
        path: path.to_path_buf(),
        source,
    }
}
