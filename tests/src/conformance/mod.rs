//! Every recorded case of other systems, through the operator or importer that users of that system
//! call, on every backend.

mod keras;
pub mod mps_graph;
mod onnx;
mod tensorflow;
mod torch;

use std::collections::BTreeMap;

use burn::tensor::{DType, Device, Gradients, Tensor, TensorData};
use gru_convert::StateDict;
use gru_op::{GruBlock, GruWeights};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    conformance::{Array, Case, CaseSpec},
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    operator::{self, Way},
    runs, vectors,
};

/// Runs one system's cases on a device, in float32.
type Run = fn(&Case, &Device) -> Result<Outcome, String>;

/// Checks a second path to the results of a case.
type Check = fn(&Case, &Device, &TestBackend) -> Result<(), String>;

/// Kinds of cases, their numbers, and the functions that run them in float32.
const KINDS: [(&str, usize, Run); 7] = [
    ("grad_f64", 6, grad_f64),
    ("torch_gru", 23, torch::run),
    ("torchrl_gru", 6, torch::run_with_starts),
    ("keras_gru", 24, keras::run),
    ("onnx_gru", 46, onnx::run),
    ("tf_block_cell", 7, tensorflow::run),
    ("mpsgraph_gru", 35, mps_graph::run),
];

/// All cases. The float64 references also run in float64 where the backend has it.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let cases = CaseSpec::all(vectors::directory());
    let mut trials = vec![
        every_case_has_a_run(&cases),
        Trial::test("conformance/mpsgraph-ignored-bias", || {
            Ok(mps_graph::ignored_bias()?)
        }),
    ];
    for backend in backends {
        for spec in &cases {
            let run = KINDS.iter().find(|(kind, ..)| *kind == spec.kind());
            let &(_, _, run) = run.unwrap_or_else(|| panic!("{}: {}", spec.name(), spec.kind()));
            let name = spec.name();
            let in_float32 = move |case: &Case, device: &Device, backend: &TestBackend| {
                let tolerance = backend.tolerance(case.tolerance());
                run(case, device)?.compare(&expected(case), tolerance)
            };
            trials.push(trial(name, DType::F32, spec, backend, in_float32));
            if backend.samples_modes() && spec.kind() != "grad_f64" {
                // These paths lead to the same operator call, so only one backend runs them.
                continue;
            }
            // A second path to the same results.
            let mut second = |way: &str, check: Check| {
                let name = format!("{name}/{way}");
                trials.push(trial(&name, DType::F32, spec, backend, check));
            };
            match spec.kind() {
                "grad_f64" if backend.float64 => {
                    trials.push(trial(name, DType::F64, spec, backend, grad_in_float64));
                }
                "torch_gru" if name.contains("packed") => second("packed", torch::packed),
                "mpsgraph_gru" => {
                    second("autodiff", mps_graph::by_autodiff);
                    if mps_graph::has_input_weight(spec) {
                        second("block", mps_graph::by_block);
                    }
                }
                "tf_block_cell" if spec.number("T").is_none() => {
                    second("autodiff", tensorflow::by_autodiff);
                }
                _ => {}
            }
        }
    }
    trials
}

fn trial(
    name: &str,
    dtype: DType,
    spec: &CaseSpec,
    backend: &TestBackend,
    check: impl FnOnce(&Case, &Device, &TestBackend) -> Result<(), String> + Send + 'static,
) -> Trial {
    let id = format!("conformance/{name}/{}", backend.id(dtype));
    let (spec, backend_of) = (spec.clone(), *backend);
    backend.trial(id, move |device| {
        check(&spec.load(vectors::directory()), device, &backend_of)
    })
}

fn grad_in_float64(case: &Case, device: &Device, _: &TestBackend) -> Result<(), String> {
    let (drawn, expected) = vectors::grad_f64(case, ".f64");
    let got = operator::run(device, DType::F64, &drawn, Way::default())?;
    got.compare(&expected, Tolerance::F64)
}

