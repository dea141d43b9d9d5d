//! nnnoiseless' weights format: six consecutive layers in bytes.
//!
//! ```text
//! dense: I, O, activation; weight [I,O]; bias [O]
//! GRU:   I, H, activation; input weight [I,3H]; recurrent weight [H,3H]; bias [3H]
//! ```
//!
//! Sizes are bytes from 1 to 127. Activations are 0 for tanh, 1 for σ, 2 for ReLU. All other values are
//! signed bytes in units of 1/256. The gates of a GRU are z, r and the candidate. The reset gate acts
//! before the product, the update gate keeps the previous state, and the activation belongs to the
//! candidate.

use gru_cpu::spec::Activation;

/// RNNoise's weights, by Jean-Marc Valin and others: `weights/COPYING`.
pub const PUBLISHED: &[u8] = include_bytes!("../weights/weights.rnn");

/// `y = φ(x·weight + bias)`.
#[derive(Debug)]
pub struct Dense {
    /// `[I,O]`.
    pub weight: Vec<f32>,
    /// `[O]`.
    pub bias: Vec<f32>,
    /// φ.
    pub activation: Activation,
}

/// A GRU, its gates in the order of `gru-cpu`: r, z, n.
#[derive(Debug)]
pub struct Gru {
    /// I, the number of inputs.
    pub inputs: usize,
    /// H, the number of units.
    pub units: usize,
    /// `[I,3H]`.
    pub w_ih: Vec<f32>,
    /// `[H,3H]`.
    pub w_hh: Vec<f32>,
    /// `[3H]`, one bias for the input and the recurrent product together.
    pub bias: Vec<f32>,
    /// The activation of the candidate.
    pub activation: Activation,
}

/// The layers in the order of the file.
#[derive(Debug)]
pub struct Weights {
    /// Input layer: reads the features.
    pub input: Dense,
    /// Voice GRU: reads the input layer.
    pub voice_gru: Gru,
    /// Noise GRU: reads the input layer, the voice GRU and the features.
    pub noise_gru: Gru,
    /// Gain GRU: reads the voice GRU, the noise GRU and the features.
    pub gain_gru: Gru,
    /// Gain layer: reads the gain GRU.
    pub gains: Dense,
    /// Voice layer: reads the voice GRU and gives the voice probability.
    pub voice: Dense,
}

impl Weights {
    /// The published weights.
    pub fn published() -> Self {
        let mut bytes = Bytes(PUBLISHED);
        let weights = Self {
            input: bytes.dense(),
            voice_gru: bytes.gru(),
            noise_gru: bytes.gru(),
            gain_gru: bytes.gru(),
            gains: bytes.dense(),
            voice: bytes.dense(),
        };
        assert!(bytes.0.is_empty(), "expected six layers");
        weights
    }
}

/// The remaining bytes of the file.
struct Bytes(&'static [u8]);

impl Bytes {
    /// The numbers of inputs and units, and the activation of a layer.
    fn header(&mut self) -> (usize, usize, Activation) {
        let (&[inputs, units, activation], left) = self
            .0
            .split_first_chunk()
            .expect("a header has three bytes");
        self.0 = left;
        let activation = match activation {
            0 => Activation::Tanh,
            1 => Activation::Sigmoid,
            2 => Activation::Relu,
            other => unreachable!("activation {other}"),
        };
        (inputs.into(), units.into(), activation)
    }

    /// Converts units of 1/256. The factor is exact in float32, so scaling a weight scales its product.
    fn numbers(&mut self, count: usize) -> Vec<f32> {
        let (taken, left) = self.0.split_at(count);
        self.0 = left;
        let numbers = taken.iter().map(|b| f32::from(b.cast_signed()) / 256.0);
        numbers.collect()
    }

    fn dense(&mut self) -> Dense {
        let (inputs, units, activation) = self.header();
        Dense {
            weight: self.numbers(inputs * units),
            bias: self.numbers(units),
            activation,
        }
    }

    fn gru(&mut self) -> Gru {
        let (inputs, units, activation) = self.header();
        let mut rows = |rows: usize| {
            let mut numbers = self.numbers(rows * 3 * units);
            // Reorders z | r | n to r | z | n.
            numbers
                .chunks_exact_mut(3 * units)
                .for_each(|row| row[..2 * units].rotate_left(units));
            numbers
        };
        Gru {
            w_ih: rows(inputs),
            w_hh: rows(units),
            bias: rows(1),
            inputs,
            units,
            activation,
        }
    }
}
