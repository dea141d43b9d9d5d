//! Denoises a WAV file. The output has the same length and is aligned with the input.

use std::path::Path;

use crate::FRAME;
use crate::error::Error;
use crate::suppressor::Suppressor;
use crate::wav::{Planes, Reader, Writer};

/// The content of a file.
pub struct Heard {
    /// Samples per channel.
    pub samples: u64,
    /// Channels.
    pub channels: usize,
    /// Share of the frames of all channels with a voice probability above one half.
    pub voiced: f64,
}

/// Writes a denoised copy of `from` to `to` in the same format. Each channel is processed separately.
///
/// The denoiser is some frames late. Its first output frames belong to the time before the file and are
/// dropped. Frames of silence follow the last input frame. So output and input are aligned and have
/// equal length. An empty file gives an empty file.
///
/// # Errors
/// If `from` cannot be read or is not supported, or if `to` cannot be written. Then `to` stays
/// unchanged.
pub fn denoise(model: &dyn Suppressor, from: &Path, to: &Path) -> Result<Heard, Error> {
    let mut reader = Reader::open(from)?;
    let mut writer = Writer::create(to, reader.spec())?;
    let heard = frames(model, from, &mut reader, &mut writer)?;
    writer.finish()?;
    Ok(heard)
}

fn frames(
    model: &dyn Suppressor,
    from: &Path,
    reader: &mut Reader,
    writer: &mut Writer,
) -> Result<Heard, Error> {
    let channels = usize::from(reader.spec().channels);
    let mut denoisers: Vec<_> = (0..channels).map(|_| model.channel()).collect();
    let delay = model.delay();
    let silence = || -> Planes { vec![[0.0; FRAME]; channels] };
    let (mut noisy, mut denoised) = (silence(), silence());
    let samples = reader.len();
    let mut heard = Heard {
        samples,
        channels,
        voiced: 0.0,
    };
    let frames = samples.div_ceil(FRAME as u64);
    let mut voices = 0u64;
    for frame in 0..frames + delay {
        if frames == 0 {
            break;
        }
        reader.frame(&mut noisy)?;
        for ((denoiser, x), y) in denoisers.iter_mut().zip(&noisy).zip(&mut denoised) {
            let voice = denoiser.frame(x, y);
            // The frames after the last one are not of the file.
            voices += u64::from(voice > 0.5 && frame < frames);
            if y.iter().any(|y| !y.is_finite()) {
                return Err(Error::NotFinite {
                    path: from.to_path_buf(),
                    seconds: frame as f64 / 100.0,
                });
            }
        }
        if frame >= delay {
            let written = (frame - delay) * FRAME as u64;
            let whole = (samples - written).min(FRAME as u64) as usize;
            denoised.iter_mut().for_each(|y| y[whole..].fill(0.0));
            writer.frame(&denoised, whole)?;
        }
    }
    heard.voiced = voices as f64 / (frames * channels as u64).max(1) as f64;
    Ok(heard)
}
