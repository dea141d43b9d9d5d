//! Spectrograms before and after, as one PNG.

use crate::{Error, HOP};
use realfft::RealFftPlanner;
use std::{f32::consts::PI, fs::File, io::BufWriter, path::Path};

/// Rows of pixels between the spectrograms.
const GAP: usize = 4;
/// Range of the colours, in dB of a sine at full scale.
const RANGE: (f32, f32) = (-100.0, -20.0);
/// Points of the colour map Viridis, from low to high.
const COLOURS: [[f32; 3]; 5] = [
    [68.0, 1.0, 84.0],
    [59.0, 82.0, 139.0],
    [33.0, 145.0, 140.0],
    [94.0, 201.0, 98.0],
    [253.0, 231.0, 37.0],
];

/// Draws the spectrogram of `before` above the one of `after`. A pixel is 16 ms wide and 62.5 Hz high.
///
/// # Errors
/// If the file cannot be written.
pub fn draw(path: &Path, before: &[f32], after: &[f32]) -> Result<(), Error> {
    let failed = |reason: String| Error::Picture {
        path: path.to_owned(),
        reason,
    };
    let [upper, lower] = [before, after].map(columns);
    let (width, height) = (upper.len().max(1), HOP / 2);
    let mut pixels = vec![255; width * (2 * height + GAP) * 3];
    for (columns, top) in [(&upper, 0), (&lower, height + GAP)] {
        for (x, column) in columns.iter().enumerate() {
            for (row, &decibels) in column.iter().rev().enumerate() {
                let at = ((top + row) * width + x) * 3;
                pixels[at..at + 3].copy_from_slice(&colour(decibels));
            }
        }
    }
    let file = File::create(path).map_err(|e| failed(e.to_string()))?;
    let mut encoder = png::Encoder::new(
        BufWriter::new(file),
        width as u32,
        (2 * height + GAP) as u32,
    );
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().map_err(|e| failed(e.to_string()))?;
    writer
        .write_image_data(&pixels)
        .map_err(|e| failed(e.to_string()))
}

/// The level of each pair of bins in each frame, from low to high.
fn columns(samples: &[f32]) -> Vec<[f32; HOP / 2]> {
    let size = 2 * HOP;
    let plan = RealFftPlanner::new().plan_fft_forward(size);
    let mut bins = plan.make_output_vec();
    let frames = samples.windows(size).step_by(HOP);
    let hann = |k: usize| 0.5 - 0.5 * (2.0 * PI * k as f32 / size as f32).cos();
    let column = |frame: &[f32]| {
        let mut frame: Vec<f32> = frame.iter().enumerate().map(|(k, x)| x * hann(k)).collect();
        plan.process(&mut frame, &mut bins)
            .expect("the sizes are the plan's");
        // The peak of a sine is half of the window's sum, which is HOP.
        let unit = HOP as f32 / 2.0;
        std::array::from_fn(|k| {
            let power: f32 = bins[2 * k..2 * k + 2]
                .iter()
                .map(|bin| (bin / unit).norm_sqr())
                .sum();
            10.0 * power.max(1e-20).log10()
        })
    };
    frames.map(column).collect()
}

fn colour(decibels: f32) -> [u8; 3] {
    let part = ((decibels - RANGE.0) / (RANGE.1 - RANGE.0)).clamp(0.0, 1.0);
    let at = part * (COLOURS.len() - 1) as f32;
    let low = (at as usize).min(COLOURS.len() - 2);
    let share = at - low as f32;
    std::array::from_fn(|c| {
        (COLOURS[low][c] + share * (COLOURS[low + 1][c] - COLOURS[low][c])).round() as u8
    })
}
