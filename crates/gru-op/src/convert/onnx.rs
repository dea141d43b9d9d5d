//! ONNX' `GRU` operator: its initializers `W [D,3H,I]`, `R [D,3H,H]`, `B [D,6H]` (gates in rows z,
//! r, n; `B` = both biases side by side), its attributes, its layouts.
//!
//! The reset gate acts before the product by default; with `linear_before_reset = 1` after it.
//! Source: <https://onnx.ai/onnx/operators/onnx__GRU.html>.
//!
//! ONNX Runtime differs from this crate in two points: a row of length zero gets a final state of
//! zero there, the initial state here; and `Affine` and `ScaledTanh` without parameters are
//! constant zero there, an error here.

use super::{ConvertError, GateOrder, StateDict, both_biases, w_ih};
use crate::{
    GruBlock, GruBlockConfig, GruLayerOptions, GruWeights,
    spec::{Activation, Activations, Direction, GruSpec, Reset, Update},
};
use burn::tensor::{Device, Tensor};

const SYSTEM: &str = "ONNX";
const ORDER: GateOrder = GateOrder::UpdateFirst;

/// The attributes of a `GRU` node, by their names. The default is the operator's.
#[derive(Debug, Clone, PartialEq)]
pub struct Attributes {
    /// Names of f (gates) and g (candidate), for one direction or for both; sigmoid and tanh if
    /// empty.
    pub activations: Vec<String>,
    /// Parameters of those activations that have an alpha, in their order.
    pub activation_alpha: Vec<f32>,
    /// Parameters of those activations that have a beta, in their order.
    pub activation_beta: Vec<f32>,
    /// Bound of the pre-activations.
    pub clip: Option<f32>,
    /// `forward`, `reverse` or `bidirectional`.
    pub direction: String,
    /// H, if the node says it.
    pub hidden_size: Option<usize>,
    /// 0: time first; 1: batch first.
    pub layout: i64,
    /// Not 0: the reset gate acts after the product.
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

/// The configuration of the node with these attributes, and `W` and `R` under `prefix`.
///
/// # Errors
/// If an attribute is not one of ONNX', or contradicts a shape.
pub fn config(
    attributes: &Attributes,
    dict: &StateDict,
    prefix: &str,
) -> Result<GruBlockConfig, ConvertError> {
    let [_, _, i] = dict.shape(&format!("{prefix}W"))?;
    let [_, _, h] = dict.shape(&format!("{prefix}R"))?;
    if let Some(hidden_size) = attributes.hidden_size
        && hidden_size != h
    {
        return Err(ConvertError::Count {
            what: "hidden_size",
            expected: h,
            actual: hidden_size,
        });
    }
    let (reverse, bidirectional) = match attributes.direction.as_str() {
        "forward" => (false, false),
        "reverse" => (true, false),
        "bidirectional" => (false, true),
        other => {
            return Err(ConvertError::Option {
                option: "direction",
                expected: "forward, reverse or bidirectional".into(),
                actual: other.into(),
            });
        }
    };
    let batch_first = match attributes.layout {
        0 => false,
        1 => true,
        other => {
            return Err(ConvertError::Option {
                option: "layout",
                expected: "0 or 1".into(),
                actual: other.to_string(),
            });
        }
    };
    let clip = attributes.clip.filter(|&c| c != 0.0).map(f64::from);
    if clip.is_some_and(|c| c.is_nan() || c < 0.0) {
        return Err(ConvertError::Option {
            option: "clip",
            expected: "a positive number".into(),
            actual: format!("{clip:?}"),
        });
    }
    let config = GruBlockConfig::new(i, h)
        .with_reverse(reverse)
        .with_bidirectional(bidirectional)
        .with_batch_first(batch_first)
        .with_clip_gates(clip)
        .with_reset(match attributes.linear_before_reset {
            0 => Reset::BeforeMatmul,
            _ => Reset::AfterMatmul,
        });
    let activations = activations(attributes, 1 + usize::from(bidirectional))?;
    for &activations in &activations {
        let spec = GruSpec::default().with_activations(activations);
        spec.try_check().map_err(|reason| ConvertError::Option {
            option: "activations",
            expected: "parameters that this crate has kernels for".into(),
            actual: reason,
        })?;
    }
    let options = activations.iter().map(|&activations| GruLayerOptions {
        activations,
        ..config.layer_options()
    });
    let per_layer = options.collect();
    Ok(config
        .with_activations(activations[0])
        .with_per_layer(per_layer))
}

/// The node with these attributes, and its initializers `W`, `R` and, if it has one, `B` under
/// `prefix`, as a block of one layer.
///
/// # Errors
/// If an attribute is not one of ONNX', or an initializer is missing, unexpected, or has another
/// shape or dtype.
pub fn import(
    attributes: &Attributes,
    dict: &StateDict,
    prefix: &str,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    dict.expect_only(prefix, &["W", "R", "B"], "a GRU has W, R and B")?;
    let config = config(attributes, dict, prefix)?;
    let (i, h) = (config.d_input, config.d_hidden);
    let directions = 1 + usize::from(config.bidirectional);
    let key = |name: &str| format!("{prefix}{name}");
    let w = dict.tensor(&key("W"), [directions, 3 * h, i], device)?;
    let r = dict.tensor(&key("R"), [directions, 3 * h, h], device)?;
    let b = match dict.get(&key("B")) {
        Some(_) => Some(dict.tensor(&key("B"), [directions, 6 * h], device)?),
        None => None,
    };
    let weights = (0..directions).map(|d| {
        let matrix = |all: &Tensor<3>| {
            let rows: Tensor<2> = all.clone().narrow(0, d, 1).squeeze_dim(0);
            ORDER.reorder(rows, 0, 1).transpose()
        };
        let both: Option<Tensor<1>> = b
            .as_ref()
            .map(|b: &Tensor<2>| ORDER.reorder(b.clone().narrow(0, d, 1).squeeze_dim(0), 0, 2));
        let half = |k: usize| both.clone().map(|b| b.narrow(0, k * 3 * h, 3 * h));
        GruWeights {
            w_ih: Some(matrix(&w)),
            w_hh: matrix(&r),
            b_ih: half(0),
            b_hh: half(1),
        }
    });
    config.with_bias(b.is_some()).init_with(weights.collect())
}

/// The initializers and attributes of the node that computes what `block` does.
///
/// # Errors
/// If none does: several layers, another update rule, gates with different activations, a clip of
/// the state, zoneout; or if a tensor cannot be read back from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<(StateDict, Attributes), ConvertError> {
    let lacks = |what: &str| {
        Err(ConvertError::Inexpressible {
            system: SYSTEM,
            what: what.into(),
        })
    };
    let Some(first) = block.layers.first().filter(|_| block.num_layers == 1) else {
        return lacks("several layers in one node");
    };
    let mut attributes = Attributes {
        direction: match (block.bidirectional, first.spec.direction) {
            (true, _) => "bidirectional".into(),
            (false, Direction::Reverse) => "reverse".into(),
            (false, Direction::Forward) => "forward".into(),
        },
        clip: first.spec.clip_gates.map(|c| c as f32),
        hidden_size: Some(block.d_hidden),
        layout: i64::from(block.batch_first),
        linear_before_reset: i64::from(first.spec.reset == Reset::AfterMatmul),
        ..Default::default()
    };
    let (mut w, mut r, mut b) = (Vec::new(), Vec::new(), Vec::new());
    for layer in &block.layers {
        let (spec, weights) = (&layer.spec, layer.weights());
        let gates = spec.activations;
        if spec.update != Update::Keeps {
            return lacks("an update gate that takes");
        }
        if gates.reset != gates.update {
            return lacks("different activations of the reset and the update gate");
        }
        if spec.clip_state.is_some() {
            return lacks("a clip of the state");
        }
        if layer.zoneout != 0.0 {
            return lacks("zoneout");
        }
        if (spec.reset, spec.clip_gates) != (first.spec.reset, first.spec.clip_gates) {
            return lacks("directions that differ in reset or clip");
        }
        name(&mut attributes, gates.update);
        name(&mut attributes, gates.candidate);
        let rows = |columns: Tensor<2>| ORDER.reorder(columns.transpose(), 0, 1);
        w.push(rows(w_ih(SYSTEM, &weights)?));
        r.push(rows(weights.w_hh.clone()));
        let both = both_biases(&weights);
        b.extend(both.map(|(b_ih, b_hh)| ORDER.reorder(Tensor::cat(vec![b_ih, b_hh], 0), 0, 2)));
    }
    let mut dict = StateDict::new();
    dict.put(format!("{prefix}W"), Tensor::stack::<3>(w, 0))?;
    dict.put(format!("{prefix}R"), Tensor::stack::<3>(r, 0))?;
    match b.len() {
        0 => {}
        len if len == block.layers.len() => {
            dict.put(format!("{prefix}B"), Tensor::stack::<2>(b, 0))?;
        }
        _ => return lacks("a bias in one direction only"),
    }
    Ok((dict, attributes))
}

