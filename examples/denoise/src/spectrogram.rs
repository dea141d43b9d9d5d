//! Power over time and frequency.

use std::f32::consts::PI;
use std::sync::Arc;

use realfft::num_complex::Complex32;
use realfft::{RealFftPlanner, RealToComplex};

use crate::{FRAME, FULL_SCALE};

/// Bins per cell. Bins have a distance of 50 Hz.
const BINS_OF_CELL: usize = 2;
/// Cells per column. Frequencies above 12 kHz are left out, because they contain little speech.
pub const CELLS: usize = 120;
/// Hz per cell.
pub const HERTZ: f64 = 50.0 * BINS_OF_CELL as f64;
/// If there are twice as many columns, pairs of columns are merged, so the memory does not grow with the
/// file.
const COLUMNS: usize = 240;

/// Power over time and frequency. A sine at full scale has a power of 1.
pub struct Spectrogram {
    transform: Arc<dyn RealToComplex<f32>>,
    scratch: Vec<Complex32>,
    spectrum: Vec<Complex32>,
    windowed: Vec<f32>,
    window: Vec<f32>,
    last: [f32; FRAME],
    columns: Vec<[f32; CELLS]>,
    /// Frames per column.
    width: usize,
    /// Number of frames.
    frames: usize,
}

impl Spectrogram {
    /// An empty spectrogram.
    pub(crate) fn new() -> Self {
        let transform = RealFftPlanner::new().plan_fft_forward(2 * FRAME);
        let window = (0..2 * FRAME).map(|k| 0.5 - 0.5 * (PI * k as f32 / FRAME as f32).cos());
        Self {
            scratch: transform.make_scratch_vec(),
            spectrum: transform.make_output_vec(),
            windowed: transform.make_input_vec(),
            window: window.collect(),
            transform,
            last: [0.0; FRAME],
            columns: Vec::new(),
            width: 1,
            frames: 0,
        }
    }

    /// Adds a frame.
    pub fn push(&mut self, frame: &[f32; FRAME]) {
        let samples = self.last.iter().chain(frame);
        for ((to, x), w) in self.windowed.iter_mut().zip(samples).zip(&self.window) {
            *to = x * w;
        }
        self.last = *frame;
        self.transform
            .process_with_scratch(&mut self.windowed, &mut self.spectrum, &mut self.scratch)
            .expect("the plan made these buffers");
        if self.frames.is_multiple_of(self.width) {
            if self.columns.len() == 2 * COLUMNS {
                self.halve();
            }
            self.columns.push([0.0; CELLS]);
        }
        self.frames += 1;
        // The peak of a sine is half of the window's sum, which is FRAME.
        let unit = FULL_SCALE * FRAME as f32 / 2.0;
        let column = self
            .columns
            .last_mut()
            .expect("there is at least one column");
        for (cell, bins) in column.iter_mut().zip(self.spectrum.chunks(BINS_OF_CELL)) {
            let power = bins.iter().map(|bin| (bin / unit).norm_sqr()).sum::<f32>();
            *cell += power / self.width as f32;
        }
    }

    fn halve(&mut self) {
        let pairs = self.columns.chunks_exact(2);
        let mean = |pair: &[[f32; CELLS]]| std::array::from_fn(|k| (pair[0][k] + pair[1][k]) / 2.0);
        self.columns = pairs.map(mean).collect();
        self.width *= 2;
    }

    /// Duration of all columns in seconds.
    pub fn seconds(&self) -> f64 {
        (self.columns.len() * self.width) as f64 / 100.0
    }

    /// Mean power of each column's cells, from low to high, in dB of a sine at full scale.
    pub fn decibels(&self) -> Vec<[f64; CELLS]> {
        let frames_of_last = self.frames - self.width * self.columns.len().saturating_sub(1);
        let last = self.columns.len().saturating_sub(1);
        let column = |(k, column): (usize, &[f32; CELLS])| {
            let part = if k == last {
                frames_of_last as f64 / self.width as f64
            } else {
                1.0
            };
            column.map(|power| 10.0 * (f64::from(power) / part).max(1e-20).log10())
        };
        self.columns.iter().enumerate().map(column).collect()
    }
}
