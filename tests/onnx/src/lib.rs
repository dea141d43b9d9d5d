//! Code that burn-onnx and gru-onnx generated.

use burn::tensor::{Device, Int, Tensor, TensorData};
use gru_testkit::conformance::Case;

/// The shape and the values of an output.
pub type Result = (&'static str, Vec<usize>, Vec<f64>);
/// Runs a model over the inputs of a case.
pub type Run = fn(&Case, &Device) -> Vec<Result>;

#[allow(clippy::all, missing_docs, unused)]
mod generated {
    use super::*;
    include!(concat!(env!("OUT_DIR"), "/cases.rs"));
}
pub use generated::CASES;

pub mod export;
pub mod models;

fn floats<const D: usize>(case: &Case, name: &str, device: &Device) -> Tensor<D> {
    let array = case.tensor(&format!("in.{name}"));
    Tensor::from_data(
        TensorData::new(array.data.clone(), array.shape.clone()),
        device,
    )
}

fn lengths(case: &Case, name: &str, device: &Device) -> Tensor<1, Int> {
    let array = case.tensor(&format!("in.{name}"));
    let lengths: Vec<i64> = array.data.iter().map(|&length| length as i64).collect();
    Tensor::from_data(TensorData::new(lengths, array.shape.clone()), device)
}

fn result<const D: usize>(name: &'static str, tensor: Tensor<D>) -> Result {
    let shape = tensor.dims().to_vec();
    let values = tensor.into_data().iter::<f64>().collect();
    (name, shape, values)
}
