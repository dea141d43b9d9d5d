//! Initial weights. The gates share one matrix, but each gate is drawn as its own matrix, so that fan-out is H
//! and not 3H.

use burn::{
    module::{Initializer, Param, ParamId},
    tensor::{Device, Tensor},
};

/// How the parameters of a [`GruBlock`](crate::GruBlock) are drawn.
///
/// A Burn initializer converts: `config.with_initializer(Initializer::Zeros.into())`.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum GruInitializer {
    /// PyTorch's: every weight and bias uniform in `[−1/√H, 1/√H]`.
    PyTorch,
    /// A Burn initializer for each gate, with fan-in I or H and fan-out H.
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
        self.gates([rows, h], 1, rows, h, device)
    }

    /// Bias of a product with `rows` inputs, `[3H]`.
    pub(super) fn bias(&self, rows: usize, h: usize, device: &Device) -> Param<Tensor<1>> {
        self.gates([h], 0, rows, h, device)
    }

    fn gates<const D: usize>(
        &self,
        shape: [usize; D],
        dim: usize,
        rows: usize,
        h: usize,
        device: &Device,
    ) -> Param<Tensor<D>> {
        let bound = 1.0 / (h as f64).sqrt();
        let (min, max) = (-bound, bound);
        let initializer = match self {
            Self::PyTorch => Initializer::Uniform { min, max },
            Self::PerGate(initializer) => initializer.clone(),
        };
        let mut gates = shape;
        gates[dim] *= 3;
        let draw = move |device: &Device, require_grad| {
            let gate = |_| {
                let gate = initializer.init_with(shape, Some(rows), Some(h), device);
                gate.into_value()
            };
            let gates = Tensor::cat((0..3).map(gate).collect(), dim).detach();
            gates.set_require_grad(require_grad)
        };
        // Drawn at the first use, as in Burn's modules. So a new module may move to another device before training.
        Param::uninitialized(ParamId::new(), draw, device.clone(), true, gates.into())
    }
}
