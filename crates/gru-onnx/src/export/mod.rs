//! Models of Burn as ONNX models, with a `GRU` node for each GRU of gru-op.
//!
//! ```
//! use burn::{
//!     module::Module,
//!     nn::{Linear, LinearConfig},
//!     tensor::{Device, Tensor},
//! };
//! use gru_onnx::Exporter;
//! use gru_op::{GruBlock, GruBlockConfig};
//!
//! #[derive(Module, Debug)]
//! struct Model {
//!     gru: GruBlock,
//!     head: Linear,
//! }
//!
//! impl Model {
//!     fn forward(&self, x: Tensor<3>) -> Tensor<3> {
//!         self.head.forward(self.gru.forward(x, None).0)
//!     }
//! }
//!
//! let device = Device::flex();
//! let model = Model {
//!     gru: GruBlockConfig::new(4, 8).init(&device),
//!     head: LinearConfig::new(8, 2).init(&device),
//! };
//! let onnx = Exporter::new()
//!     .with_input_names(["x"])
//!     .with_output_names(["y"])
//!     .export(&model, ["N", "T"], |[n, t]| Tensor::<3>::zeros([n, t, 4], &device), Model::forward)?;
//! assert!(onnx.len() > 1000);
//! # Ok::<(), gru_onnx::ExportError>(())
//! ```

mod constants;
mod graph;
mod gru;
mod operations;
mod shapes;
#[cfg(test)]
mod tests;
mod trace;
mod values;
mod weights;

pub use self::values::{Value, Values};

use self::{graph::Graph, gru::Calls, trace::Trace};
use burn::{
    backend::{
        capture::TensorId,
        ir::{BaseOperationIr as Base, OperationIr},
    },
    module::Module,
};
use prost::Message;
use std::collections::HashMap;

/// An export that failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The model or an input is on an autodiff device.
    #[error(
        "device: expected one without autodiff; export `model.valid()`, and make inputs on its device"
    )]
    Autodiff,
    /// The forward pass has other operations for other sizes.
    #[error("operation {operation}: expected the same operation for all sizes, got {}", .kinds.join(" and "))]
    DependsOnSize {
        /// Counted from 0.
        operation: usize,
        /// The operation in each capture.
        kinds: Vec<String>,
    },
    /// An input, an output, or the whole file.
    #[error("{what}: {reason}")]
    Boundary {
        /// What is wrong.
        what: String,
        /// Why.
        reason: String,
    },
    /// A GRU that ONNX cannot express.
    #[error("GRU {index} of the model ({weights}): {reason}")]
    Gru {
        /// In the order of the calls, from 0. A layer has one for each direction.
        index: usize,
        /// The path of its weights.
        weights: String,
        /// Why.
        reason: String,
    },
    /// Another operation that cannot be exported.
    #[error("operation {operation}{}: {reason}", near(.module.as_deref()))]
    Operation {
        /// Its name in Burn.
        operation: String,
        /// The module whose parameters were read last before it, if any.
        module: Option<String>,
        /// Why.
        reason: String,
    },
}

fn boundary(what: impl Into<String>, reason: impl ToString) -> ExportError {
    let (what, reason) = (what.into(), reason.to_string());
    ExportError::Boundary { what, reason }
}

fn in_file(reason: String) -> ExportError {
    boundary("file", reason)
}

fn near(module: Option<&str>) -> String {
    module.map_or(String::new(), |path| format!(" at or after {path}"))
}

/// Exports a model.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Exporter {
    prefix_masks: bool,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

/// The sizes of each symbol in the captures, in units of [`UNIT`]. No symbol is an affine function of another.
const SIZES: [[usize; 3]; 4] = [[1, 2, 3], [3, 1, 2], [2, 3, 1], [1, 2, 4]];

/// For a number of rows that is a multiple of 32, Burn's `Linear` always records the same operations.
const UNIT: usize = 64;

/// The largest file of protobuf.
const MAX_BYTES: usize = i32::MAX as usize;

impl Exporter {
    /// An exporter without names and without masks.
    pub fn new() -> Self {
        Self::default()
    }

