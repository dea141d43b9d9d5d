//! RNNoise 0.2's features and network in float64 with simple loops, independent of the program's code.

use std::f64::consts::PI;

use denoise::FRAME;
use denoise::v2::arrays::Arrays;

use crate::Recorded;
use crate::twin::Arithmetic;

/// Samples that the pitch can reach: two frames and the longest period.
const KEPT: usize = 2 * FRAME + 768;
/// `eband20ms` of RNNoise's `denoise.c`.
const EDGES: [usize; 34] = [
    0, 2, 4, 6, 8, 10, 12, 15, 18, 21, 24, 28, 32, 36, 41, 47, 53, 60, 68, 77, 87, 98, 110, 124,
    140, 157, 176, 198, 223, 251, 282, 317, 356, 400,
];

/// The first 64 features of each frame. The pitch, an integer, is the recorded one.
pub fn features_of(frames: &[Recorded]) -> Vec<Vec<f64>> {
    let mut kept = vec![0.0; KEPT];
    let mut all = Vec::new();
    let sound = frames.iter().flat_map(|frame| frame.sound.map(f64::from));
    let filtered = high_pass(sound, |y| y, |y| y);
    for (frame, filtered) in frames.iter().zip(filtered.chunks_exact(FRAME)) {
        kept.drain(..FRAME);
        kept.extend_from_slice(filtered);
        let pitch = (100.0 * f64::from(frame.features[64]) + 300.0).round() as usize;
        // In silence the features are zero, and nothing compares them.
        let pitch = pitch.min(768);
        let x = spectrum(&kept[KEPT - 2 * FRAME..]);
        let p = spectrum(&kept[KEPT - 2 * FRAME - pitch..][..2 * FRAME]);
        let [ex, ep, mut c] = [(&x, &x), (&p, &p), (&x, &p)].map(|(a, b)| bands(a, b));
        for k in 0..32 {
            c[k] /= (0.001 + ex[k] * ep[k]).sqrt();
        }
        let (mut largest, mut follow) = (-2.0f64, -2.0f64);
        let mut levels = vec![];
        for e in ex {
            let level = (0.01 + e).log10().max(largest - 7.0).max(follow - 1.5);
            largest = largest.max(level);
            follow = level.max(follow - 1.5);
            levels.push(level);
        }
        let mut features = [cosines(&levels), cosines(&c)].concat();
        features[0] -= 12.0;
        features[1] -= 4.0;
        all.push(features);
    }
    all
}

/// RNNoise's high-pass filter with two roundings: of its output before the feedback, and of its memory.
pub fn high_pass(
    sound: impl Iterator<Item = f64>,
    of_output: fn(f64) -> f64,
    of_memory: fn(f64) -> f64,
) -> Vec<f64> {
    let mut memory = [0.0; 2];
    let step = |x: f64| {
        // Coefficients in float32, as in RNNoise.
        let y = of_output(x + memory[0]);
        let next = memory[1] - 2.0 * x + f64::from(1.99599f32) * y;
        memory = [of_memory(next), of_memory(x - f64::from(0.996f32) * y)];
        y
    };
    sound.map(step).collect()
}

fn spectrum(samples: &[f64]) -> Vec<[f64; 2]> {
    let window = |k: usize| (PI / 2.0 * (PI * (k as f64 + 0.5) / 960.0).sin().powi(2)).sin();
    let windowed: Vec<f64> = samples
        .iter()
        .enumerate()
        .map(|(k, x)| x * window(k))
        .collect();
    let circle: Vec<f64> = (0..960)
        .map(|k| (2.0 * PI * k as f64 / 960.0).cos())
        .collect();
    let bin = |k: usize| {
        let sum = |turn: usize| {
            let terms = windowed.iter().enumerate();
            terms
                .map(|(n, x)| x * circle[(k * n + turn) % 960])
                .sum::<f64>()
                / 960.0
        };
        // cos(a + 3π/2) = sin a. The sign does not matter in products of two spectra.
        [sum(0), sum(720)]
    };
    (0..400).map(bin).collect()
}

fn bands(a: &[[f64; 2]], b: &[[f64; 2]]) -> Vec<f64> {
    let mut sums = [0.0; 34];
    for band in 0..33 {
        for bin in EDGES[band]..EDGES[band + 1] {
            let part = (bin - EDGES[band]) as f64 / (EDGES[band + 1] - EDGES[band]) as f64;
            let product = a[bin][0] * b[bin][0] + a[bin][1] * b[bin][1];
            sums[band] += (1.0 - part) * product;
            sums[band + 1] += part * product;
        }
    }
    sums[1] = (sums[0] + sums[1]) * 2.0 / 3.0;
    sums[32] = (sums[32] + sums[33]) * 2.0 / 3.0;
    sums[1..33].to_vec()
}

