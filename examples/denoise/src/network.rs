//! RNNoise's network: a dense layer, three GRUs, two dense layers.
//!
//! ```text
//! d = tanh(features)              24
//! v = GRU(d)                      24     voice = σ(v)
//! n = GRU(d, v, features)         48
//! g = GRU(v, n, features)         96     gains = σ(g)
//! ```

use std::sync::Arc;

use gru_cpu::StackStream;
use gru_cpu::spec::Activation;

use crate::bands::BANDS;
use crate::denoiser::{FEATURES, Gains};
use crate::model::Model;
use crate::weights::Dense;

/// The states of one channel, and buffers for the layers' inputs. A frame allocates nothing.
pub struct Network {
    model: Arc<Model>,
    voice_gru: StackStream,
    noise_gru: StackStream,
    gain_gru: StackStream,
    /// `d | v | features`. The voice GRU reads only `d`.
    noise_input: Vec<f32>,
    /// `v | n | features`.
    gain_input: Vec<f32>,
}

impl Network {
    /// A network with zero states.
    pub fn new(model: &Arc<Model>) -> Self {
        let [noise_input, gain_input] = model.widths.map(|width| vec![0.0; width]);
        Self {
            voice_gru: StackStream::new(model.voice_gru.clone(), 1),
            noise_gru: StackStream::new(model.noise_gru.clone(), 1),
            gain_gru: StackStream::new(model.gain_gru.clone(), 1),
            model: model.clone(),
            noise_input,
            gain_input,
        }
    }
}

impl Gains for Network {
    fn frame(&mut self, features: &[f32; FEATURES], gains: &mut [f32; BANDS]) -> f32 {
        let model = &self.model;
        let (d, rest) = self.noise_input.split_at_mut(model.input.bias.len());
        model.input.apply(features, d);
        let v = self.voice_gru.step(d);
        concatenate(&[v, features], rest);
        let n = self.noise_gru.step(&self.noise_input);
        concatenate(&[v, n, features], &mut self.gain_input);
        let g = self.gain_gru.step(&self.gain_input);
        model.gains.apply(g, gains);
        let mut voice = [0.0];
        model.voice.apply(v, &mut voice);
        voice[0]
    }
}

fn concatenate(parts: &[&[f32]], mut to: &mut [f32]) {
    for part in parts {
        let (here, rest) = to.split_at_mut(part.len());
        here.copy_from_slice(part);
        to = rest;
    }
}

impl Dense {
    /// `y = φ(x·weight + bias)`.
    pub(crate) fn apply(&self, x: &[f32], y: &mut [f32]) {
        let n = y.len();
        y.copy_from_slice(&self.bias);
        // Four inputs at once, because y is loaded and stored for each pass.
        let (fours, rest) = x.as_chunks();
        let (rows, last) = self.weight.split_at(4 * n * fours.len());
        for (rows, [a, b, c, d]) in rows.chunks_exact(4 * n).zip(fours) {
            let (ab, cd) = rows.split_at(2 * n);
            let ((wa, wb), (wc, wd)) = (ab.split_at(n), cd.split_at(n));
            let weights = wa.iter().zip(wb).zip(wc.iter().zip(wd));
            for (y, ((wa, wb), (wc, wd))) in y.iter_mut().zip(weights) {
                *y += (a * wa + b * wb) + (c * wc + d * wd);
            }
        }
        for (row, x) in last.chunks_exact(n).zip(rest) {
            for (y, w) in y.iter_mut().zip(row) {
                *y += x * w;
            }
        }
        match self.activation {
            Activation::Sigmoid => y.iter_mut().for_each(|y| *y = 1.0 / (1.0 + (-*y).exp())),
            // Unlike `max`, this keeps a NaN.
            Activation::Relu => y
                .iter_mut()
                .for_each(|y| *y = if *y < 0.0 { 0.0 } else { *y }),
            _ => y.iter_mut().for_each(|y| *y = y.tanh()),
        }
    }
}
