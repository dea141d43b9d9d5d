//! The 22 bands of the network's gains, with widths close to the bands of human hearing.

use crate::FRAME;

/// The number of bands. Each has a gain.
pub const BANDS: usize = 22;
/// Bins of a spectrum with a distance of 50 Hz: from 0 to 24 kHz.
pub const BINS: usize = FRAME + 1;

/// The peak of each band in bins, up to 20 kHz. Bands are triangles that reach to the peaks of their neighbours.
pub const PEAKS: [usize; BANDS] = [
    0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 136, 160, 192, 240, 312, 400,
];

/// Writes a gain for each bin by linear interpolation between the peaks of bands. Above the last peak the gain is 0.
pub fn spread(peaks: &[usize], gains: &[f32], bins: &mut [f32; BINS]) {
    bins.fill(0.0);
    for (peaks, gains) in peaks.windows(2).zip(gains.windows(2)) {
        let width = peaks[1] - peaks[0];
        for (j, bin) in bins[peaks[0]..peaks[1]].iter_mut().enumerate() {
            let part = j as f32 / width as f32;
            *bin = (1.0 - part) * gains[0] + part * gains[1];
        }
    }
}
