//! `.onnx` files: reads exports of PyTorch, and writes blocks for ONNX Runtime.
//! `tests/data/models/onnx/make.py` recorded ONNX Runtime's results for each file.

use std::path::PathBuf;

use burn::tensor::{DType, Device, Tensor};
use gru_convert::{
    ConvertError, StateDict,
    onnx::{self, Model, ModelInputs},
};
use gru_op::{Activation, GruBlock, GruBlockConfig, GruWeights, Reset, SequenceOptions};
use gru_testkit::close::{Tensors, Tolerance, close};
use libtest_mimic::{Completion, Trial};

use super::{
    backends::TestBackend,
    conformance::{text, values_by_key},
    runs::{expect, fails, tensor, values},
};

/// If set, the test rewrites its files.
const WRITE: &str = "GRU_WRITE_ONNX";

const EXPORTED: [&str; 3] = ["torch_layers", "torch_batch_first", "torch_no_bias"];

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &backend in backends {
        let tolerance = backend.tolerance(Tolerance::F32).forward;
        for module in EXPORTED {
            for exporter in ["script", "dynamo"] {
                let file = format!("{module}_{exporter}.onnx");
                let id = format!("onnx_file/read/{module}_{exporter}/{}", backend.name);
                trials.push(backend.trial(id, move |device| exported(&file, device, tolerance)));
            }
        }
    }
    trials.push(Trial::test("onnx_file/no-layers", || Ok(no_layers()?)));
    for block in written() {
        let id = format!("onnx_file/written/{}", block.name);
        trials.push(Trial::ignorable_test(id, move || Ok(block.check()?)));
    }
    trials
}

fn path(file: &str) -> PathBuf {
    crate::data().join("models/onnx").join(file)
}

struct Recorded {
    arrays: StateDict,
    values: Tensors,
    file: String,
}

impl Recorded {
    fn of(file: &str) -> Result<Self, String> {
        let arrays = StateDict::from_safetensors(path("expected.safetensors")).map_err(text)?;
        Ok(Self {
            values: values_by_key(&arrays),
            arrays,
            file: file.to_owned(),
        })
    }

    fn get(&self, name: &str) -> Option<(&[f64], &[usize])> {
        let key = format!("{}/{name}", self.file);
        let array = self.arrays.get(&key)?;
        Some((&self.values[&key], array.shape().as_slice()))
    }

    fn tensor<const D: usize>(&self, name: &str, device: &Device, dtype: DType) -> Tensor<D> {
        let (values, shape) = self
            .get(name)
            .unwrap_or_else(|| panic!("{name} is recorded"));
        tensor(values, shape.try_into().expect("a rank"), device, dtype)
    }

    fn close<const D: usize>(
        &self,
        name: &str,
        got: Tensor<D>,
        tolerance: f64,
    ) -> Result<(), String> {
        let (expected, shape) = self
            .get(name)
            .ok_or(format!("{name}: expected a record, got none"))?;
        expect(name, &got.dims()[..], shape)?;
        close(name, &values(got), expected, tolerance)
    }
}

/// The GRUs of a file in sequence give the results of the whole file in ONNX Runtime.
fn exported(file: &str, device: &Device, tolerance: f64) -> Result<(), String> {
    let model = Model::open(path(file)).map_err(text)?;
    let recorded = Recorded::of(file)?;
    let batch_first = file.contains("batch_first");
    // The exporters put their own transpose around a time-major node.
    let swap = |x: Tensor<3>| if batch_first { x.swap_dims(0, 1) } else { x };
    let mut x = swap(recorded.tensor("in.x", device, DType::F32));
    let state: Tensor<3> = recorded.tensor("in.state", device, DType::F32);
    let mut ends = Vec::new();
    for gru in model.grus() {
        let block = model.import(gru.name(), device).map_err(text)?;
        let d = block.directions();
        let h0 = state.clone().narrow(0, ends.len() * d, d);
        let (y, end) = onnx::run(&block, x, None, Some(h0));
        let [t, _, n, h] = y.dims();
        x = y.swap_dims(1, 2).reshape([t, n, d * h]);
        ends.push(end);
    }
    recorded.close("out.y", swap(x), tolerance)?;
    recorded.close("out.new_state", Tensor::cat(ends, 0), tolerance)?;

    let names: Vec<&str> = model.grus().iter().map(|gru| gru.name()).collect();
    let block = model.import_layers(&names, device).map_err(text)?;
    let x = swap(recorded.tensor("in.x", device, DType::F32));
    let (y, ends) = block.forward(x, Some(state));
    recorded.close("out.y", swap(y), tolerance)?;
    recorded.close("out.new_state", ends, tolerance)
}