    /// The names of the inputs, in order. By default `input_0`, `input_1` and so on.
    pub fn with_input_names<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        let inputs = names.into_iter().map(Into::into).collect();
        Self { inputs, ..self }
    }

    /// The names of the outputs, in order. By default `output_0`, `output_1` and so on.
    pub fn with_output_names<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        let outputs = names.into_iter().map(Into::into).collect();
        Self { outputs, ..self }
    }

    /// Promises that in every mask of a GRU the valid steps of a row are its first steps, as in a mask of lengths.
    /// ONNX has lengths only: the number of valid steps becomes `sequence_lens`. A mask with holes gives wrong results.
    pub fn with_prefix_masks(self, prefix_masks: bool) -> Self {
        Self {
            prefix_masks,
            ..self
        }
    }

    /// The bytes of a `.onnx` file that computes the same as `forward`.
    ///
    /// `inputs` makes example inputs from a size for each symbol. It is called with three different sizes, and nothing is
    /// computed. An axis that has the size of a symbol gets its name. Without symbols every size is constant.
    ///
    /// Weights of half precision, and all other values of half precision, become float32.
    ///
    /// # Errors
    /// - If the model is on an autodiff device.
    /// - If an operation or a GRU has no counterpart in ONNX.
    /// - If `forward` has other operations for other sizes, or a constant that depends on a size and is no `arange`.
    ///
    /// # Panics
    /// If `inputs` or `forward` panics, for example because `forward` reads the values of a tensor.
    pub fn export<const K: usize, M: Module, I: Values, O: Values>(
        &self,
        model: &M,
        symbols: [&str; K],
        inputs: impl Fn([usize; K]) -> I,
        forward: impl Fn(&M, I) -> O,
    ) -> Result<Vec<u8>, ExportError> {
        if K > SIZES.len() {
            let reason = format!("expected at most {}, got {K}", SIZES.len());
            return Err(boundary("symbols", reason));
        }
        if let Some(k) = (1..K).find(|&k| symbols[..k].contains(&symbols[k])) {
            let reason = format!("expected different names, got {:?} again", symbols[k]);
            return Err(boundary("symbols", reason));
        }
        let captures = (0..if K == 0 { 1 } else { SIZES[0].len() }).map(|capture| {
            let sizes = std::array::from_fn(|symbol| UNIT * SIZES[symbol][capture]);
            trace::capture(model, inputs(sizes), &forward)
        });
        let trace = trace::align(captures.collect::<Result<_, _>>()?)?;
        let sizes = SIZES.map(|sizes| sizes.map(|size| UNIT * size).to_vec());
        let symbols: Vec<_> = symbols.into_iter().zip(sizes).collect();
        let inputs = names("input", trace.inputs.len(), &self.inputs)?;
        let outputs = names("output", trace.outputs.len(), &self.outputs)?;
        for (input, name) in trace.inputs.iter().zip(&inputs) {
            for (axis, sizes) in trace.sizes[&input.id].iter().enumerate() {
                let is_fixed = sizes.iter().all(|&size| size == sizes[0]);
                if !is_fixed && !symbols.iter().any(|(_, symbol)| symbol == sizes) {
                    let reason =
                        format!("expected a constant or the size of a symbol, got {sizes:?}");
                    return Err(boundary(format!("axis {axis} of {name}"), reason));
                }
            }
        }
        let mut graph = Graph::new(&trace, &symbols, &inputs);
        for name in inputs.iter().chain(&outputs) {
            graph.reserve(name).map_err(in_file)?;
        }
        self.lower(&mut graph, &trace)?;
        let model = graph.finish(&outputs).map_err(in_file)?;
        let size = model.encoded_len();
        if size > MAX_BYTES {
            return Err(in_file(format!(
                "expected at most {MAX_BYTES} bytes, got {size}"
            )));
        }
        Ok(model.encode_to_vec())
    }

    /// Adds the nodes of all operations.
    fn lower(&self, graph: &mut Graph<'_>, trace: &Trace) -> Result<(), ExportError> {
        let mut calls = Calls::default();
        // The module whose parameters were read last before each tensor, for errors.
        let mut modules: HashMap<TensorId, (usize, &str)> = HashMap::new();
        for (k, step) in trace.steps.iter().enumerate() {
            let near = step.op.inputs().filter_map(|tensor| {
                let constant = trace.constants.get(&tensor.id);
                let path = constant.and_then(|constant| constant.name.as_deref()?.rsplit_once('.'));
                let path = path.map(|(path, _)| (k, path));
                path.or_else(|| modules.get(&tensor.id).copied())
            });
            let near = near.max();
            if let Some(near) = near {
                modules.extend(step.op.outputs().map(|out| (out.id, near)));
            }
            match &step.op {
                OperationIr::Custom(op) => calls.add(graph, step, op, self.prefix_masks)?,
                OperationIr::BaseFloat(Base::Slice(op))
                    if calls.take_last_step(graph, op, step) => {}
                op => operations::lower(graph, step).map_err(|reason| ExportError::Operation {
                    operation: trace::kind(op),
                    module: near.map(|(_, path)| path.to_owned()),
                    reason,
                })?,
            }
        }
        // The outputs read tensors too.
        for output in &trace.outputs {
            graph.read_id(output.id).map_err(in_file)?;
        }
        calls.finish(graph)
    }
}

/// The given names, or numbered ones.
fn names(what: &str, count: usize, given: &[String]) -> Result<Vec<String>, ExportError> {
    if given.is_empty() {
        return Ok((0..count).map(|k| format!("{what}_{k}")).collect());
    }
    if given.len() != count {
        let reason = format!("expected {count} names, got {}", given.len());
        return Err(boundary(format!("{what}s"), reason));
    }
    Ok(given.to_vec())
}