fn cosines(x: &[f64]) -> Vec<f64> {
    let coefficient = |i: usize| {
        let scale = if i == 0 { 0.5f64.sqrt() } else { 1.0 };
        let term = |(j, x): (usize, &f64)| x * ((j as f64 + 0.5) * i as f64 * PI / 32.0).cos();
        scale * x.iter().enumerate().map(term).sum::<f64>() * (2.0f64 / 22.0).sqrt()
    };
    (0..32).map(coefficient).collect()
}

/// `y = x·w + b`, `w [O][I]`.
struct Linear {
    weight: Vec<Vec<f64>>,
    bias: Vec<f64>,
}

impl Linear {
    fn read(arrays: &Arrays<'_>, name: &str, inputs: usize, outputs: usize) -> Self {
        let floats = |part: &str| -> Vec<f64> {
            let bytes = arrays.get(&format!("{name}_{part}")).unwrap();
            let float = |b: &[u8]| f64::from(f32::from_le_bytes(b.try_into().unwrap()));
            bytes.chunks(4).map(float).collect()
        };
        let w = floats("weights_float");
        let mut weight = vec![vec![0.0; inputs]; outputs];
        if !name.starts_with("gru") {
            for (k, w) in w.into_iter().enumerate() {
                weight[k % outputs][k / outputs] = w;
            }
        } else {
            let index = arrays.get(&format!("{name}_weights_idx")).unwrap();
            let mut index = index
                .chunks(4)
                .map(|b| i32::from_le_bytes(b.try_into().unwrap()) as usize);
            let mut w = w.into_iter();
            for first in (0..outputs).step_by(8) {
                for _ in 0..index.next().unwrap() {
                    let at = index.next().unwrap();
                    let row = |input| (first..first + 8).map(move |output| (output, input));
                    for (output, input) in (at..at + 4).flat_map(row) {
                        weight[output][input] = w.next().unwrap();
                    }
                }
            }
        }
        if name.ends_with("recurrent") {
            for (k, w) in floats("weights_diag").into_iter().enumerate() {
                weight[k][k % inputs] += w;
            }
        }
        let bias = floats("bias");
        assert_eq!(bias.len(), outputs);
        Self { weight, bias }
    }

    fn apply(&self, x: &[f64], by: Arithmetic) -> Vec<f64> {
        let rows = self.weight.iter().zip(&self.bias);
        rows.map(|(row, &bias)| by.sum(bias, row.iter().zip(x).map(|(w, x)| w * x)))
            .collect()
    }
}

/// The network with its states.
pub struct Twin {
    convolutions: [Linear; 2],
    grus: Vec<[Linear; 2]>,
    outputs: [Linear; 2],
    inputs: [Vec<f64>; 2],
    states: Vec<Vec<f64>>,
    by: Arithmetic,
}

impl Twin {
    pub fn new(arrays: &Arrays<'_>, by: Arithmetic) -> Self {
        let read = |name: &str, inputs, outputs| Linear::read(arrays, name, inputs, outputs);
        let gru = |k: usize| {
            ["input", "recurrent"].map(|side| read(&format!("gru{k}_{side}"), 384, 1152))
        };
        Self {
            convolutions: [read("conv1", 195, 128), read("conv2", 384, 384)],
            grus: (1..=3).map(gru).collect(),
            outputs: [read("dense_out", 1536, 32), read("vad_dense", 1536, 1)],
            inputs: [vec![0.0; 195], vec![0.0; 384]],
            states: vec![vec![0.0; 384]; 3],
            by,
        }
    }

    /// The gains and the probability of a voice.
    pub fn step(&mut self, features: &[f64]) -> Vec<f64> {
        let by = self.by;
        let mut x = features.to_vec();
        for (layer, input) in self.convolutions.iter().zip(&mut self.inputs) {
            input.drain(..x.len());
            input.extend(x);
            x = layer
                .apply(input, by)
                .into_iter()
                .map(|a| (by.round)((by.tanh)(a)))
                .collect();
        }
        let mut all = x.clone();
        for ([input, recurrent], h) in self.grus.iter().zip(&mut self.states) {
            let (a, b) = (input.apply(&x, by), recurrent.apply(h, by));
            let round = by.round;
            for k in 0..384 {
                let z = by.sigmoid(round(a[k] + b[k]));
                let r = by.sigmoid(round(a[384 + k] + b[384 + k]));
                let n = round((by.tanh)(round(a[768 + k] + round(r * b[768 + k]))));
                h[k] = round(round(z * h[k]) + round(round(1.0 - z) * n));
            }
            x.clone_from(h);
            all.extend_from_slice(h);
        }
        let outputs = self.outputs.iter().flat_map(|layer| layer.apply(&all, by));
        outputs.map(|a| by.sigmoid(a)).collect()
    }
}
