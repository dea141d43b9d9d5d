//! ONNX' `GRU` operator: its initializers `W [D,3H,I]`, `R [D,3H,H]`, `B [D,6H]` (gates as rows z, r, n,
//! and `B` with both biases), its attributes, its layouts.
//!
//! The reset gate acts before the product by default, and after it with `linear_before_reset = 1`.
//! Source: <https://onnx.ai/onnx/operators/onnx__GRU.html>.
//!
//! ONNX Runtime 1.32 differs from this crate in two points. In ONNX Runtime, a row of length zero gets a
//! final state of zero. Here it gets the initial state. In ONNX Runtime, `Affine` and `ScaledTanh`
//! without parameters are constant zero. Here they are an error.

#[cfg(feature = "onnx")]
mod attributes;
#[cfg(feature = "onnx")]
mod elsewhere;
#[cfg(feature = "onnx")]
mod model;
#[cfg(feature = "onnx")]
mod node;
mod prepared;
#[cfg(feature = "onnx")]
#[allow(missing_docs)] // The fields of the format.
mod proto;
#[cfg(feature = "onnx")]
mod sparse;
#[cfg(feature = "onnx")]
mod tensor;
#[cfg(all(test, feature = "onnx", feature = "flex"))]
mod tests;
#[cfg(feature = "onnx")]
mod write;

#[cfg(feature = "onnx")]
pub use self::{
    model::Model,
    node::Node,
    write::{ModelInputs, model},
};

/// The parts of a file, for gru-onnx.
#[cfg(feature = "onnx")]
#[doc(hidden)]
pub mod file {
    pub use super::{
        proto::{Attribute, Graph, Model, Node, OperatorSet, Tensor, element, kind},
        tensor::write as tensor,
        write::{Size, attribute, described, int, value},
    };
}

pub use self::prepared::{Gru, PreparedBlock};
pub use gru_op::spec::onnx::{AttributeError, Attributes};

use crate::{
    arrays::{self, Array, Form::*, Parameter::*, ZRN},
    error::ConvertError,
    looks::{Layer, Names, explained},
    state_dict::StateDict,
    system::{PLAIN, System},
};
use burn::tensor::{Device, Int, Tensor};
use gru_op::{
    Direction, GruBlock, GruBlockConfig, GruError, GruLayer, Layout, Reset, SequenceOptions,
};

/// What one node can express.
const SYSTEM: System = System {
    name: "ONNX",
    bidirectional: true,
    reverse: true,
    activations: |gates| gates.reset == gates.update,
    own_activations: true,
    clip_gates: true,
    ..PLAIN
};

/// The configuration of the node with these attributes and the initializers under `prefix`.
///
/// # Errors
/// If an attribute is invalid or contradicts a shape.
pub fn config(
    dict: &StateDict,
    prefix: &str,
    attributes: &Attributes,
) -> Result<GruBlockConfig, ConvertError> {
    let found = sizes(dict, prefix)?;
    let (i, h) = (found.d_input, found.d_hidden);
    if let Some(hidden_size) = attributes.hidden_size
        && hidden_size != h
    {
        let error = GruError::Count {
            what: "hidden_size",
            expected: h,
            actual: hidden_size,
        };
        return Err(error.into());
    }
    let directions = attributes.directions()?;
    let of = |directions| [directions, 3 * h, i];
    GruError::expect_shape(
        &format!("{prefix}W"),
        &of(directions.len()),
        &of(found.layer_count()),
    )?;
    let specs = attributes.specs()?;
    let config = GruBlockConfig::new(i, h)
        .with_reverse(directions == [Direction::Reverse])
        .with_bidirectional(directions.len() == 2)
        .with_batch_first(attributes.layout()? == Layout::BatchMajor)
        .with_bias(found.bias);
    let options = specs.into_iter().map(|spec| {
        let mut options = config.layer_options();
        options.spec = spec;
        options
    });
    let options = options.collect();
    Ok(config.with_layers(options))
}

/// The initializers `W`, `R` and the optional `B` under `prefix`, as a block with one layer.
///
/// # Errors
/// If an initializer is missing or unexpected, or if it does not have the shape or dtype that `config`
/// requires.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    // The initializers do not depend on the reset form.
    let found = sizes(dict, prefix)?.with_reset(config.layer_spec(0).reset);
    SYSTEM.check_config(config, &found)?;
    let sizes = [found.layer_count(), found.d_input, found.d_hidden];
    arrays::import(dict, &arrays(prefix, sizes, found.bias), config, device)
}

