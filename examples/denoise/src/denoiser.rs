//! Denoises one channel of sound, frame by frame.

use std::f64::consts::FRAC_PI_2;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nnnoiseless::DenoiseFeatures;
use realfft::num_complex::Complex32;
use realfft::{ComplexToReal, RealFftPlanner};

use crate::network::{BANDS, Model, Network};
use crate::{FRAME, FULL_SCALE};

/// The peak of each band in bins of 50 Hz. Bands are triangles that reach to the peaks of their neighbours.
const PEAKS: [usize; BANDS] = [
    0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 136, 160, 192, 240, 312, 400,
];
/// A gain falls at most to this share of its previous value: noise decays in 135 ms by 60 dB and is not cut off.
const LEAST_FALL: f32 = 0.6;

/// The states of one channel. A frame allocates nothing.
pub struct Denoiser<'a> {
    analysis: Box<DenoiseFeatures>,
    network: Network<'a>,
    /// The gains of the previous frame.
    last: [f32; BANDS],
    inverse: Arc<dyn ComplexToReal<f32>>,
    scratch: Vec<Complex32>,
    spectrum: Vec<Complex32>,
    samples: Vec<f32>,
    /// Vorbis' window of two frames. Its squares in two neighbours add up to 1.
    window: Vec<f32>,
    /// The second half of the last window, to be added to the first half of the next.
    overlap: [f32; FRAME],
}

impl<'a> Denoiser<'a> {
    /// A channel with silence before its first frame.
    pub fn new(model: &'a Model) -> Self {
        let inverse = RealFftPlanner::new().plan_fft_inverse(2 * FRAME);
        let window = (0..2 * FRAME).map(|k| {
            let sine = (FRAC_PI_2 * (k as f64 + 0.5) / FRAME as f64).sin();
            (FRAC_PI_2 * sine * sine).sin() as f32
        });
        Self {
            analysis: Box::new(DenoiseFeatures::new()),
            network: Network::new(model),
            last: [0.0; BANDS],
            scratch: inverse.make_scratch_vec(),
            spectrum: inverse.make_input_vec(),
            samples: inverse.make_output_vec(),
            window: window.collect(),
            inverse,
            overlap: [0.0; FRAME],
        }
    }

    /// Reads a frame in the scale of 16-bit integers and writes the previous frame without noise. Returns the time that
    /// the network took. A silent frame passes unchanged and skips the network.
    pub fn frame(&mut self, input: &[f32], output: &mut [f32]) -> Duration {
        self.analysis.shift_and_filter_input(input);
        let silent = self.analysis.compute_frame_features();
        self.spectrum.copy_from_slice(&self.analysis.x);
        let mut time = Duration::ZERO;
        if !silent {
            let start = Instant::now();
            let mut gains = self.network.frame(self.analysis.features());
            time = start.elapsed();
            self.analysis.pitch_filter(&gains);
            for (gain, last) in gains.iter_mut().zip(&mut self.last) {
                *gain = gain.max(LEAST_FALL * *last);
                *last = *gain;
            }
            self.apply(&gains);
        }
        // The first and last bins of a real signal are real.
        self.spectrum[0].im = 0.0;
        self.spectrum[FRAME].im = 0.0;
        self.inverse
            .process_with_scratch(&mut self.spectrum, &mut self.samples, &mut self.scratch)
            .expect("the plan made these buffers");
        // The analysis divides by the sum of the squared window, 480. The transform multiplies by its length, 960.
        for (sample, w) in self.samples.iter_mut().zip(&self.window) {
            *sample *= w / 2.0;
        }
        let (first, second) = self.samples.split_at(FRAME);
        for ((y, new), kept) in output.iter_mut().zip(first).zip(&self.overlap) {
            *y = new + kept;
        }
        self.overlap.copy_from_slice(second);
        time
    }

    /// Multiplies the spectrum by gains, interpolated between the peaks of the bands. Above the last peak the gain is 0.
    fn apply(&mut self, gains: &[f32; BANDS]) {
        self.spectrum[PEAKS[BANDS - 1]..].fill(Complex32::default());
        for (peaks, gains) in PEAKS.windows(2).zip(gains.windows(2)) {
            let width = peaks[1] - peaks[0];
            for j in 0..width {
                let part = j as f32 / width as f32;
                let gain = (1.0 - part) * gains[0] + part * gains[1];
                self.spectrum[peaks[0] + j] = self.analysis.x[peaks[0] + j] * gain;
            }
        }
    }
}

/// Denoises a whole channel, whose full scale is 1. The result has the same length and no delay. Also returns the
/// times that the network took for the frames.
pub fn denoise(model: &Model, sound: &[f32]) -> (Vec<f32>, Vec<Duration>) {
    let mut denoiser = Denoiser::new(model);
    let frames = sound.len().div_ceil(FRAME);
    // The output is a frame late, so a frame of silence follows.
    let mut scaled: Vec<f32> = sound.iter().map(|x| x * FULL_SCALE).collect();
    scaled.resize((frames + 1) * FRAME, 0.0);
    let mut denoised = vec![0.0; scaled.len()];
    let pairs = scaled.chunks(FRAME).zip(denoised.chunks_mut(FRAME));
    let times = pairs.map(|(x, y)| denoiser.frame(x, y)).collect();
    let denoised = denoised[FRAME..][..sound.len()].iter();
    (denoised.map(|y| y / FULL_SCALE).collect(), times)
}
