//! Constants of a graph, and casts.

use super::{
    graph::{Dim, Graph},
    trace::{Constant, Step},
};
use burn::{
    backend::ir::ScalarIr,
    tensor::{DType, TensorData},
};
use gru_convert::onnx::file::{self, element};
use prost::Message;

impl Graph<'_> {
    /// A constant that counts up to a size.
    pub fn range(&mut self, constant: &Constant) -> Result<String, String> {
        let counts_up = |data: &TensorData| {
            let values = || data.iter::<i64>().enumerate();
            data.dtype().is_int() && values().all(|(k, value)| k as i64 == value)
        };
        let shapes = constant.data.iter().map(TensorData::shape);
        let is_row = shapes.clone().all(|shape| shape.num_dims() == 1);
        if !is_row || !constant.data.iter().all(counts_up) {
            let expected = "the same constants for all sizes, or the integers from 0 to a size";
            return Err(format!("expected {expected}, got others"));
        }
        let size = self.size(&shapes.map(|shape| shape[0]).collect::<Vec<_>>())?;
        let size = self.scalar_of(size);
        let [zero, one] = [0, 1].map(|k| self.number(ScalarIr::Int(k), DType::I64));
        let range = self.node("Range", &[zero?, size, one?], vec![]);
        self.cast(&range, DType::I64, constant.data[0].dtype())
    }

    /// A tensor on the device as another type.
    pub fn cast(&mut self, x: &str, from: DType, to: DType) -> Result<String, String> {
        let (from, to) = (element_of(from)?, element_of(to)?);
        if from == to {
            return Ok(x.to_owned());
        }
        Ok(self.node("Cast", &[x.into()], vec![file::int("to", to.into())]))
    }

    /// A tensor of the file. Equal tensors are stored once.
    pub fn initializer(&mut self, name: &str, mut tensor: file::Tensor) -> String {
        let content = tensor.encode_to_vec();
        if let Some(name) = self.stored.get(&content) {
            return name.clone();
        }
        let name = self.unique(name);
        self.stored.insert(content, name.clone());
        tensor.name = Some(name.clone());
        let bytes = tensor.encode_to_vec().into();
        self.initializers.insert(name.clone(), bytes);
        name
    }

    /// The initializer with this data.
    pub fn data(&mut self, name: &str, data: &TensorData) -> Result<String, String> {
        element_of(data.dtype())?;
        Ok(self.initializer(name, file::tensor("", data)))
    }

    pub fn integers(&mut self, values: &[i64]) -> String {
        let data = TensorData::new(values.to_vec(), [values.len()]);
        self.data("integers", &data).expect("ONNX has integers")
    }

    /// A scalar.
    pub fn number(&mut self, value: ScalarIr, dtype: DType) -> Result<String, String> {
        let data = number(value, dtype, &[]);
        self.data("number", &data)
    }

    /// The number `k` of an operation as a scalar. A number that is a size becomes the size.
    ///
    /// # Errors
    /// If it depends on a size in another way.
    pub fn number_of(&mut self, step: &Step, k: usize, dtype: DType) -> Result<String, String> {
        let first = step.numbers[0][k];
        if step.numbers.iter().all(|numbers| numbers[k] == first) {
            return self.number(first, dtype);
        }
        let values = step.numbers.iter().map(|numbers| numbers[k].elem::<f64>());
        let sizes: Vec<usize> = values.clone().map(|value| value as usize).collect();
        if !values.clone().eq(sizes.iter().map(|&size| size as f64)) {
            let values: Vec<_> = values.collect();
            return Err(format!(
                "expected the same number for all sizes, or a size; got {values:?}"
            ));
        }
        let size = self.size(&sizes)?;
        let size = self.scalar_of(size);
        self.cast(&size, DType::I64, dtype)
    }

    fn scalar_of(&mut self, size: Dim) -> String {
        let size = self.shape(&[size]);
        let zero = self.integers(&[0]);
        self.node("Squeeze", &[size, zero], vec![])
    }
}

/// The element type in ONNX. Half precision becomes float32.
pub fn element_of(dtype: DType) -> Result<i32, String> {
    match dtype {
        DType::F32 | DType::Flex32 | DType::F16 | DType::BF16 => Ok(element::FLOAT),
        DType::F64 => Ok(element::DOUBLE),
        DType::I32 => Ok(element::INT32),
        DType::I64 => Ok(element::INT64),
        DType::Bool(_) => Ok(element::BOOL),
        other => Err(format!(
            "expected a float, a 32-bit or 64-bit integer or a bool, got {other:?}"
        )),
    }
}

/// One number as a tensor.
pub fn number(value: ScalarIr, dtype: DType, shape: &[usize]) -> TensorData {
    let shape = shape.to_vec();
    match dtype {
        DType::Bool(_) => TensorData::new(vec![value.elem::<bool>()], shape),
        dtype if dtype.is_float() => {
            TensorData::new(vec![value.elem::<f64>()], shape).convert_dtype(dtype)
        }
        dtype => TensorData::new(vec![value.elem::<i64>()], shape).convert_dtype(dtype),
    }
}
