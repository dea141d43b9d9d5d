//! Initial weights. The gates share one matrix, but fan-out is H and not 3H.

use burn::{
    module::{Initializer, Param, ParamId},
    tensor::{Device, Tensor},
};

/// How the parameters of a [`GruBlock`](crate::GruBlock) are drawn.
///
/// A Burn initializer converts to [`PerGate`](Self::PerGate). The defaults of Keras are:
///
/// ```
/// use burn::module::Initializer;
/// use gru_op::{GruBlockConfig, GruInitializer::AllGates};
///
/// let config = GruBlockConfig::new(3, 4)
///     .with_initializer(AllGates(Initializer::XavierUniform { gain: 1.0 }))
///     .with_recurrent_initializer(Some(AllGates(Initializer::Orthogonal { gain: 1.0 })));
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum GruInitializer {
    /// PyTorch's: every weight and bias uniform in `[−1/√H, 1/√H]`.
    PyTorch,
    /// A Burn initializer for each gate, with fan-in I or H and fan-out H. [`Orthogonal`](Initializer::Orthogonal) makes
    /// the weight of each gate orthogonal, and biases zero.
    PerGate(Initializer),
    /// A Burn initializer for the matrix of all gates, with fan-in I or H and fan-out 3H, as in Keras and TensorFlow.
    /// Biases are zero.
    AllGates(Initializer),
}

impl From<Initializer> for GruInitializer {
    fn from(initializer: Initializer) -> Self {
        Self::PerGate(initializer)
    }
}

impl GruInitializer {
    /// Input or recurrent weight, `[rows,3H]`.
    pub(super) fn weight(&self, rows: usize, h: usize, device: &Device) -> Param<Tensor<2>> {
        if let Self::AllGates(initializer) = self {
            return initializer.init_with([rows, 3 * h], Some(rows), Some(3 * h), device);
        }
        let initializer = self.of_gate(h);
        if !matches!(initializer, Initializer::Orthogonal { .. }) {
            return initializer.init_with([rows, 3 * h], Some(rows), Some(h), device);
        }
        // The matrix of each gate is orthogonal, and not the matrix of all gates.
        let draw = move |device: &Device, require_grad| {
            let gate = |_| {
                let gate = initializer.init_with([rows, h], Some(rows), Some(h), device);
                gate.into_value()
            };
            let gates = Tensor::cat((0..3).map(gate).collect(), 1).detach();
            gates.set_require_grad(require_grad)
        };
        // Drawn at the first use, as in Burn's modules. So a new module may move to another device before training.
        Param::uninitialized(
            ParamId::new(),
            draw,
            device.clone(),
            true,
            [rows, 3 * h].into(),
        )
    }

    /// Bias of a product with `rows` inputs, `[3H]`.
    pub(super) fn bias(&self, rows: usize, h: usize, device: &Device) -> Param<Tensor<1>> {
        let initializer = match self.of_gate(h) {
            Initializer::Orthogonal { .. } => Initializer::Zeros,
            initializer => initializer,
        };
        initializer.init_with([3 * h], Some(rows), Some(h), device)
    }

    fn of_gate(&self, h: usize) -> Initializer {
        let bound = 1.0 / (h as f64).sqrt();
        let (min, max) = (-bound, bound);
        match self {
            Self::PyTorch => Initializer::Uniform { min, max },
            Self::PerGate(initializer) => initializer.clone(),
            // Of the biases.
            Self::AllGates(_) => Initializer::Zeros,
        }
    }
}