/// Runs `block` as the node: `X` and `initial_h` in, `Y` and `Y_h` out, all in the layouts of
/// ONNX.
///
/// | | `layout = 0` | `layout = 1` |
/// |---|---|---|
/// | `X` | `[T,N,I]` | `[N,T,I]` |
/// | `initial_h`, `Y_h` | `[D,N,H]` | `[N,D,H]` |
/// | `Y` | `[T,D,N,H]` | `[N,T,D,H]` |
///
/// # Panics
/// As [`GruBlock::forward_lengths`].
pub fn run(
    block: &GruBlock,
    x: Tensor<3>,
    sequence_lens: Option<&[usize]>,
    initial_h: Option<Tensor<3>>,
) -> (Tensor<4>, Tensor<3>) {
    let directions_first = |state: Tensor<3>| match block.batch_first {
        true => state.swap_dims(0, 1),
        false => state,
    };
    let state = initial_h.map(directions_first);
    let (y, state) = match sequence_lens {
        Some(lengths) => block.forward_lengths(x, lengths, state),
        None => block.forward(x, state),
    };
    let [first, second, _] = y.dims();
    let y = y.reshape([first, second, block.directions(), block.d_hidden]);
    let y = match block.batch_first {
        true => y,
        false => y.swap_dims(1, 2),
    };
    (y, directions_first(state))
}

