//! Tensors from flat arrays, their gradients, and modules with other types of parameters.

use burn::{
    module::{Module, ModuleMapper, Param, Quantizer},
    tensor::{
        DType, Device, Gradients, Tensor, TensorData,
        quantization::{Calibration, QuantValue},
    },
};
use gru_op::{GruWeights, SequenceOptions};
use gru_testkit::{close::Tensors, inputs::Inputs, oracle::Call, problem::Problem};

/// The order and the checkpointing of a problem.
pub fn options(problem: &Problem) -> SequenceOptions<2> {
    SequenceOptions::new()
        .layout(problem.order.layout)
        .direction(problem.order.direction)
        .checkpointing(problem.checkpointing)
}

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
    if gradient.dims() != leaf.dims() {
        let (got, expected) = (gradient.dims(), leaf.dims());
        return Err(format!(
            "gradient of {name}: expected shape {expected:?}, got {got:?}"
        ));
    }
    Ok(values(gradient))
}

/// The tracked tensors of a problem in the operator's shapes.
pub struct Leaves {
    pub x: Tensor<3>,
    pub h0: Option<Tensor<2>>,
    /// `[N,H]` or `[1,H]`.
    pub start_state: Option<Tensor<2>>,
    pub weights: GruWeights,
}

impl Leaves {
    /// Leaves on `device`, or on its autodiff device.
    pub fn new(problem: &Problem, inputs: &Inputs, device: &Device, dtype: DType) -> Self {
        Self::of(&Call::of(problem, inputs), false, device, dtype)
    }

    /// The same for a call. The sequence is NaN at skipped steps. A shared start state is the one of row 0.
    pub fn of(call: &Call, shared_start: bool, device: &Device, dtype: DType) -> Self {
        let &Call { n, t, h, .. } = call;
        let device = device.clone().autodiff();
        let features = call.x.len() / (n * t).max(1);
        let mut x = call.x.clone();
        for (place, _) in call
            .step_mask
            .iter()
            .flatten()
            .enumerate()
            .filter(|(_, v)| **v == 0.0)
        {
            x[place * features..][..features].fill(f64::NAN);
        }
        let [first, second] = call.order.layout.split([n, t]);
        let vector = |data: &Vec<f64>| tensor(data, [3 * h], &device, dtype).require_grad();
        let matrix = |data: &[f64], columns: usize| {
            let shape = [data.len() / columns.max(1), columns];
            tensor(data, shape, &device, dtype).require_grad()
        };
        let start_state = call.start_state.as_ref();
        let start_state = start_state.map(|state| if shared_start { &state[..h] } else { state });
        Self {
            x: tensor(&x, [first, second, features], &device, dtype).require_grad(),
            h0: call.h0.as_ref().map(|h0| matrix(h0, h)),
            start_state: start_state.map(|state| matrix(state, h)),
            weights: GruWeights::new(
                call.w_ih.as_ref().map(|w_ih| matrix(w_ih, 3 * h)),
                matrix(&call.w_hh, 3 * h),
            )
            .with_b_ih(call.b_ih.as_ref().map(vector))
            .with_b_hh(call.b_hh.as_ref().map(vector)),
        }
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

    pub fn gradients(&self, gradients: &Gradients) -> Result<Tensors, String> {
        let weights = &self.weights;
        let mut named = Tensors::from([
            ("x".into(), gradient("x", &self.x, gradients)?),
            ("w_hh".into(), gradient("w_hh", &weights.w_hh, gradients)?),
        ]);
        if let Some(w_ih) = &weights.w_ih {
            named.insert("w_ih".into(), gradient("w_ih", w_ih, gradients)?);
        }
        for (name, state) in [("h0", &self.h0), ("start_state", &self.start_state)] {
            if let Some(state) = state {
                named.insert(name.into(), gradient(name, state, gradients)?);
            }
        }
        for (name, bias) in [("b_ih", &weights.b_ih), ("b_hh", &weights.b_hh)] {
            if let Some(bias) = bias {
                named.insert(name.into(), gradient(name, bias, gradients)?);
            }
        }
        Ok(named)
    }
}

/// Returns an error if an output does not have the expected shape.
pub fn expect_shape<const D: usize>(
    name: &str,
    tensor: &Tensor<D>,
    expected: [usize; D],
) -> Result<(), String> {
    if tensor.dims() == expected {
        Ok(())
    } else {
        Err(format!(
            "{name}: shape {:?}, expected {expected:?}",
            tensor.dims()
        ))
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
