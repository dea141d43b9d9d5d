//! The arrays of other systems. Each module lists its arrays, [`import`] reads them and [`export`] writes them.

use self::{Form::*, Parameter::*};
use crate::{error::ConvertError, state_dict::StateDict};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use gru_op::{GruBlock, GruBlockConfig, GruLayer, GruWeights};
use std::ops::Range;

/// The key and the shape of an array, and its parts: of each of these [`GruBlock::layers`], one after the other.
pub(crate) type Array = (String, Vec<usize>, Range<usize>, Vec<Part>);

/// Some gates of a parameter.
pub(crate) type Part = (Parameter, Gates, Form);

/// A parameter of a layer.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Parameter {
    /// `w_ih [I,3H]`.
    Input,
    /// `w_hh [H,3H]`.
    Recurrent,
    /// `b_ih [3H]`.
    InputBias,
    /// `b_hh [3H]`. [`export`] adds gates that no array holds to `b_ih`.
    RecurrentBias,
}

/// Gates in the order of a system: r is 0, z is 1, n is 2.
pub(crate) type Gates = &'static [usize];
pub(crate) const RZN: Gates = &[0, 1, 2];
pub(crate) const ZRN: Gates = &[1, 0, 2];
pub(crate) const RZ: Gates = &[0, 1];
pub(crate) const N: Gates = &[2];

/// The form of a weight with G gates. A bias is `[G·H]`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Form {
    /// `[I,G·H]`.
    Columns,
    /// `[G·H,I]`.
    Rows,
}

/// Returns an error if an array is missing, or has another shape or no floating-point numbers.
pub(crate) fn check(dict: &StateDict, arrays: &[Array]) -> Result<(), ConvertError> {
    let mut arrays = arrays.iter();
    arrays.try_for_each(|(key, shape, ..)| dict.floats(key, shape).map(|_| ()))
}

/// The block with these arrays. Gates that no array holds are zero, and a parameter without any is absent.
pub(crate) fn import(
    dict: &StateDict,
    arrays: &[Array],
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let h = config.d_hidden;
    // Each gate `[I,H]` of each parameter of each layer.
    let mut layers = vec![[const { [const { None }; 3] }; 4]; config.layer_count()];
    for (key, shape, range, parts) in arrays {
        let (bytes, _, dtype) = dict.floats(key, shape)?.clone().into_parts();
        let values = TensorData::from_bytes(bytes, [shape.iter().product::<usize>()], dtype);
        let (values, mut from) = (Tensor::<1>::from_data(values, device), 0);
        for k in range.clone() {
            for &(parameter, gates, form) in parts {
                let inputs = match parameter {
                    Input => config.layer_inputs(k),
                    Recurrent => h,
                    InputBias | RecurrentBias => 1,
                };
                let width = gates.len() * h;
                let part = values.clone().narrow(0, from, inputs * width);
                from += inputs * width;
                let columns = match form {
                    Columns => part.reshape([inputs, width]),
                    Rows => part.reshape([width, inputs]).transpose(),
                };
                for (at, &gate) in gates.iter().enumerate() {
                    let gate_columns = columns.clone().narrow(1, at * h, h);
                    layers[k][parameter as usize][gate] = Some(gate_columns);
                }
            }
        }
    }
    let weights = layers.into_iter().map(|parameters| {
        let [w_ih, w_hh, b_ih, b_hh] = parameters.map(packed);
        let bias = |bias: Option<Tensor<2>>| bias.map(|bias| bias.reshape([3 * h]));
        GruWeights::new(w_ih, w_hh.expect("every system has a recurrent weight"))
            .with_b_ih(bias(b_ih))
            .with_b_hh(bias(b_hh))
    });
    Ok(config.init_with(weights.collect())?)
}

/// A parameter `[I,3H]` of its gates.
fn packed(gates: [Option<Tensor<2>>; 3]) -> Option<Tensor<2>> {
    let like = gates.iter().flatten().next()?.clone();
    let gates = gates.map(|gate| gate.unwrap_or_else(|| like.zeros_like()));
    Some(Tensor::cat(gates.into(), 1))
}

/// These arrays of the layers. A missing bias is zero. Quantized parameters are dequantized.
pub(crate) fn export(layers: &[GruLayer], arrays: &[Array]) -> Result<StateDict, ConvertError> {
    let parts = arrays.iter().flat_map(|(.., parts)| parts);
    let recurrent = parts.filter(|(parameter, ..)| *parameter == RecurrentBias);
    let recurrent: Vec<usize> = recurrent
        .flat_map(|(_, gates, _)| *gates)
        .copied()
        .collect();
    let layers = layers
        .iter()
        .map(|layer| parameters(layer.valid().weights(), &recurrent));
    let layers: Vec<_> = layers.collect();
    let mut dict = StateDict::new();
    for (key, shape, range, parts) in arrays {
        let mut values = Vec::new();
        for k in range.clone() {
            for &(parameter, gates, form) in parts {
                let columns = columns(&layers[k][parameter as usize], gates);
                values.push(match form {
                    Columns => columns.flatten::<1>(0, 1),
                    Rows => columns.transpose().flatten(0, 1),
                });
            }
        }
        dict.put(key, Tensor::cat(values, 0), shape)?;
    }
    Ok(dict)
}

/// The parameters in the order of [`Parameter`], biases as `[1,3H]`. `recurrent` are the gates of `b_hh` that the
/// arrays hold.
fn parameters(weights: GruWeights, recurrent: &[usize]) -> [Tensor<2>; 4] {
    let (w_ih, w_hh) = (weights.w_ih, weights.w_hh);
    let [_, width] = w_hh.dims();
    let zeros = Tensor::<1>::zeros([width], (&w_hh.device(), w_hh.dtype()));
    let is_added = weights.b_hh.is_some() && recurrent.len() < 3;
    let [mut b_ih, b_hh] =
        [weights.b_ih, weights.b_hh].map(|bias| bias.unwrap_or_else(|| zeros.clone()).unsqueeze());
    if is_added {
        let added = (0..3).map(|gate| match columns(&b_hh, &[gate]) {
            held if recurrent.contains(&gate) => held.zeros_like(),
            other => other,
        });
        b_ih = b_ih + Tensor::cat(added.collect(), 1);
    }
    let w_ih = w_ih.expect("every layer has an input weight");
    [w_ih, w_hh, b_ih, b_hh]
}

/// Some gates of a parameter.
fn columns(parameter: &Tensor<2>, gates: &[usize]) -> Tensor<2> {
    let h = parameter.dims()[1] / 3;
    let gate = |&gate| parameter.clone().narrow(1, gate * h, h);
    Tensor::cat(gates.iter().map(gate).collect(), 1)
}

/// Whether any layer has a bias. If so, a system with biases has them in all layers.
pub(crate) fn has_bias(block: &GruBlock) -> bool {
    let mut layers = block.layers.iter();
    layers.any(|layer| layer.b_ih.is_some() || layer.b_hh.is_some())
}
