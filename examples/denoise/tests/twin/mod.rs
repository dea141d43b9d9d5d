//! RNNoise's network in float64 with simple loops, from the bytes of the file. It is independent of the
//! program's parser, kernels and gate order.

#![allow(dead_code)]

use denoise::bands::BANDS;
use denoise::denoiser::{FEATURES, Gains};

/// The function that the twin uses for tanh (and for σ through tanh), and the rounding of every value:
/// none, or to float32.
#[derive(Clone, Copy)]
pub struct Arithmetic {
    pub tanh: fn(f64) -> f64,
    pub round: fn(f64) -> f64,
}

pub const EXACT: Arithmetic = Arithmetic {
    tanh: f64::tanh,
    round: |x| x,
};
/// In float32, with sums from the first term to the last: naive code. (A product or sum of two float32
/// values, computed in float64 and rounded once, equals the float32 result.)
pub const NAIVE: Arithmetic = Arithmetic {
    tanh: f64::tanh,
    round: |x| f64::from(x as f32),
};
impl Arithmetic {
    pub fn sigmoid(self, a: f64) -> f64 {
        (self.round)(0.5 + 0.5 * (self.tanh)(0.5 * a))
    }

    pub fn sum(self, first: f64, terms: impl Iterator<Item = f64>) -> f64 {
        let round = self.round;
        terms.fold(first, |sum, term| round(sum + round(term)))
    }
}

/// One layer: `weight [rows][columns]`, with a GRU's gates z, r and candidate in adjacent columns.
pub struct Layer {
    pub inputs: usize,
    pub units: usize,
    pub activation: u8,
    pub weight: Vec<Vec<f64>>,
    pub recurrent: Vec<Vec<f64>>,
    pub bias: Vec<f64>,
}

impl Layer {
    fn read(bytes: &mut &[u8], gru: bool) -> Self {
        let (inputs, units) = (usize::from(bytes[0]), usize::from(bytes[1]));
        let activation = bytes[2];
        *bytes = &bytes[3..];
        let columns = if gru { 3 * units } else { units };
        let mut row = || {
            let (row, rest) = bytes.split_at(columns);
            *bytes = rest;
            row.iter().map(|&b| f64::from(b as i8) / 256.0).collect()
        };
        let weight = (0..inputs).map(|_| row()).collect();
        let recurrent = (0..if gru { units } else { 0 }).map(|_| row()).collect();
        let bias = row();
        Self {
            inputs,
            units,
            activation,
            weight,
            recurrent,
            bias,
        }
    }

    /// `start + x·column k` over some rows.
    fn dot(&self, rows: &[Vec<f64>], k: usize, x: &[f64], start: f64, by: Arithmetic) -> f64 {
        assert_eq!(x.len(), rows.len());
        by.sum(start, x.iter().zip(rows).map(|(x, row)| x * row[k]))
    }

    fn activate(&self, a: f64, by: Arithmetic) -> f64 {
        match self.activation {
            0 => (by.round)((by.tanh)(a)),
            1 => by.sigmoid(a),
            2 if a < 0.0 => 0.0,
            _ => a,
        }
    }

    fn dense(&self, x: &[f64], by: Arithmetic) -> Vec<f64> {
        let sum = |k: usize| self.dot(&self.weight, k, x, self.bias[k], by);
        (0..self.units).map(|k| self.activate(sum(k), by)).collect()
    }

    fn step(&self, x: &[f64], h: &mut [f64], by: Arithmetic) {
        let (n, round) = (self.units, by.round);
        let sum = |k: usize, h: &[f64]| {
            let input = self.dot(&self.weight, k, x, self.bias[k], by);
            self.dot(&self.recurrent, k, h, input, by)
        };
        let gate = |first: usize| (0..n).map(|k| by.sigmoid(sum(first + k, h))).collect();
        let [z, r]: [Vec<f64>; 2] = [gate(0), gate(n)];
        let seen: Vec<f64> = r.iter().zip(&*h).map(|(r, h)| round(r * h)).collect();
        let candidate = |k| self.activate(sum(2 * n + k, &seen), by);
        for (k, (h, z)) in h.iter_mut().zip(z).enumerate() {
            *h = round(round(z * *h) + round(round(1.0 - z) * candidate(k)));
        }
    }
}

/// The network with its states.
pub struct Twin {
    /// In the order of the file.
    pub layers: [Layer; 6],
    pub states: [Vec<f64>; 3],
    pub by: Arithmetic,
}

impl Twin {
    pub fn new(mut bytes: &[u8], by: Arithmetic) -> Self {
        let grus = [false, true, true, true, false, false];
        let layers = grus.map(|gru| Layer::read(&mut bytes, gru));
        assert!(bytes.is_empty());
        Self {
            states: [1, 2, 3].map(|k: usize| vec![0.0; layers[k].units]),
            layers,
            by,
        }
    }

    /// Gains and the voice probability.
    pub fn step(&mut self, features: &[f64]) -> (Vec<f64>, f64) {
        let [input, voice_gru, noise_gru, gain_gru, gains, voice] = &self.layers;
        let [v, n, g] = &mut self.states;
        let by = self.by;
        let d = input.dense(features, by);
        voice_gru.step(&d, v, by);
        noise_gru.step(&[&d[..], v, features].concat(), n, by);
        gain_gru.step(&[&v[..], n, features].concat(), g, by);
        (gains.dense(g, by), voice.dense(v, by)[0])
    }
}

impl Gains for Twin {
    fn frame(&mut self, features: &[f32; FEATURES], gains: &mut [f32; BANDS]) -> f32 {
        let (exact, voice) = self.step(&features.map(f64::from));
        for (gain, exact) in gains.iter_mut().zip(exact) {
            *gain = exact as f32;
        }
        voice as f32
    }
}

/// Noisy speech as frames with the scale of 16-bit integers.
pub fn frames(seconds: f32, seed: u64) -> Vec<[f32; denoise::FRAME]> {
    let [_, noisy] = denoise::demo::sounds(seconds, seed);
    let whole = noisy.chunks_exact(denoise::FRAME);
    let frame = |frame: &[f32]| std::array::from_fn(|k| (frame[k] * 32768.0).round());
    whole.map(frame).collect()
}
