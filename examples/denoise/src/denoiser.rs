//! One channel of sound, frame by frame.

use nnnoiseless::DenoiseFeatures;

use crate::FRAME;
use crate::bands::{BANDS, BINS, spread};
use crate::synthesis::Synthesis;

/// Features of a frame: 22 of the cepstrum, 6 + 6 of its first and second differences, 6 of the
/// cepstrum of the bands' correlation with the pitch, the pitch, how much the spectrum varies.
pub const FEATURES: usize = 42;

/// A gain may fall to this part of what it was a frame before: a reverberation of the gate, 135 ms
/// for 60 dB, in place of noise that is cut off.
const LEAST_FALL: f32 = 0.6;

/// What says how much of each band is speech. It carries its state from frame to frame.
pub trait Gains {
    /// Writes the gains of the bands of a frame from its features, and gives the probability that
    /// the frame has a voice in it.
    fn frame(&mut self, features: &[f32; FEATURES], gains: &mut [f32; BANDS]) -> f32;
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

    /// Takes a frame, and writes the one before it without its noise: the sound is one frame late.
    /// Gives the probability of a voice. Samples are those of 16-bit integers, up to
    /// [`FULL_SCALE`](crate::FULL_SCALE).
    ///
    /// A frame of digital silence passes unchanged, its probability is 0, and the network does not
    /// see it.
    pub fn frame(&mut self, input: &[f32; FRAME], output: &mut [f32; FRAME]) -> f32 {
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
            spread(&gains, &mut of_bins);
        }
        self.synthesis.frame(&self.analysis.x, &of_bins, output);
        voice
    }
}
