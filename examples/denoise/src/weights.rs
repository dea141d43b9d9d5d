//! The format of nnnoiseless' weights: six layers, one after the other, in bytes.
//!
//! ```text
//! dense: I, O, activation; weight [I,O]; bias [O]
//! GRU:   I, H, activation; input weight [I,3H]; recurrent weight [H,3H]; bias [3H]
//! ```
//!
//! Sizes are bytes from 1 to 127, activations 0 tanh, 1 σ, 2 ReLU; the rest are signed bytes that
//! stand for 256ths. The gates of a GRU are z, r and the candidate; its reset gate acts before the
//! product, its update gate keeps, and the activation is the candidate's.

use gru_cpu::spec::Activation;

use crate::bands::BANDS;
use crate::denoiser::FEATURES;

/// RNNoise's weights, by Jean-Marc Valin and others: `weights/COPYING`.
pub const PUBLISHED: &[u8] = include_bytes!("../weights/weights.rnn");

/// No file of this format is longer: three dense layers and three GRUs, all sizes 127.
pub const LONGEST: usize = 3 * (3 + 127 * 128) + 3 * (3 + 3 * 127 * 255);

/// What is wrong with a file of weights.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WeightsError {
    /// The file ends within a layer.
    #[error("{layer} needs {expected} bytes more, the file has {found}")]
    Truncated {
        /// Which layer.
        layer: &'static str,
        /// Bytes that the layer's header, or the sizes in it, ask for.
        expected: usize,
        /// Bytes that are left.
        found: usize,
    },
    /// The file does not end with the last layer.
    #[error("the file should end after its six layers, {0} bytes follow or more")]
    Trailing(usize),
    /// A size that is zero or negative.
    #[error("{layer} should have a number of {what} from 1 to 127, got {found}")]
    Size {
        /// Which layer.
        layer: &'static str,
        /// Which size of it.
        what: &'static str,
        /// The byte.
        found: i8,
    },
    /// A size that does not fit the layers around.
    #[error("{layer} should have {expected} {what}, got {found}")]
    Width {
        /// Which layer.
        layer: &'static str,
        /// Which size of it.
        what: &'static str,
        /// What the layers around it ask for.
        expected: usize,
        /// What the file says.
        found: usize,
    },
    /// A byte that names no activation.
    #[error("{layer} should have the activation 0 (tanh), 1 (sigmoid) or 2 (ReLU), got {found}")]
    Activation {
        /// Which layer.
        layer: &'static str,
        /// The byte.
        found: i8,
    },
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
    /// I, the layer's inputs.
    pub inputs: usize,
    /// H, its units.
    pub units: usize,
    /// `[I,3H]`.
    pub w_ih: Vec<f32>,
    /// `[H,3H]`.
    pub w_hh: Vec<f32>,
    /// `[3H]`: there is one, for the input and the recurrent product together.
    pub bias: Vec<f32>,
    /// Of the candidate.
    pub activation: Activation,
}

/// The layers, in the order of the file.
#[derive(Debug)]
pub struct Weights {
    /// From the features.
    pub input: Dense,
    /// Hears voices: from the first layer.
    pub voice_gru: Gru,
    /// Knows the noise: from the first layer, the voice and the features.
    pub noise_gru: Gru,
    /// Tells speech from noise: from the voice, the noise and the features.
    pub gain_gru: Gru,
    /// From there, the gains of the bands.
    pub gains: Dense,
    /// From the voice, its probability.
    pub voice: Dense,
}

impl Weights {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// If they are not six layers that fit one another, or more than that.
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

/// What is left of a file.
struct Bytes<'a>(&'a [u8]);

struct Header {
    layer: &'static str,
    inputs: usize,
    outputs: usize,
    activation: Activation,
}

impl Bytes<'_> {
    /// The next `count` bytes as what they stand for.
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
            // z | r | n becomes r | z | n.
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

/// 256ths: exact in float32, so that scaling a weight is scaling its product.
fn numbers(bytes: &[i8]) -> Vec<f32> {
    bytes.iter().map(|&b| f32::from(b) / 256.0).collect()
}
