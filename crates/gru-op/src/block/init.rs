//! Initial weights. The three gates stand in one matrix, but each is drawn as a matrix of its
//! own: fused storage must not change anybody's fan-out.

use burn::{
    module::{Initializer, Param},
    tensor::{Device, Tensor},
};

/// How the parameters of a [`GruBlock`](crate::GruBlock) are drawn.
///
/// A Burn initializer is one for each gate: `config.with_initializer(Initializer::Zeros.into())`.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum GruInitializer {
    /// PyTorch's: every weight and bias uniform in `[−1/√H, 1/√H]`.
    PyTorch,
    /// A Burn initializer for each gate on its own: fan-in I or H, fan-out H.
    PerGate(Initializer),
}

impl From<Initializer> for GruInitializer {
    fn from(initializer: Initializer) -> Self {
        Self::PerGate(initializer)
    }
}

impl GruInitializer {
    /// Input or recurrent weight, `[rows,3H]`.
    pub(super) fn weight(&self, rows: usize, h: usize, device: &Device) -> Param<Tensor<2>> {
        let gate = || {
            let gate = self
                .gate(h)
                .init_with([rows, h], Some(rows), Some(h), device);
            gate.into_value()
        };
        Param::from_tensor(Tensor::cat(vec![gate(), gate(), gate()], 1).detach())
    }

    /// Bias of a product with `rows` inputs, `[3H]`.
    pub(super) fn bias(&self, rows: usize, h: usize, device: &Device) -> Param<Tensor<1>> {
        let gate = || {
            let gate = self.gate(h).init_with([h], Some(rows), Some(h), device);
            gate.into_value()
        };
        Param::from_tensor(Tensor::cat(vec![gate(), gate(), gate()], 0).detach())
    }

    fn gate(&self, h: usize) -> Initializer {
        match self {
            Self::PyTorch => {
                let bound = 1.0 / (h as f64).sqrt();
                Initializer::Uniform {
                    min: -bound,
                    max: bound,
                }
            }
            Self::PerGate(initializer) => initializer.clone(),
        }
    }
}
