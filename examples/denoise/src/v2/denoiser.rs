//! Denoises one channel with the features and gains of RNNoise 0.2.

use std::f64::consts::PI;

use nnnoiseless::DenoiseFeatures;
use realfft::num_complex::Complex32;

use super::FEATURES;
use super::bands::{BANDS, products, spread};
use crate::FRAME;
use crate::bands::BINS;
use crate::denoiser::{Channel, Gains, LEAST_FALL};
use crate::synthesis::Synthesis;

/// The place of the pitch in the features of nnnoiseless.
const PITCH: usize = 40;
/// A frame with less energy is silence.
const SILENCE: f32 = 0.04;

/// The spectra of a frame.
#[derive(Clone)]
struct Spectra {
    x: Vec<Complex32>,
    /// One period of the pitch earlier.
    p: Vec<Complex32>,
    energy_x: [f32; BANDS],
    energy_p: [f32; BANDS],
    /// The correlation of `x` and `p`, from −1 to 1.
    correlation: [f32; BANDS],
}

/// Computes the features of frames.
pub struct Analysis {
    /// Computes the spectra and the pitch, which RNNoise 0.2 did not change.
    analysis: Box<DenoiseFeatures>,
    current: Spectra,
    previous: Spectra,
    cosines: Vec<f32>,
}

impl Default for Analysis {
    /// Silence before the first frame.
    fn default() -> Self {
        let silence = Spectra {
            x: vec![Complex32::default(); BINS],
            p: vec![Complex32::default(); BINS],
            energy_x: [0.0; BANDS],
            energy_p: [0.0; BANDS],
            correlation: [0.0; BANDS],
        };
        let cosine = |at: usize| {
            let (band, coefficient) = (at / BANDS, at % BANDS);
            let angle = (band as f64 + 0.5) * coefficient as f64 * PI / BANDS as f64;
            if coefficient == 0 {
                0.5f32.sqrt()
            } else {
                angle.cos() as f32
            }
        };
        Self {
            analysis: Box::new(DenoiseFeatures::new()),
            previous: silence.clone(),
            current: silence,
            cosines: (0..BANDS * BANDS).map(cosine).collect(),
        }
    }
}

impl Analysis {
    /// The features of a frame, or nothing if it is silent.
    pub fn frame(&mut self, input: &[f32; FRAME]) -> Option<[f32; FEATURES]> {
        std::mem::swap(&mut self.current, &mut self.previous);
        self.analysis.shift_and_filter_input(input);
        let silent = self.analysis.compute_frame_features();
        let now = &mut self.current;
        now.x.copy_from_slice(&self.analysis.x);
        now.p.copy_from_slice(&self.analysis.p);
        now.energy_x = products(&now.x, &now.x);
        now.energy_p = products(&now.p, &now.p);
        now.correlation = products(&now.x, &now.p);
        for (c, (x, p)) in now
            .correlation
            .iter_mut()
            .zip(now.energy_x.iter().zip(&now.energy_p))
        {
            *c /= (0.001 + x * p).sqrt();
        }
        // nnnoiseless sums four times the energy, so its silence is silence here.
        if silent || now.energy_x.iter().sum::<f32>() < SILENCE {
            return None;
        }
        let (mut largest, mut follow) = (-2.0f32, -2.0f32);
        let levels = now.energy_x.map(|energy| {
            let level = (0.01 + energy).log10().max(largest - 7.0).max(follow - 1.5);
            largest = largest.max(level);
            follow = level.max(follow - 1.5);
            level
        });
        let mut features = [0.0; FEATURES];
        self.cepstrum(&levels, &mut features[..BANDS]);
        features[0] -= 12.0;
        features[1] -= 4.0;
        let correlation = &self.current.correlation;
        self.cepstrum(correlation, &mut features[BANDS..2 * BANDS]);
        features[2 * BANDS] = self.analysis.features()[PITCH];
        Some(features)
    }

    /// The cosine transform with RNNoise's factor, √(2/22).
    fn cepstrum(&self, x: &[f32; BANDS], y: &mut [f32]) {
        y.fill(0.0);
        for (x, cosines) in x.iter().zip(self.cosines.chunks_exact(BANDS)) {
            y.iter_mut()
                .zip(cosines)
                .for_each(|(y, cosine)| *y += x * cosine);
        }
        let factor = (2.0f32 / 22.0).sqrt();
        y.iter_mut().for_each(|y| *y *= factor);
    }
}

/// The states of one channel.
pub struct Denoiser<G> {
    analysis: Analysis,
    network: G,
    last: [f32; BANDS],
    synthesis: Synthesis,
}

impl<G: Gains<FEATURES, BANDS>> Denoiser<G> {
    /// A channel with silence before its first frame.
    pub fn new(network: G) -> Self {
        Self {
            analysis: Analysis::default(),
            network,
            last: [0.0; BANDS],
            synthesis: Synthesis::new(),
        }
    }
}

impl<G: Gains<FEATURES, BANDS>> Channel for Denoiser<G> {
    /// Takes a frame and writes the frame before the previous one without noise: the gains that the network
    /// computes from a frame act on the previous one, and overlap-add takes another frame.
    ///
    /// After a frame of digital silence the previous frame passes unchanged, and the network does not run.
    fn frame(&mut self, input: &[f32; FRAME], output: &mut [f32; FRAME]) -> f32 {
        let features = self.analysis.frame(input);
        let (mut voice, mut of_bins) = (0.0, [1.0; BINS]);
        let Analysis {
            current, previous, ..
        } = &mut self.analysis;
        if let Some(features) = features {
            let mut gains = [0.0; BANDS];
            voice = self.network.frame(&features, &mut gains);
            pitch_filter(previous, &gains);
            for (k, (gain, last)) in gains.iter_mut().zip(&mut self.last).enumerate() {
                *gain = gain.max(LEAST_FALL * *last);
                // The limit is a share of the energy of the frame, so it changes with the energy.
                let change = (previous.energy_x[k] + 1e-3) / (current.energy_x[k] + 1e-3);
                *last = (*gain * change).min(1.0);
            }
            spread(&gains, &mut of_bins);
        }
        self.synthesis.frame(&previous.x, &of_bins, output);
        voice
    }
}

/// Adds the spectrum of one period earlier where a band has noise between the harmonics of a voice, and keeps
/// the energy of the bands.
fn pitch_filter(frame: &mut Spectra, gains: &[f32; BANDS]) {
    let mut of_bins = [0.0; BINS];
    let share = |k: usize| {
        let (gain, c) = (gains[k], frame.correlation[k]);
        let share = if c > gain {
            1.0
        } else {
            let (gain, c) = (gain * gain, c * c);
            (c * (1.0 - gain) / (0.001 + gain * (1.0 - c))).clamp(0.0, 1.0)
        };
        share.sqrt() * (frame.energy_x[k] / (1e-8 + frame.energy_p[k])).sqrt()
    };
    spread(&std::array::from_fn(share), &mut of_bins);
    for ((x, p), share) in frame.x.iter_mut().zip(&frame.p).zip(&of_bins) {
        *x += p * share;
    }
    let energy = products(&frame.x, &frame.x);
    let norm = |k: usize| (frame.energy_x[k] / (1e-8 + energy[k])).sqrt();
    spread(&std::array::from_fn(norm), &mut of_bins);
    frame
        .x
        .iter_mut()
        .zip(&of_bins)
        .for_each(|(x, norm)| *x *= norm);
}
