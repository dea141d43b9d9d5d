//! Tensors from flat arrays, their gradients, and modules with other types of parameters.

use burn::{
    module::{Module, ModuleMapper, Param, Quantizer},
    tensor::{
        DType, Device, Gradients, Tensor, TensorData,
        quantization::{Calibration, QuantValue},
    },
};
use gru_op::{GruWeights, spec::Sizes};
use gru_testkit::{close::Tensors, draw::Drawn, random::numbers};
use std::fmt::Debug;

/// A tensor with these values.
pub fn tensor<const D: usize>(
    data: &[f64],
    shape: [usize; D],
    device: &Device,
    dtype: DType,
) -> Tensor<D> {
    let data = TensorData::new(data.to_vec(), shape).convert_dtype(dtype);
    Tensor::from_data(data, (device, dtype))
}

/// A tensor of random values in [−1, 1), equal for a name and length on every device.
pub fn random<const D: usize>(name: &str, shape: [usize; D], device: &Device) -> Tensor<D> {
    let values = numbers(name, shape.iter().product(), 1.0);
    tensor(&values, shape, device, DType::F32)
}

/// A tensor's values in float64.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor
        .into_data()
        .convert::<f64>()
        .try_into_vec()
        .expect("the data was just converted")
}

/// `Σ output ⊙ upstream`: the loss term that gives `output` the gradient `upstream`.
pub fn loss<const D: usize>(output: &Tensor<D>, upstream: &[f64]) -> Tensor<1> {
    let upstream = tensor(upstream, output.dims(), &output.device(), output.dtype());
    (output.clone() * upstream).sum()
}

/// The gradient of a leaf, which must have the shape of the leaf.
pub fn gradient<const D: usize>(
    name: &str,
    leaf: &Tensor<D>,
    gradients: &Gradients,
) -> Result<Vec<f64>, String> {
    let gradient = leaf
        .grad(gradients)
        .ok_or_else(|| format!("gradient of {name}: expected one, got none"))?;
    expect_shape(&format!("gradient of {name}"), &gradient, leaf.dims())?;
    Ok(values(gradient))
}

/// The tracked tensors of a case in the operator's shapes.
pub struct Leaves {
    pub x: Tensor<3>,
    pub h0: Option<Tensor<2>>,
    /// `[N,H]` or `[1,H]`.
    pub start_state: Option<Tensor<2>>,
    pub weights: GruWeights,
}

impl Leaves {
    /// Leaves on `device`, or on its autodiff device.
    pub fn new(drawn: &Drawn, device: &Device, dtype: DType) -> Self {
        let (call, device) = (&drawn.call, device.clone().autodiff());
        fn leaf<const D: usize>(
            values: &[f64],
            shape: [usize; D],
            place: (&Device, DType),
        ) -> Tensor<D> {
            tensor(values, shape, place.0, place.1).require_grad()
        }
        let place = (&device, dtype);
        let (sequence, weights) = (&call.inputs.sequence, &call.inputs.weights);
        let Sizes { n, t, i, h } = call.sizes;
        let [first, second] = call.order.layout.split([n, t]);
        let features = if weights.w_ih.is_some() { i } else { 3 * h };
        let state = |values: &Vec<f64>| leaf(values, [n, h], place);
        let bias = |values: &Vec<f64>| leaf(values, [3 * h], place);
        Self {
            x: leaf(&sequence.x, [first, second, features], place),
            h0: sequence.h0.as_ref().map(state),
            start_state: sequence.start_state.as_ref().map(|of_rows| {
                if !drawn.shared_start {
                    return state(of_rows);
                }
                let mut shared = of_rows.clone();
                shared.resize(h, 0.0); // Also without rows.
                leaf(&shared, [1, h], place)
            }),
            weights: GruWeights::new(
                weights.w_ih.as_ref().map(|w| leaf(w, [i, 3 * h], place)),
                leaf(&weights.w_hh, [h, 3 * h], place),
            )
            .with_b_ih(weights.b_ih.as_ref().map(bias))
            .with_b_hh(weights.b_hh.as_ref().map(bias)),
        }
    }

    /// The gradients of all leaves that have one.
    pub fn gradients(&self, gradients: &Gradients) -> Result<Tensors, String> {
        fn found<const D: usize>(
            name: &str,
            leaf: Option<&Tensor<D>>,
            gradients: &Gradients,
        ) -> Result<Option<(String, Vec<f64>)>, String> {
            match leaf {
                Some(leaf) if leaf.grad(gradients).is_some() => {
                    Ok(Some((name.into(), gradient(name, leaf, gradients)?)))
                }
                _ => Ok(None),
            }
        }
        let (weights, of) = (&self.weights, gradients);
        let all = [
            found("x", Some(&self.x), of)?,
            found("h0", self.h0.as_ref(), of)?,
            found("start_state", self.start_state.as_ref(), of)?,
            found("w_ih", weights.w_ih.as_ref(), of)?,
            found("w_hh", Some(&weights.w_hh), of)?,
            found("b_ih", weights.b_ih.as_ref(), of)?,
            found("b_hh", weights.b_hh.as_ref(), of)?,
        ];
        Ok(all.into_iter().flatten().collect())
    }

    /// The same tensors without autodiff.
    pub fn inner(self) -> Self {
        let weights = self.weights;
        Self {
            x: self.x.inner(),
            h0: self.h0.map(Tensor::inner),
            start_state: self.start_state.map(Tensor::inner),
            weights: GruWeights::new(weights.w_ih.map(Tensor::inner), weights.w_hh.inner())
                .with_b_ih(weights.b_ih.map(Tensor::inner))
                .with_b_hh(weights.b_hh.map(Tensor::inner)),
        }
    }
}

/// Returns an error if an output does not have the expected shape.
pub fn expect_shape<const D: usize>(
    name: &str,
    tensor: &Tensor<D>,
    expected: [usize; D],
) -> Result<(), String> {
    expect(&format!("shape of {name}"), tensor.dims(), expected)
}

/// Returns an error unless both values are equal.
pub fn expect<A: PartialEq + Debug>(what: &str, got: A, expected: A) -> Result<(), String> {
    if got == expected {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, got {got:?}"))
    }
}

/// Returns an error unless a result is an error whose text contains `says`.
pub fn fails<T, E: std::fmt::Display>(result: Result<T, E>, says: &str) -> Result<(), String> {
    match result {
        Err(error) if error.to_string().contains(says) => Ok(()),
        Err(error) => Err(format!("expected the error {says:?}, got {error}")),
        Ok(_) => Err(format!("expected the error {says:?}, got a result")),
    }
}

/// The module with weights of eight bits.
pub fn quantized<M: Module>(module: M, device: &Device) -> M {
    let scheme = device.settings().quantization.scheme;
    let scheme = scheme.with_value(QuantValue::Q8S);
    let mut quantizer = Quantizer::new(Calibration::MinMax, scheme);
    module.quantize_weights(&mut quantizer)
}

/// Dequantizes every parameter.
pub struct Dequantize;

impl ModuleMapper for Dequantize {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(Tensor::dequantize)
    }
}

/// Casts every parameter of a module without autodiff.
pub struct Cast(pub DType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor.cast(self.0))
    }
}
