//! The 32 bands of RNNoise 0.2: triangles with equal steps on the scale of equivalent rectangular bandwidths.

use realfft::num_complex::Complex32;

use crate::bands::{self, BINS};

/// The number of bands.
pub const BANDS: usize = 32;
/// The peaks of the bands in bins of 50 Hz. The first and the last triangle belong to their neighbours.
pub const PEAKS: [usize; BANDS + 2] = [
    0, 2, 4, 6, 8, 10, 12, 15, 18, 21, 24, 28, 32, 36, 41, 47, 53, 60, 68, 77, 87, 98, 110, 124,
    140, 157, 176, 198, 223, 251, 282, 317, 356, 400,
];
/// RNNoise divides spectra by the length of the window, 960. nnnoiseless divides by 480.
const SCALE: f32 = 0.25;

/// The sum of `Re(x·p̄)` in each band: the energy if `x` is `p`, in the scale of RNNoise.
pub fn products(x: &[Complex32], p: &[Complex32]) -> [f32; BANDS] {
    let mut sums = [0.0; BANDS + 2];
    for (k, peaks) in PEAKS.windows(2).enumerate() {
        let width = (peaks[1] - peaks[0]) as f32;
        for (j, bin) in (peaks[0]..peaks[1]).enumerate() {
            let part = j as f32 / width;
            let product = x[bin].re * p[bin].re + x[bin].im * p[bin].im;
            sums[k] += (1.0 - part) * product;
            sums[k + 1] += part * product;
        }
    }
    sums[1] = (sums[0] + sums[1]) * 2.0 / 3.0;
    sums[BANDS] = (sums[BANDS] + sums[BANDS + 1]) * 2.0 / 3.0;
    std::array::from_fn(|k| SCALE * sums[k + 1])
}

/// Writes a gain for each bin by linear interpolation. Above 20 kHz the gain is 0.
pub fn spread(gains: &[f32; BANDS], bins: &mut [f32; BINS]) {
    let at = |k: usize| gains[k.clamp(1, BANDS) - 1];
    let wide: [f32; BANDS + 2] = std::array::from_fn(at);
    bands::spread(&PEAKS, &wide, bins);
}
