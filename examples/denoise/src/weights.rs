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

use crate::bands::BANDS;
use crate::denoiser::FEATURES;

/// RNNoise's weights, by Jean-Marc Valin and others: `weights/COPYING`.
pub const PUBLISHED: &[u8] = include_bytes!("../weights/weights.rnn");

/// The maximum length of a file: three dense layers and three GRUs, all sizes 127.
pub const LONGEST: usize = 3 * (3 + 127 * 128) + 3 * (3 + 3 * 127 * 255);

/// An error in a weights file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs)] // The messages describe the variants.
pub enum WeightsError {
    #[error("{layer}: expected {expected} more bytes, got {found}")]
    Truncated {
        layer: &'static str,
        expected: usize,
        found: usize,
    },
    #[error("expected the end of the file after six layers, got at least {0} more bytes")]
    Trailing(usize),
    #[error("{layer}: expected a number of {what} from 1 to 127, got {found}")]
    Size {
        layer: &'static str,
        what: &'static str,
        found: i8,
    },
    #[error("{layer}: expected {expected} {what}, got {found}")]
    Width {
        layer: &'static str,
        what: &'static str,
        expected: usize,
        found: usize,
    },
    #[error("{layer}: expected the activation 0 (tanh), 1 (sigmoid) or 2 (ReLU), got {found}")]
    Activation { layer: &'static str, found: i8 },
}

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
    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// If the bytes are not exactly six matching layers.
    pub fn parse(bytes: &[u8]) -> Result<Self, WeightsError> {
        let mut bytes = Bytes(bytes);
        let input = bytes.dense("the input layer", Some(FEATURES), None)?;
        let dense = input.bias.len();
        let voice_gru = bytes.gru("the voice GRU", dense)?;
        let noise_inputs = dense + voice_gru.units + FEATURES;
        let noise_gru = bytes.gru("the noise GRU", noise_inputs)?;
        let gain_inputs = voice_gru.units + noise_gru.units + FEATURES;
        let gain_gru = bytes.gru("the gain GRU", gain_inputs)?;
        let gains = bytes.dense("the gain layer", Some(gain_gru.units), Some(BANDS))?;
        let voice = bytes.dense("the voice layer", Some(voice_gru.units), Some(1))?;
        match bytes.0.len() {
            0 => Ok(Self {
                input,
                voice_gru,
                noise_gru,
                gain_gru,
                gains,
                voice,
            }),
            more => Err(WeightsError::Trailing(more)),
        }
    }
}

/// The remaining bytes of a file.
struct Bytes<'a>(&'a [u8]);

struct Header {
    layer: &'static str,
    inputs: usize,
    outputs: usize,
    activation: Activation,
}

impl Bytes<'_> {
    /// The next `count` bytes as signed numbers.
    fn take(&mut self, layer: &'static str, count: usize) -> Result<Vec<i8>, WeightsError> {
        let Some((taken, left)) = self.0.split_at_checked(count) else {
            return Err(WeightsError::Truncated {
                layer,
                expected: count,
                found: self.0.len(),
            });
        };
        self.0 = left;
        Ok(taken.iter().map(|b| b.cast_signed()).collect())
    }

    fn header(
        &mut self,
        layer: &'static str,
        inputs: Option<usize>,
        outputs: Option<usize>,
    ) -> Result<Header, WeightsError> {
        let header = self.take(layer, 3)?;
        let size = |what, found: i8, expected: Option<usize>| {
            let size = usize::try_from(found).ok().filter(|&size| size > 0);
            let size = size.ok_or(WeightsError::Size { layer, what, found })?;
            match expected {
                Some(expected) if expected != size => Err(WeightsError::Width {
                    layer,
                    what,
                    expected,
                    found: size,
                }),
                _ => Ok(size),
            }
        };
        Ok(Header {
            layer,
            inputs: size("inputs", header[0], inputs)?,
            outputs: size("units", header[1], outputs)?,
            activation: match header[2] {
                0 => Activation::Tanh,
                1 => Activation::Sigmoid,
                2 => Activation::Relu,
                found => return Err(WeightsError::Activation { layer, found }),
            },
        })
    }

    fn dense(
        &mut self,
        layer: &'static str,
        inputs: Option<usize>,
        outputs: Option<usize>,
    ) -> Result<Dense, WeightsError> {
        let header = self.header(layer, inputs, outputs)?;
        Ok(Dense {
            weight: numbers(&self.take(layer, header.inputs * header.outputs)?),
            bias: numbers(&self.take(layer, header.outputs)?),
            activation: header.activation,
        })
    }

    fn gru(&mut self, layer: &'static str, inputs: usize) -> Result<Gru, WeightsError> {
        let header = self.header(layer, Some(inputs), None)?;
        let (i, h) = (header.inputs, header.outputs);
        let mut rows = |rows: usize| -> Result<Vec<f32>, WeightsError> {
            let bytes = self.take(header.layer, rows * 3 * h)?;
            let mut numbers = numbers(&bytes);
            // Reorders z | r | n to r | z | n.
            numbers
                .chunks_exact_mut(3 * h)
                .for_each(|row| row[..2 * h].rotate_left(h));
            Ok(numbers)
        };
        Ok(Gru {
            inputs: i,
            units: h,
            w_ih: rows(i)?,
            w_hh: rows(h)?,
            bias: rows(1)?,
            activation: header.activation,
        })
    }
}

/// Converts units of 1/256. The factor is exact in float32, so scaling a weight scales its product.
fn numbers(bytes: &[i8]) -> Vec<f32> {
    bytes.iter().map(|&b| f32::from(b) / 256.0).collect()
}
