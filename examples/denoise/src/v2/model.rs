//! The layers of RNNoise 0.2, from named arrays.
//!
//! Weights are `[I,O]`: `y = x·w + b`. The weights of the GRUs are stored as blocks of eight outputs and four
//! inputs, and `_weights_idx` lists the blocks of every eight outputs: their number, then the first input of
//! each. In float32 the outputs of a block are adjacent, in 8 bits the inputs.

use std::sync::Arc;

use gru_cpu::spec::{Activation, Precision};
use gru_cpu::{Stack, StackLayer};

use super::arrays::{Arrays, ArraysError};
use super::bands::BANDS;
use super::{FEATURES, UNITS};
use crate::weights::Dense;

/// Outputs of the first convolution.
pub const FIRST: usize = 128;
/// Frames that a convolution reads.
pub const FRAMES: usize = 3;

/// The layers of the network.
pub struct Model {
    pub(crate) conv1: Dense,
    pub(crate) conv2: Dense,
    pub(crate) grus: Arc<Stack>,
    pub(crate) gains: Dense,
    pub(crate) voice: Dense,
}

/// Which of the two weights of the GRUs and the second convolution to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// In float32.
    Floats,
    /// In 8 bits, with a scale for each output.
    Bytes,
}

impl Model {
    /// Reads the float32 weights of a network, or the 8-bit weights if there are no others, and prepares the GRUs
    /// in `precision`.
    ///
    /// # Errors
    /// If an array is missing, has another size, or is malformed.
    pub fn new(arrays: &Arrays<'_>, precision: Precision) -> Result<Self, ArraysError> {
        let stored = if arrays.has("gru1_input_weights_float") {
            Stored::Floats
        } else {
            Stored::Bytes
        };
        Self::stored(arrays, precision, stored)
    }

    /// Reads one of the two weights of the GRUs and the second convolution.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn stored(
        arrays: &Arrays<'_>,
        precision: Precision,
        stored: Stored,
    ) -> Result<Self, ArraysError> {
        let mut grus = Vec::with_capacity(3);
        for k in 1..=3 {
            let side = |side: &str| side_of(arrays, &format!("gru{k}_{side}"), stored);
            grus.push((side("input")?, side("recurrent")?));
        }
        let layers: Vec<_> = grus
            .iter()
            .map(|((w_ih, b_ih), (w_hh, b_hh))| {
                StackLayer::new(gru_cpu::Weights {
                    b_ih: Some(b_ih),
                    b_hh: Some(b_hh),
                    ..gru_cpu::Weights::new(Some(w_ih), w_hh)
                })
            })
            .collect();
        let dense = |name: &str, inputs: usize, outputs: usize, activation| {
            let weight = format!("{name}_weights_float");
            Ok(Dense {
                weight: match stored {
                    Stored::Bytes if name == "conv2" => from_bytes(arrays, name, outputs)?,
                    _ => arrays.floats(&weight, inputs * outputs)?,
                },
                bias: arrays.floats(&format!("{name}_bias"), outputs)?,
                activation,
            })
        };
        let states = 4 * UNITS;
        Ok(Self {
            conv1: dense("conv1", FRAMES * FEATURES, FIRST, Activation::Tanh)?,
            conv2: dense("conv2", FRAMES * FIRST, UNITS, Activation::Tanh)?,
            grus: Arc::new(Stack::new(precision, [UNITS; 2], 1, &layers)),
            gains: dense("dense_out", states, BANDS, Activation::Sigmoid)?,
            voice: dense("vad_dense", states, 1, Activation::Sigmoid)?,
        })
    }

    /// The GRUs.
    pub fn grus(&self) -> &Arc<Stack> {
        &self.grus
    }
}

/// The weight `[H,3H]` and the bias `[3H]` of one side of a GRU, with the gates r, z, n.
fn side_of(
    arrays: &Arrays<'_>,
    name: &str,
    stored: Stored,
) -> Result<(Vec<f32>, Vec<f32>), ArraysError> {
    let width = 3 * UNITS;
    let mut weight = if stored == Stored::Floats {
        let indices = format!("{name}_weights_idx");
        let places = places(&indices, arrays.get(&indices)?, width)?;
        let blocks = arrays.floats(&format!("{name}_weights_float"), 32 * places.len())?;
        place(&places, &blocks, width, |input, output| 8 * input + output)
    } else {
        from_bytes(arrays, name, width)?
    };
    let diagonal = format!("{name}_weights_diag");
    if arrays.has(&diagonal) {
        for (column, w) in arrays.floats(&diagonal, width)?.into_iter().enumerate() {
            weight[column % UNITS * width + column] += w;
        }
    }
    let mut bias = arrays.floats(&format!("{name}_bias"), width)?;
    // Reorders z | r | n to r | z | n.
    for row in weight.chunks_exact_mut(width).chain([&mut bias[..]]) {
        row[..2 * UNITS].rotate_left(UNITS);
    }
    Ok((weight, bias))
}

/// A weight `[UNITS,O]` of 8-bit integers. The scale of an output is for inputs in units of 1/127.
fn from_bytes(arrays: &Arrays<'_>, name: &str, outputs: usize) -> Result<Vec<f32>, ArraysError> {
    let indices = format!("{name}_weights_idx");
    let places = if arrays.has(&indices) {
        places(&indices, arrays.get(&indices)?, outputs)?
    } else {
        let rows = (0..outputs).step_by(8);
        rows.flat_map(|row| (0..UNITS).step_by(4).map(move |first| (first, row)))
            .collect()
    };
    let bytes = arrays.sized(&format!("{name}_weights_int8"), 32 * places.len())?;
    let blocks: Vec<f32> = bytes.iter().map(|b| f32::from(b.cast_signed())).collect();
    let mut weight = place(&places, &blocks, outputs, |input, output| {
        4 * output + input
    });
    let scale = arrays.floats(&format!("{name}_scale"), outputs)?;
    for row in weight.chunks_exact_mut(outputs) {
        row.iter_mut()
            .zip(&scale)
            .for_each(|(w, scale)| *w *= 127.0 * scale);
    }
    Ok(weight)
}

/// The first input and the first output of each block of a weight `[UNITS,O]`.
fn places(name: &str, indices: &[u8], outputs: usize) -> Result<Vec<(usize, usize)>, ArraysError> {
    let wrong = || ArraysError::Index(name.to_owned());
    let (words, rest) = indices.as_chunks();
    let mut words = words.iter().map(|&word| u32::from_le_bytes(word) as usize);
    let mut next = || words.next().ok_or_else(wrong);
    let mut places = Vec::new();
    for row in (0..outputs).step_by(8) {
        for _ in 0..next()? {
            let first = next()?;
            if first >= UNITS || !first.is_multiple_of(4) {
                return Err(wrong());
            }
            places.push((first, row));
        }
    }
    if words.next().is_some() || !rest.is_empty() {
        return Err(wrong());
    }
    Ok(places)
}

/// Writes blocks to a weight `[UNITS,O]`. `at` is the place of an input and an output in a block.
fn place(
    places: &[(usize, usize)],
    blocks: &[f32],
    outputs: usize,
    at: impl Fn(usize, usize) -> usize,
) -> Vec<f32> {
    let mut weight = vec![0.0; UNITS * outputs];
    for (&(first, row), block) in places.iter().zip(blocks.chunks_exact(32)) {
        for input in 0..4 {
            for output in 0..8 {
                weight[(first + input) * outputs + row + output] += block[at(input, output)];
            }
        }
    }
    weight
}
