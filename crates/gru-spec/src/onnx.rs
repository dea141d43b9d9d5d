//! ONNX' description of a GRU: the attributes of a `GRU` node.
//!
//! Source: <https://onnx.ai/onnx/operators/onnx__GRU.html>.

use crate::{Activation, Activations, Direction, GruSpec, Layout, Reset};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

/// The attributes of a `GRU` node. The default values are the operator's.
#[derive(Debug, Clone, PartialEq)]
pub struct Attributes {
    /// Names of f (gates) and g (candidate) for one or both directions. If empty, sigmoid and tanh.
    pub activations: Vec<String>,
    /// Parameters of the activations with an alpha, in order.
    pub activation_alpha: Vec<f32>,
    /// Parameters of the activations with a beta, in order.
    pub activation_beta: Vec<f32>,
    /// Bound of the pre-activations.
    pub clip: Option<f32>,
    /// `forward`, `reverse` or `bidirectional`.
    pub direction: String,
    /// H, if the node specifies it.
    pub hidden_size: Option<usize>,
    /// 0: time-major. 1: batch-major.
    pub layout: i64,
    /// If not 0, the reset gate acts after the product.
    pub linear_before_reset: i64,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            activations: Vec::new(),
            activation_alpha: Vec::new(),
            activation_beta: Vec::new(),
            clip: None,
            direction: "forward".into(),
            hidden_size: None,
            layout: 0,
            linear_before_reset: 0,
        }
    }
}

/// An attribute that the operator does not define, or that gru-op has no kernel for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttributeError {
    /// The name of the attribute.
    pub attribute: &'static str,
    /// The supported values.
    pub expected: String,
    /// The actual value.
    pub actual: String,
}

impl fmt::Display for AttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            attribute,
            expected,
            actual,
        } = self;
        write!(f, "{attribute}: expected {expected}, got {actual}")
    }
}

impl core::error::Error for AttributeError {}

fn error(
    attribute: &'static str,
    expected: impl ToString,
    actual: impl ToString,
) -> AttributeError {
    AttributeError {
        attribute,
        expected: expected.to_string(),
        actual: actual.to_string(),
    }
}

impl Attributes {
    /// The directions of `W`, `R` and `B`, in order.
    ///
    /// # Errors
    /// If `direction` is not one of the three values of the operator.
    pub fn directions(&self) -> Result<&'static [Direction], AttributeError> {
        match self.direction.as_str() {
            "forward" => Ok(&[Direction::Forward]),
            "reverse" => Ok(&[Direction::Reverse]),
            "bidirectional" => Ok(&[Direction::Forward, Direction::Reverse]),
            other => Err(error(
                "direction",
                "forward, reverse or bidirectional",
                other,
            )),
        }
    }

    /// How `X`, `Y` and the states are stored.
    ///
    /// # Errors
    /// If `layout` is not 0 or 1.
    pub fn layout(&self) -> Result<Layout, AttributeError> {
        match self.layout {
            0 => Ok(Layout::TimeMajor),
            1 => Ok(Layout::BatchMajor),
            other => Err(error("layout", "0 or 1", other)),
        }
    }

    /// What a step computes, for each direction.
    ///
    /// # Errors
    /// If the direction, an activation, a parameter or the clip is not valid, or if there are too few of them. As in ONNX
    /// Runtime, parameters that no activation has are ignored, and a clip of zero is an error.
    pub fn specs(&self) -> Result<Vec<GruSpec>, AttributeError> {
        let clip = self.clip.map(f64::from);
        if let Some(c) = clip
            && (c.is_nan() || c <= 0.0)
        {
            return Err(error("clip", "a positive number", c));
        }
        let spec =
            GruSpec::default()
                .with_clip_gates(clip)
                .with_reset(if self.linear_before_reset == 0 {
                    Reset::BeforeMatmul
                } else {
                    Reset::AfterMatmul
                });
        let of_direction = |activations| {
            let spec = spec.with_activations(activations);
            let supported = "parameters that gru-op has kernels for";
            spec.try_check()
                .map_err(|reason| error("activations", supported, reason))?;
            Ok(spec)
        };
        self.gates()?.into_iter().map(of_direction).collect()
    }

    /// The activations of each direction.
    fn gates(&self) -> Result<Vec<Activations>, AttributeError> {
        let directions = self.directions()?.len();
        let default = ["Sigmoid", "Tanh"].repeat(directions);
        let named: Vec<&str> = if self.activations.is_empty() {
            default
        } else {
            self.activations.iter().map(String::as_str).collect()
        };
        if named.len() != 2 * directions {
            return Err(error("activations", 2 * directions, named.len()));
        }
        let mut parameters = Parameters {
            alpha: &self.activation_alpha,
            beta: &self.activation_beta,
        };
        let mut all = Vec::with_capacity(directions);
        for pair in named.chunks_exact(2) {
            let gates = parameters.activation(pair[0])?;
            all.push([gates, gates, parameters.activation(pair[1])?].into());
        }
        Ok(all)
    }

    /// Appends an activation: its name and its parameters.
    pub fn push_activation(&mut self, activation: Activation) {
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
        self.activations.push(name.into());
        self.activation_alpha.extend(alpha.map(|a| a as f32));
        self.activation_beta.extend(beta.map(|b| b as f32));
    }
}

/// The parameters that are not yet assigned to an activation.
struct Parameters<'a> {
    alpha: &'a [f32],
    beta: &'a [f32],
}

impl Parameters<'_> {
    fn activation(&mut self, name: &str) -> Result<Activation, AttributeError> {
        // None: the ONNX operator of the same name has no default either.
        let next = |left: &mut &[f32], attribute, default: Option<f32>| match left.split_first() {
            Some((&value, rest)) => {
                *left = rest;
                Ok(f64::from(value))
            }
            None => default
                .map(f64::from)
                .ok_or_else(|| error(attribute, format!("a value for {name}"), "none")),
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
            _ => return Err(error("activations", "an activation of the operator", name)),
        })
    }
}