/// GRUs that are not layers of one block are an error.
fn no_layers() -> Result<(), String> {
    let model = Model::open(path("torch_layers_script.onnx")).map_err(text)?;
    let [first, second] = model.grus() else {
        return Err(format!("expected two layers, got {:?}", model.grus()));
    };
    let import = |names: &[&str]| model.import_layers(names, &Device::flex());
    let turned = format!(
        "layer 1, {:?}: expected d_input 10, d_hidden 5, bidirectional true, reverse false, \
         batch_first false, got d_input 3, d_hidden 5, bidirectional true, reverse false, \
         batch_first false",
        first.name()
    );
    fails(import(&[second.name(), first.name()]), &turned)?;
    fails(import(&[]), "expected the names of GRUs, got none")
}

/// A block with weights from a formula, and its model's inputs.
struct Written {
    name: &'static str,
    config: GruBlockConfig,
    dtype: DType,
    inputs: ModelInputs,
}

/// Blocks that together use every feature of a node.
fn written() -> [Written; 4] {
    let gates = Activation::HardSigmoid {
        alpha: 0.25,
        beta: 0.4,
    };
    let inputs = |state, lengths| {
        ModelInputs::default()
            .with_state(state)
            .with_lengths(lengths)
    };
    [
        Written {
            name: "layers",
            config: GruBlockConfig::new(3, 5)
                .with_num_layers(2)
                .with_bidirectional(true),
            dtype: DType::F32,
            inputs: inputs(true, false),
        },
        Written {
            name: "options",
            config: GruBlockConfig::new(4, 3)
                .with_reverse(true)
                .with_batch_first(false)
                .with_bias(false)
                .with_reset(Reset::BeforeMatmul)
                .with_clip_gates(Some(0.75))
                .with_activations([gates, gates, Activation::LeakyRelu { alpha: 0.1 }].into()),
            dtype: DType::F32,
            inputs: inputs(true, true),
        },
        Written {
            name: "plain",
            config: GruBlockConfig::new(1, 2),
            dtype: DType::F32,
            inputs: inputs(false, false),
        },
        Written {
            name: "float64",
            config: GruBlockConfig::new(2, 7).with_num_layers(3),
            dtype: DType::F64,
            inputs: inputs(true, false),
        },
    ]
}

impl Written {
    fn block(&self, device: &Device) -> Result<GruBlock, ConvertError> {
        let h = self.config.d_hidden;
        let mut drawn = 0;
        // Values that differ at every place.
        let mut numbers = |len: usize| -> Vec<f64> {
            let from = drawn;
            drawn += len;
            (from..drawn).map(|k| (k as f64 * 0.7).sin()).collect()
        };
        let weights = (0..self.config.layer_count()).map(|k| {
            let mut matrix = |rows| {
                let numbers = numbers(rows * 3 * h);
                tensor(&numbers, [rows, 3 * h], device, self.dtype)
            };
            let (w_ih, w_hh) = (matrix(self.config.layer_inputs(k)), matrix(h));
            let mut bias = || tensor(&numbers(3 * h), [3 * h], device, self.dtype);
            let (b_ih, b_hh) = (bias(), bias());
            GruWeights::new(w_ih, w_hh)
                .with_b_ih(self.config.bias.then_some(b_ih))
                .with_b_hh(self.config.bias.then_some(b_hh))
        });
        Ok(self.config.init_with(weights.collect())?)
    }

    /// The file equals, byte by byte, the file that ONNX Runtime ran, and gives the same results. If the
    /// test rewrites the file, it does not compare and reports *ignored*.
    fn check(&self) -> Result<Completion, String> {
        let device = &Device::flex();
        let block = self.block(device).map_err(text)?;
        let bytes = onnx::model(&block, self.inputs).map_err(text)?;
        let file = format!("gru_op_{}.onnx", self.name);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(path(&file), bytes).map_err(text)?;
            return Ok(Completion::ignored_with(format!(
                "{WRITE}: {file} is written, not compared"
            )));
        }
        // On other systems, the sine of the C library may differ in the last bit.
        let is_same = self.dtype != DType::F64 || cfg!(target_os = "linux");
        if is_same && std::fs::read(path(&file)).map_err(text)? != bytes {
            return Err(format!("{file}: expected the recorded bytes"));
        }
        let recorded = Recorded::of(&file)?;
        let x = recorded.tensor("in.x", device, self.dtype);
        let state = self.inputs.state;
        let state = state.then(|| recorded.tensor("in.state", device, self.dtype));
        let (y, new_state) = match recorded.get("in.lengths") {
            Some((lengths, _)) => {
                let lengths: Vec<usize> = lengths.iter().map(|&len| len as usize).collect();
                block.forward_with(x, SequenceOptions::new().state(state).lengths(&lengths))
            }
            None => block.forward(x, state),
        };
        let tolerance = match self.dtype {
            DType::F64 => Tolerance::F64,
            _ => Tolerance::F32,
        };
        recorded.close("out.y", y, tolerance.forward)?;
        recorded.close("out.new_state", new_state, tolerance.forward)?;
        Ok(Completion::Completed)
    }
}
