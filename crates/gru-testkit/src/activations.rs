//! One of each activation.

use gru_spec::Activation;

/// One of each, with unusual parameters.
pub const ACTIVATIONS: [Activation; 12] = [
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::Relu,
    Activation::HardSigmoid {
        alpha: 0.3,
        beta: 0.45,
    },
    Activation::Identity,
    Activation::Affine {
        alpha: -0.8,
        beta: 0.1,
    },
    Activation::LeakyRelu { alpha: 0.2 },
    Activation::ThresholdedRelu { alpha: 0.3 },
    Activation::ScaledTanh {
        alpha: -0.9,
        beta: 1.1,
    },
    Activation::Elu { alpha: 0.7 },
    Activation::Softsign,
    Activation::Softplus,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Does not compile if a variant is missing here, and fails if it is missing in `ACTIVATIONS`.
    #[test]
    fn all_activations_are_among_all() {
        use Activation::*;
        let place = |activation: Activation| match activation {
            Sigmoid => 0,
            Tanh => 1,
            Relu => 2,
            HardSigmoid { .. } => 3,
            Identity => 4,
            Affine { .. } => 5,
            LeakyRelu { .. } => 6,
            ThresholdedRelu { .. } => 7,
            ScaledTanh { .. } => 8,
            Elu { .. } => 9,
            Softsign => 10,
            Softplus => 11,
        };
        assert!(ACTIVATIONS.into_iter().map(place).eq(0..12));
    }
}
