//! The precision of weights that are prepared for inference.

/// The precision of weights that are prepared for inference. States, biases and gates stay float32.
///
/// | | bits per weight | size of the weights, compared with their rounding errors |
/// |---|---|---|
/// | `Full` | 32 | none |
/// | `Bf16` | 16 | 56 dB |
/// | `Int8` | 8.5 | 39 to 43 dB |
///
/// The errors were measured for the GRUs of NSNet2 and DeepFilterNet 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Precision {
    /// float32.
    #[default]
    Full,
    /// bfloat16 weights. Products and sums are float32.
    Bf16,
    /// Integers from −127 to 127 with a float32 scale for each output and each 64 inputs. The input and the
    /// previous state are rounded to such integers too, with one scale for each row and step. Sums of 64
    /// products are exact.
    Int8,
}
