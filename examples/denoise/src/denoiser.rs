//! Denoises one channel of sound, frame by frame.

use nnnoiseless::DenoiseFeatures;

use crate::FRAME;
use crate::bands::{BANDS, BINS, PEAKS, spread};
use crate::synthesis::Synthesis;

/// Features of a frame: 22 cepstral coefficients, 6 + 6 of their first and second differences, 6 of the
/// cepstrum of the bands' correlation with the pitch, the pitch, and the variability of the spectrum.
pub const FEATURES: usize = 42;

/// A gain falls at most to this share of its previous value. This gives a decay of 60 dB in 135 ms
/// instead of abruptly cut noise.
pub(crate) const LEAST_FALL: f32 = 0.6;

/// Computes the speech share of each band. Carries its state from frame to frame.
pub trait Gains<const F: usize = FEATURES, const B: usize = BANDS> {
    /// Writes the gains of a frame's bands from its features. Returns the probability that the frame
    /// contains a voice.
    fn frame(&mut self, features: &[f32; F], gains: &mut [f32; B]) -> f32;
}

/// One channel of sound.
pub trait Channel {
    /// Takes a frame and writes an earlier one without noise. Returns the voice probability. Samples have the scale
    /// of 16-bit integers, up to [`FULL_SCALE`](crate::FULL_SCALE).
    fn frame(&mut self, input: &[f32; FRAME], output: &mut [f32; FRAME]) -> f32;
}

/// The states of one channel.
pub struct Denoiser<G> {
    analysis: Box<DenoiseFeatures>,
    network: G,
    last: [f32; BANDS],
    synthesis: Synthesis,
}

impl<G: Gains> Denoiser<G> {
    /// A channel with silence before its first frame.
    pub fn new(network: G) -> Self {
        Self {
            analysis: Box::new(DenoiseFeatures::new()),
            network,
            last: [0.0; BANDS],
            synthesis: Synthesis::new(),
        }
    }
}

impl<G: Gains> Channel for Denoiser<G> {
    /// Takes a frame and writes the previous frame without noise: the output is one frame late.
    ///
    /// A frame of digital silence passes unchanged with a probability of 0, and does not change the
    /// network's state.
    fn frame(&mut self, input: &[f32; FRAME], output: &mut [f32; FRAME]) -> f32 {
        self.analysis.shift_and_filter_input(input);
        let silent = self.analysis.compute_frame_features();
        let (mut voice, mut of_bins) = (0.0, [1.0; BINS]);
        if !silent {
            let mut gains = [0.0; BANDS];
            let features = self.analysis.features().try_into();
            let features = features.expect("nnnoiseless computes 42 features");
            voice = self.network.frame(features, &mut gains);
            self.analysis.pitch_filter(&gains);
            for (gain, last) in gains.iter_mut().zip(&mut self.last) {
                *gain = gain.max(LEAST_FALL * *last);
                *last = *gain;
            }
            spread(&PEAKS, &gains, &mut of_bins);
        }
        self.synthesis.frame(&self.analysis.x, &of_bins, output);
        voice
    }
}
