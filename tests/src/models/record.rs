//! The file of a published model, and the record of its outputs.

use super::Published;
use crate::{
    backends::TestBackend,
    runs::{expect, values},
};
use burn::tensor::{DType, Device, Tensor, TensorData};
use gru_convert::{StateDict, onnx};
use gru_op::GruBlock;
use gru_testkit::close::close;
use std::path::Path;

/// The allowed distance of float32 from float64, as a multiple of ONNX Runtime's own distance.
///
/// Growth of rounding errors depends on the weights, the input and the number of steps: from 1e-6 to
/// 1e-5 here. ONNX Runtime's float32 has the same weights, input and steps. So its distance, the largest
/// over the 1e5 values of a tensor, is the unit. Only the order of sums differs. A sum of single terms
/// rounds 16 times as often as a sum in 16 parts. Its error is four times as large, because errors of
/// both signs partly cancel. The kernels stay below two. A wrong gate, bias or state gives an error
/// of 1e-2 or more, a thousand times as large.
const FROM_FLOAT64: f64 = 4.0;
/// The allowed distance from ONNX Runtime, which itself has a distance of one.
const FROM_ONNX_RUNTIME: f64 = FROM_FLOAT64 + 1.0;

/// The allowed distance of ONNX Runtime from float64. A larger distance means a wrong record.
const RECORDED: f64 = 2e-5;

pub struct Files {
    pub published: &'static Published,
    pub model: onnx::Model,
    pub record: Record,
}

/// The recorded tensors of a model.
pub struct Record {
    name: &'static str,
    tensors: StateDict,
}

pub struct Run {
    pub x: Tensor<3>,
    pub initial_h: Tensor<3>,
    pub lengths: Option<Vec<usize>>,
    pub y: Expected,
    pub y_h: Expected,
}

impl Run {
    /// Compares the outputs of the whole run.
    pub fn compare(&self, y: Tensor<4>, y_h: Tensor<3>, on: &TestBackend) -> Result<(), String> {
        expect(&self.y.name, &y.dims()[..], &self.y.shape)?;
        expect(&self.y_h.name, &y_h.dims()[..], &self.y_h.shape)?;
        self.y.compare("at once", &values(y), on)?;
        self.y_h.compare("at once", &values(y_h), on)
    }
}

/// One output, from ONNX Runtime and in float64.
pub struct Expected {
    pub name: String,
    pub shape: Vec<usize>,
    onnx_runtime: Vec<f64>,
    pub float64: Vec<f64>,
    distance: f64,
}

impl Expected {
    /// Keeps the first `len` values and the distance of all values.
    pub fn truncate(&mut self, len: usize) {
        self.onnx_runtime.truncate(len);
        self.float64.truncate(len);
    }

    pub fn compare(&self, how: &str, got: &[f64], backend: &TestBackend) -> Result<(), String> {
        let unit = self.distance * backend.tolerance_factor;
        for (whom, expected, distances) in [
            ("float64", &self.float64, FROM_FLOAT64),
            ("ONNX Runtime", &self.onnx_runtime, FROM_ONNX_RUNTIME),
        ] {
            let name = format!("{} {how} from {whom}", self.name);
            close(&name, got, expected, distances * unit)?;
        }
        Ok(())
    }
}

impl Files {
    pub fn open(published: &'static Published, root: &Path) -> Result<Self, String> {
        let path = root.join(published.file);
        let model = onnx::Model::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self {
            published,
            model,
            record: Record::open(published.name, root)?,
        })
    }

    pub fn import(&self, node: &str, device: &Device) -> Result<GruBlock, String> {
        self.model.import(node, device).map_err(|e| e.to_string())
    }
}

impl Record {
    pub fn open(name: &'static str, root: &Path) -> Result<Self, String> {
        let path = root.join(format!("recorded/{name}.safetensors"));
        let tensors = StateDict::from_safetensors(path).map_err(|e| e.to_string())?;
        Ok(Self { name, tensors })
    }

    pub fn data(&self, key: &str) -> Result<TensorData, String> {
        let data = self.tensors.get(key).cloned();
        data.ok_or(format!(
            "{}: expected a record of {key}, got none",
            self.name
        ))
    }

    pub fn numbers(&self, key: &str) -> Result<Vec<f64>, String> {
        let data = self.data(key)?.convert::<f64>();
        data.try_into_vec().map_err(|e| format!("{key}: {e:?}"))
    }

    fn expected(&self, key: &str) -> Result<Expected, String> {
        let onnx_runtime = self.numbers(key)?;
        let float64 = self.numbers(&format!("{key}.f64"))?;
        let distances = onnx_runtime.iter().zip(&float64);
        let distance = distances.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        if !(f64::MIN_POSITIVE..=RECORDED).contains(&distance) {
            return Err(format!(
                "{key}: ONNX Runtime's distance from float64 is {distance:e}"
            ));
        }
        Ok(Expected {
            name: key.into(),
            shape: self.data(key)?.shape().to_vec(),
            onnx_runtime,
            float64,
            distance,
        })
    }

    /// Loads the run `node:case`.
    pub fn run(&self, case: &str, device: &Device) -> Result<Run, String> {
        let tensor = |name: &str| -> Result<Tensor<3>, String> {
            let data = self.data(&format!("{case}:{name}"))?;
            Ok(Tensor::from_data(data.convert_dtype(DType::F32), device))
        };
        let lengths = self.numbers(&format!("{case}:sequence_lens")).ok();
        Ok(Run {
            x: tensor("X")?,
            initial_h: tensor("initial_h")?,
            lengths: lengths.map(|all| all.into_iter().map(|len| len as usize).collect()),
            y: self.expected(&format!("{case}:Y"))?,
            y_h: self.expected(&format!("{case}:Y_h"))?,
        })
    }
}
