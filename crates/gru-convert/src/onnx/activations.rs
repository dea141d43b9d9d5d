//! Activations with ONNX' names and parameters.

use super::Attributes;
use crate::error::ConvertError;
use gru_op::{Activation, Activations, GruError};

/// The activations of each direction.
pub(super) fn activations(
    attributes: &Attributes,
    directions: usize,
) -> Result<Vec<Activations>, ConvertError> {
    let default: Vec<String> = ["Sigmoid", "Tanh"]
        .repeat(directions)
        .into_iter()
        .map(String::from)
        .collect();
    let named = if attributes.activations.is_empty() {
        &default
    } else {
        &attributes.activations
    };
    let count = |what, expected, actual| {
        ConvertError::from(GruError::Count {
            what,
            expected,
            actual,
        })
    };
    if named.len() != 2 * directions {
        return Err(count("activations", 2 * directions, named.len()));
    }
    let mut parameters = Parameters {
        alpha: &attributes.activation_alpha,
        beta: &attributes.activation_beta,
    };
    let mut all = Vec::with_capacity(directions);
    for pair in named.chunks_exact(2) {
        let gates = parameters.activation("reset and update", &pair[0])?;
        all.push(Activations {
            reset: gates,
            update: gates,
            candidate: parameters.activation("candidate", &pair[1])?,
        });
    }
    let unused = |what, given: &[f32], left: &[f32]| match left {
        [] => Ok(()),
        _ => Err(count(what, given.len() - left.len(), given.len())),
    };
    let Parameters { alpha, beta } = parameters;
    unused("activation_alpha", &attributes.activation_alpha, alpha)?;
    unused("activation_beta", &attributes.activation_beta, beta)?;
    Ok(all)
}

/// The parameters that are not yet assigned to an activation.
struct Parameters<'a> {
    alpha: &'a [f32],
    beta: &'a [f32],
}

impl Parameters<'_> {
    fn activation(&mut self, gate: &'static str, name: &str) -> Result<Activation, ConvertError> {
        // None: the ONNX operator of the same name has no default either.
        let next = |left: &mut &[f32], option, default: Option<f32>| match left.split_first() {
            Some((&value, rest)) => {
                *left = rest;
                Ok(f64::from(value))
            }
            None => default.map(f64::from).ok_or_else(|| ConvertError::Option {
                option,
                expected: format!("a value for {name}"),
                actual: "none".into(),
            }),
        };
        let mut alpha = |default| next(&mut self.alpha, "activation_alpha", default);
        let mut beta = |default| next(&mut self.beta, "activation_beta", default);
        Ok(match name.to_ascii_lowercase().as_str() {
            "sigmoid" => Activation::Sigmoid,
            "tanh" => Activation::Tanh,
            "relu" => Activation::Relu,
            "softsign" => Activation::Softsign,
            "softplus" => Activation::Softplus,
            "leakyrelu" => Activation::LeakyRelu {
                alpha: alpha(Some(0.01))?,
            },
            "thresholdedrelu" => Activation::ThresholdedRelu {
                alpha: alpha(Some(1.0))?,
            },
            "elu" => Activation::Elu {
                alpha: alpha(Some(1.0))?,
            },
            "hardsigmoid" => Activation::HardSigmoid {
                alpha: alpha(Some(0.2))?,
                beta: beta(Some(0.5))?,
            },
            "affine" => Activation::Affine {
                alpha: alpha(None)?,
                beta: beta(None)?,
            },
            "scaledtanh" => Activation::ScaledTanh {
                alpha: alpha(None)?,
                beta: beta(None)?,
            },
            _ => {
                let activation = name.into();
                return Err(GruError::Activation { gate, activation }.into());
            }
        })
    }
}

/// Adds an activation's name and parameters.
pub(super) fn name(attributes: &mut Attributes, activation: Activation) {
    let (name, alpha, beta) = match activation {
        Activation::Sigmoid => ("Sigmoid", None, None),
        Activation::Tanh => ("Tanh", None, None),
        Activation::Relu => ("Relu", None, None),
        Activation::Softsign => ("Softsign", None, None),
        Activation::Softplus => ("Softplus", None, None),
        Activation::LeakyRelu { alpha } => ("LeakyRelu", Some(alpha), None),
        Activation::ThresholdedRelu { alpha } => ("ThresholdedRelu", Some(alpha), None),
        Activation::Elu { alpha } => ("Elu", Some(alpha), None),
        Activation::HardSigmoid { alpha, beta } => ("HardSigmoid", Some(alpha), Some(beta)),
        Activation::Affine { alpha, beta } => ("Affine", Some(alpha), Some(beta)),
        Activation::ScaledTanh { alpha, beta } => ("ScaledTanh", Some(alpha), Some(beta)),
        // ONNX has no identity, but this activation is one.
        Activation::Identity => ("Affine", Some(1.0), Some(0.0)),
    };
    attributes.activations.push(name.into());
    attributes.activation_alpha.extend(alpha.map(|a| a as f32));
    attributes.activation_beta.extend(beta.map(|b| b as f32));
}
