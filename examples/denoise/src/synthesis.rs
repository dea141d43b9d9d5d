//! Converts spectra back to sound: inverse transform, window, overlap-add.

use std::f64::consts::FRAC_PI_2;
use std::sync::Arc;

use realfft::num_complex::Complex32;
use realfft::{ComplexToReal, RealFftPlanner};

use crate::FRAME;
use crate::bands::BINS;

const WINDOW: usize = 2 * FRAME;

/// Overlap-adds windows of two frames, one frame apart.
///
/// Analysis and synthesis both multiply by the window `w = sin(π/2·sin²(π(k+½)/960))`, Vorbis'
/// power-complementary window. `w²` of a window and of its neighbour add up to 1. So an unchanged
/// spectrum gives the original sound, one frame late.
pub struct Synthesis {
    inverse: Arc<dyn ComplexToReal<f32>>,
    scratch: Vec<Complex32>,
    spectrum: Vec<Complex32>,
    samples: Vec<f32>,
    window: Vec<f32>,
    /// The second half of the last window, to be added to the first half of the next window.
    overlap: [f32; FRAME],
}

impl Synthesis {
    /// Silence before the first window.
    pub(crate) fn new() -> Self {
        let inverse = RealFftPlanner::new().plan_fft_inverse(WINDOW);
        let window = (0..WINDOW).map(|k| {
            let sine = (FRAC_PI_2 * (k as f64 + 0.5) / FRAME as f64).sin();
            (FRAC_PI_2 * sine * sine).sin() as f32
        });
        Self {
            scratch: inverse.make_scratch_vec(),
            spectrum: inverse.make_input_vec(),
            samples: inverse.make_output_vec(),
            window: window.collect(),
            inverse,
            overlap: [0.0; FRAME],
        }
    }

    /// The next frame of sound from a spectrum and the gain of each bin.
    ///
    /// The analysis divides by the sum of `w²`, which is 480. The transform here multiplies by its
    /// length, 960, so the result is halved.
    pub fn frame(
        &mut self,
        spectrum: &[Complex32],
        gains: &[f32; BINS],
        output: &mut [f32; FRAME],
    ) {
        for ((bin, &x), gain) in self.spectrum.iter_mut().zip(spectrum).zip(gains) {
            *bin = x * gain;
        }
        // The first and last bins of a real signal are real. The transform requires this.
        self.spectrum[0].im = 0.0;
        self.spectrum[BINS - 1].im = 0.0;
        self.inverse
            .process_with_scratch(&mut self.spectrum, &mut self.samples, &mut self.scratch)
            .expect("the plan made these buffers");
        for (sample, w) in self.samples.iter_mut().zip(&self.window) {
            *sample = *sample / 2.0 * w;
        }
        let (first, second) = self.samples.split_at(FRAME);
        for ((y, new), kept) in output.iter_mut().zip(first).zip(&self.overlap) {
            *y = new + kept;
        }
        self.overlap.copy_from_slice(second);
    }
}
