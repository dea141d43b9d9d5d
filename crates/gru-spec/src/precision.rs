//! The precision of weights that are prepared for inference.

/// The precision of weights that are prepared for inference. States, biases and gates stay float32.
///
/// | | bits per weight | error of a product, compared with its size |
/// |---|---|---|
/// | `Full` | 32 | the rounding of float32 |
/// | `Bf16` | 16 | about −59 dB |
/// | `Int8` | 8.5 | about −39 dB |
///
/// The last column is for weights and inputs with a normal distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
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