/// The activations of each direction.
fn activations(
    attributes: &Attributes,
    directions: usize,
) -> Result<Vec<Activations>, ConvertError> {
    let default: Vec<String> = ["Sigmoid", "Tanh"]
        .repeat(directions)
        .into_iter()
        .map(String::from)
        .collect();
    let named = match attributes.activations.is_empty() {
        true => &default,
        false => &attributes.activations,
    };
    let count = |what, expected, actual| ConvertError::Count {
        what,
        expected,
        actual,
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

/// The parameters that no activation has taken yet.
struct Parameters<'a> {
    alpha: &'a [f32],
    beta: &'a [f32],
}

impl Parameters<'_> {
    fn activation(&mut self, gate: &'static str, name: &str) -> Result<Activation, ConvertError> {
        // None: the operator that the activation is named after has no default either.
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
                return Err(ConvertError::Activation {
                    gate,
                    activation: name.into(),
                });
            }
        })
    }
}

/// Adds an activation's name and parameters.
fn name(attributes: &mut Attributes, activation: Activation) {
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
        // ONNX has no identity, but this is one.
        Activation::Identity => ("Affine", Some(1.0), Some(0.0)),
    };
    attributes.activations.push(name.into());
    attributes.activation_alpha.extend(alpha.map(|a| a as f32));
    attributes.activation_beta.extend(beta.map(|b| b as f32));
}