/// A float64 reference in PyTorch's layout, with either reset form, through the operator.
fn grad_f64(case: &Case, device: &Device) -> Result<Outcome, String> {
    let (drawn, _) = vectors::grad_f64(case, "");
    operator::run(device, DType::F32, &drawn, Way::default())
}

/// The table has the expected number of cases, which is part of the trial name.
fn every_case_has_a_run(cases: &[CaseSpec]) -> Trial {
    let mut counts = BTreeMap::new();
    for case in cases {
        *counts.entry(case.kind().to_owned()).or_insert(0) += 1;
    }
    let expected: BTreeMap<String, usize> = KINDS
        .iter()
        .map(|&(kind, count, _)| (kind.to_owned(), count))
        .collect();
    let total: usize = expected.values().sum();
    Trial::test(format!("conformance/{total}-cases"), move || {
        Ok(runs::expect("cases", counts, expected)?)
    })
}

/// The expected results of a float32 case, with the names of its file, or of the operator for a float64 reference.
fn expected(case: &Case) -> Outcome {
    if case.spec.kind() == "grad_f64" {
        return vectors::grad_f64(case, "").1;
    }
    let prefixed = |prefix: &str| -> Tensors {
        case.with_prefix(prefix)
            .map(|(name, array)| (name.to_owned(), array.data.clone()))
            .collect()
    };
    Outcome {
        outputs: prefixed("out."),
        gradients: prefixed("grad."),
    }
}

/// The inputs of a case that `is_weight` selects, as a weight file of its system.
fn state_dict(case: &Case, is_weight: impl Fn(&str) -> bool) -> StateDict {
    let mut dict = StateDict::new();
    for (name, array) in case.with_prefix("in.") {
        if is_weight(name) {
            let data = TensorData::new(array.data.clone(), array.shape.clone());
            dict.insert(name, data);
        }
    }
    dict
}

/// The values of a state dict by name.
pub fn values_by_key(dict: &StateDict) -> Tensors {
    let values = |key: &str| {
        let data = dict.get(key).expect("the key is the dict's own").clone();
        let values = data.convert::<f64>().try_into_vec();
        values.expect("the data was just converted")
    };
    dict.keys()
        .map(|key| (key.to_owned(), values(key)))
        .collect()
}

fn leaf<const D: usize>(array: &Array, device: &Device) -> Tensor<D> {
    constant(array, device).require_grad()
}

fn constant<const D: usize>(array: &Array, device: &Device) -> Tensor<D> {
    let shape = array.shape[..].try_into().expect("the rank is known");
    runs::tensor(&array.data, shape, device, DType::F32)
}

/// `block` with gradients in place of its parameters. An export of it gives the gradients the system's
/// names.
pub fn gradients_of(block: &GruBlock, gradients: &Gradients) -> Result<GruBlock, String> {
    fn of<const D: usize>(
        name: &str,
        leaf: &Tensor<D>,
        gradients: &Gradients,
    ) -> Result<Tensor<D>, String> {
        let gradient = leaf.grad(gradients);
        gradient.ok_or_else(|| format!("gradient of {name}: there is none"))
    }
    let layers = block.layers.iter().map(|layer| {
        let optional = |name: &str, bias: &Option<Tensor<1>>| {
            bias.as_ref().map(|b| of(name, b, gradients)).transpose()
        };
        let weights = layer.weights();
        Ok(GruWeights::new(
            of("w_ih", &layer.w_ih.val(), gradients)?,
            of("w_hh", &weights.w_hh, gradients)?,
        )
        .with_b_ih(optional("b_ih", &weights.b_ih)?)
        .with_b_hh(optional("b_hh", &weights.b_hh)?))
    });
    let layers: Vec<GruWeights> = layers.collect::<Result<_, String>>()?;
    block.config().init_with(layers).map_err(text)
}

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