/// All directions in each array, and both biases in one.
fn arrays(prefix: &str, [d, i, h]: [usize; 3], has_bias: bool) -> Vec<Array> {
    let array = |name, shape, parts| (format!("{prefix}{name}"), shape, 0..d, parts);
    let both = vec![(InputBias, ZRN, Rows), (RecurrentBias, ZRN, Rows)];
    let mut arrays = vec![
        array("W", vec![d, 3 * h, i], vec![(Input, ZRN, Rows)]),
        array("R", vec![d, 3 * h, h], vec![(Recurrent, ZRN, Rows)]),
        array("B", vec![d, 6 * h], both),
    ];
    arrays.truncate(if has_bias { 3 } else { 2 });
    arrays
}

/// Nodes by their recurrent weight `[D,G·H,H]`.
pub(crate) const LOOKS: Names = Names {
    module: "onnx",
    layer: |dict, key| {
        let prefix = key.strip_suffix('R')?;
        dict.get(&format!("{prefix}W"))?;
        match dict.get(key)?.shape()[..] {
            [1 | 2, rows, h] => Some(Layer::new(prefix, rows, h)),
            _ => None,
        }
    },
    check: |dict, prefix| {
        let found = read(dict, prefix)?;
        let sizes = [found.layer_count(), found.d_input, found.d_hidden];
        arrays::check(dict, &arrays(prefix, sizes, found.bias))
    },
};

/// The configuration from the initializers: sizes, directions, bias.
fn sizes(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    read(dict, prefix).map_err(|error| explained(error, dict, prefix, &LOOKS))
}

fn read(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    dict.expect_only(prefix, &["W", "R", "B"], "a GRU has W, R and B")?;
    let key = |name: &str| format!("{prefix}{name}");
    let [d, rows, i] = dict.shape(&key("W"))?;
    let [_, of_r, h] = dict.shape(&key("R"))?;
    if of_r != h.saturating_mul(3) {
        return Err(ConvertError::Form {
            name: key("R"),
            expected: "[D, 3H, H]",
            actual: dict.get(&key("R")).map_or(vec![], |r| r.shape().to_vec()),
        });
    }
    if d > 2 {
        return Err(ConvertError::Form {
            name: key("W"),
            expected: "[D, 3H, I] with one or two directions",
            actual: vec![d, rows, i],
        });
    }
    Ok(GruBlockConfig::new(i, h)
        .with_bidirectional(d == 2)
        .with_bias(dict.get(&key("B")).is_some()))
}

/// The initializers and attributes of a node that computes the same as `block`. If only one direction
/// has a bias, the other gets zeros.
///
/// # Errors
/// If there is no such node: several layers, another update rule, different activations of the reset and
/// the update gate, a clip of the state, or zoneout. Also if a tensor cannot be read from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<(StateDict, Attributes), ConvertError> {
    SYSTEM.check_block(block)?;
    let (dict, attributes) = node(&block.layers, arrays::has_bias(block), prefix)?;
    let layout = i64::from(block.batch_first);
    let attributes = Attributes {
        layout,
        ..attributes
    };
    Ok((dict, attributes))
}

/// The initializers and time-major attributes for the directions of one layer. The caller has checked
/// them.
fn node(
    layers: &[GruLayer],
    has_bias: bool,
    prefix: &str,
) -> Result<(StateDict, Attributes), ConvertError> {
    let first = &layers[0];
    // The attribute is a float32, which may be zero for a small bound.
    let clip = first.spec.clip_gates.map(|clip| clip as f32);
    if clip == Some(0.0) {
        return Err(SYSTEM.lacks(format!(
            "clip_gates {:e}",
            first.spec.clip_gates.unwrap_or_default()
        )));
    }
    let ([i, _], [h, _]) = (first.w_ih.dims(), first.w_hh.dims());
    let mut attributes = Attributes {
        direction: match (layers.len(), first.direction) {
            (1, Direction::Forward) => "forward".into(),
            (1, Direction::Reverse) => "reverse".into(),
            _ => "bidirectional".into(),
        },
        clip,
        hidden_size: Some(h),
        linear_before_reset: i64::from(first.spec.reset == Reset::AfterMatmul),
        ..Default::default()
    };
    for layer in layers {
        attributes.push_activation(layer.spec.activations.update);
        attributes.push_activation(layer.spec.activations.candidate);
    }
    let arrays = arrays(prefix, [layers.len(), i, h], has_bias);
    Ok((arrays::export(layers, &arrays)?, attributes))
}

