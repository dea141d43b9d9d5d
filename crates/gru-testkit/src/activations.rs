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

    /// Every number is one activation of the list, in order.
    #[test]
    fn all_activations_are_in_the_list() {
        for (number, activation) in (0..).zip(ACTIVATIONS) {
            let (found, parameters) = activation.numbered();
            assert_eq!(found, number, "{activation:?}");
            assert_eq!(
                Activation::from_number(number, parameters),
                Some(activation)
            );
        }
        let next = ACTIVATIONS.len() as u64;
        assert_eq!(
            Activation::from_number(next, [0.5; 2]),
            None,
            "add it to ACTIVATIONS"
        );
    }
}