/// Runs `gru` as the node does: `X` and `initial_h` as inputs, `Y` and `Y_h` as outputs, all in the
/// layouts of ONNX.
///
/// | | `layout = 0` | `layout = 1` |
/// |---|---|---|
/// | `X` | `[T,N,I]` | `[N,T,I]` |
/// | `initial_h`, `Y_h` | `[D,N,H]` | `[N,D,H]` |
/// | `Y` | `[T,D,N,H]` | `[N,T,D,H]` |
///
/// # Panics
/// As [`Gru::forward_with`].
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_convert::onnx;
/// use gru_op::GruBlockConfig;
///
/// let (t, n, i, h, device) = (5, 2, 3, 4, Device::flex());
/// let config = GruBlockConfig::new(i, h).with_bidirectional(true).with_batch_first(false);
/// let x = Tensor::random([t, n, i], Distribution::Default, &device);
/// let (y, y_h) = onnx::run(&config.init(&device), x, Some(&[5, 3]), None);
/// assert_eq!((y.dims(), y_h.dims()), ([t, 2, n, h], [2, n, h]));
/// ```
pub fn run(
    gru: &impl Gru,
    x: Tensor<3>,
    sequence_lens: Option<&[usize]>,
    initial_h: Option<Tensor<3>>,
) -> (Tensor<4>, Tensor<3>) {
    let state = initial_h.map(|state| swap_directions(gru, state));
    let mut options = SequenceOptions::new().state(state);
    if let Some(lengths) = sequence_lens {
        options = options.lengths(lengths);
    }
    let (y, state) = gru.forward_with(x, options);
    outputs(gru, y, state)
}

/// [`run`] with `sequence_lens [N]` on the device. It is not read back: the lengths become a mask on the
/// device, so a call neither waits for the device nor fails if it only records operations.
///
/// The results are the ones of [`run`], but a length above T acts as T, and a negative length as 0.
///
/// # Panics
/// If `sequence_lens` does not have one length for every row, and as [`Gru::forward_with`].
///
/// ```
/// use burn::tensor::{Device, Distribution, Int, Tensor};
/// use gru_convert::onnx;
/// use gru_op::GruBlockConfig;
///
/// let (t, n, i, h, device) = (5, 2, 3, 4, Device::flex());
/// let gru = GruBlockConfig::new(i, h).with_batch_first(false).init(&device);
/// let x = Tensor::random([t, n, i], Distribution::Default, &device);
/// let lengths = Tensor::<1, Int>::from_ints([5, 3], &device);
/// let (y, _) = onnx::run_with_lengths(&gru, x, lengths, None);
/// let past_the_end = y.slice([3..5, 0..1, 1..2]).abs().sum();
/// assert_eq!(past_the_end.into_scalar::<f32>(), 0.0);
/// ```
pub fn run_with_lengths(
    gru: &impl Gru,
    x: Tensor<3>,
    sequence_lens: Tensor<1, Int>,
    initial_h: Option<Tensor<3>>,
) -> (Tensor<4>, Tensor<3>) {
    let (rows, steps) = if gru.batch_first() { (0, 1) } else { (1, 0) };
    let [n, t] = [rows, steps].map(|dim| x.dims()[dim]);
    let got = sequence_lens.dims();
    assert!(
        got == [n],
        "onnx::run_with_lengths: sequence_lens: expected shape [{n}], got {got:?}"
    );
    if n == 0 || t == 0 {
        return run(gru, x, None, initial_h);
    }
    let options = (&x.device(), sequence_lens.dtype());
    let time = Tensor::<1, Int>::arange(0..t as i64, options).unsqueeze_dim::<2>(rows);
    let lengths: Tensor<2, Int> = sequence_lens.unsqueeze_dim(steps);
    let mut shape = [n; 2];
    shape[steps] = t;
    let valid = time.expand(shape).lower(lengths.expand(shape));
    let state = initial_h.map(|state| swap_directions(gru, state));
    let options = SequenceOptions::new().state(state).mask(valid.clone());
    let (y, state) = gru.forward_with(x, options);
    // A mask repeats the last output. Lengths end the sequence.
    let past = valid.bool_not().unsqueeze_dim::<3>(2).expand(y.shape());
    outputs(gru, y.mask_fill(past, 0), state)
}

/// The states in ONNX' layout, from the layout of `gru`, and back.
fn swap_directions(gru: &impl Gru, state: Tensor<3>) -> Tensor<3> {
    if gru.batch_first() {
        state.swap_dims(0, 1)
    } else {
        state
    }
}

/// `Y` and `Y_h` from the results of `gru`.
fn outputs(gru: &impl Gru, y: Tensor<3>, state: Tensor<3>) -> (Tensor<4>, Tensor<3>) {
    let ([first, second, width], [_, _, h]) = (y.dims(), state.dims());
    let y = y.reshape([first, second, width / h, h]);
    let y = if gru.batch_first() {
        y
    } else {
        y.swap_dims(1, 2)
    };
    (y, swap_directions(gru, state))
}
