//! Export and import of weights, and every error of the converters.

mod errors;
mod exports;
mod layouts;
mod others;
mod round_trips;
mod whole;

use burn::{
    config::Config,
    tensor::{Device, Distribution, Tensor, TensorData},
};
use gru_convert::{
    ConvertError, StateDict, burn_nn as burns, cudnn, keras, mps_graph, onednn, onnx, pytorch,
    tensorflow,
};
use gru_op::{Activation, Direction, GruBlock, GruBlockConfig, GruWeights, Reset};
use gru_testkit::close::{Tolerance, close};
use libtest_mimic::Trial;
use serde_json::Value;

use super::{
    conformance::{text, values_by_key},
    runs::{self, values},
};

const I: usize = 3;
const H: usize = 5;

pub fn trials() -> Vec<Trial> {
    round_trips::trials()
        .chain(layouts::trials())
        .chain(errors::trials())
        .chain(exports::trials())
        .chain(whole::trials())
        .chain(others::trials())
        .collect()
}

type Check = fn() -> Result<(), String>;

fn check((name, check): (&'static str, Check)) -> Trial {
    Trial::test(format!("convert/{name}"), move || Ok(check()?))
}

fn device() -> Device {
    Device::flex()
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device())
}

fn zeros<const D: usize>(shape: [usize; D]) -> TensorData {
    TensorData::zeros::<f32, _>(shape)
}

/// Which biases a layer has, by name: `none`, `input`, `both`, or `candidate` for the input bias and the candidate's
/// recurrent bias.
type Biases = &'static str;

fn weights(i: usize, biases: Biases) -> GruWeights {
    let candidate = || {
        let of_gates = Tensor::zeros([2 * H], &device());
        Tensor::cat(vec![of_gates, random([H])], 0)
    };
    let weights = GruWeights::new(random([i, 3 * H]), random([H, 3 * H]));
    match biases {
        "none" => weights,
        "input" => weights.with_b_ih(random([3 * H])),
        "both" => weights
            .with_b_ih(random([3 * H]))
            .with_b_hh(random([3 * H])),
        "candidate" => weights.with_b_ih(random([3 * H])).with_b_hh(candidate()),
        other => panic!("expected which biases a layer has, got {other}"),
    }
}

fn config() -> GruBlockConfig {
    GruBlockConfig::new(I, H)
}

fn block(config: GruBlockConfig) -> GruBlock {
    block_with(&config, "both")
}

fn block_with(config: &GruBlockConfig, biases: Biases) -> GruBlock {
    let weights = (0..config.layer_count()).map(|k| weights(config.layer_inputs(k), biases));
    let block = config.init_with(weights.collect());
    block.expect("the weights have the shapes of the configuration")
}

/// Sets options, such as `num_layers=2 spec.reset=BeforeMatmul`.
fn with_options(config: GruBlockConfig, options: &str) -> GruBlockConfig {
    let mut json: Value = serde_json::from_str(&config.to_string()).expect("a configuration");
    for option in options.split_whitespace() {
        let (path, value) = option.split_once('=').expect("NAME=VALUE");
        let names = path.split('.');
        let place = names.fold(&mut json, |json, name| json.get_mut(name).expect(name));
        *place = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    }
    GruBlockConfig::load_binary(json.to_string().as_bytes()).expect("a configuration")
}

/// The rows of a table, and the columns of each.
fn rows<const C: usize>(table: &'static str) -> impl Iterator<Item = [&'static str; C]> {
    table.trim().lines().map(|row| {
        let columns: Vec<_> = row.split('|').map(str::trim).collect();
        columns.try_into().expect(row)
    })
}

/// The systems, and their names in errors.
const SYSTEMS: [(&str, &str); 8] = [
    ("pytorch", "PyTorch"),
    ("burn", "Burn"),
    ("keras", "Keras"),
    ("tensorflow", "GRUBlockCell"),
    ("mps_graph", "MPSGraph"),
    ("onednn", "oneDNN"),
    ("cudnn", "a pseudo-layer of cuDNN"),
    ("onnx", "ONNX"),
];

/// Imports arrays with the inferred configuration, after a change.
type Import = Box<
    dyn Fn(&StateDict, &dyn Fn(GruBlockConfig) -> GruBlockConfig) -> Result<GruBlock, ConvertError>,
>;

/// The arrays of a block in a system, and their importer.
fn export(
    system: &str,
    block: &GruBlock,
    prefix: &'static str,
) -> Result<(StateDict, Import), ConvertError> {
    macro_rules! through {
        ($system:ident) => {{
            let import: Import = Box::new(move |dict, change| {
                let config = change($system::config(dict, prefix)?);
                $system::import(dict, prefix, &config, &device())
            });
            Ok(($system::export(block, prefix)?, import))
        }};
    }
    match system {
        "pytorch" => through!(pytorch),
        "burn" => through!(burns),
        "keras" => through!(keras),
        "tensorflow" => through!(tensorflow),
        "onednn" => through!(onednn),
        "cudnn" => through!(cudnn),
        "mps_graph" => {
            let (dict, descriptor) = mps_graph::export(block, prefix)?;
            let import: Import = Box::new(move |dict, change| {
                let config = change(mps_graph::config(dict, prefix, &descriptor)?);
                mps_graph::import(dict, prefix, &descriptor, &config, &device())
            });
            Ok((dict, import))
        }
        "onnx" => {
            let (dict, attributes) = onnx::export(block, prefix)?;
            let import: Import = Box::new(move |dict, change| {
                let config = change(onnx::config(dict, prefix, &attributes)?);
                onnx::import(dict, prefix, &config, &device())
            });
            Ok((dict, import))
        }
        other => panic!("expected a system, got {other}"),
    }
}

fn same(got: &GruWeights, expected: &GruWeights) -> Result<(), String> {
    fn check<const D: usize>(
        name: &str,
        got: &Option<Tensor<D>>,
        expected: &Option<Tensor<D>>,
    ) -> Result<(), String> {
        let data = |tensor: &Option<Tensor<D>>| tensor.clone().map(Tensor::into_data);
        let (got, expected) = (data(got), data(expected));
        if got == expected {
            Ok(())
        } else {
            Err(format!("{name}: expected {expected:?}, got {got:?}"))
        }
    }
    check("w_ih", &got.w_ih, &expected.w_ih)?;
    check(
        "w_hh",
        &Some(got.w_hh.clone()),
        &Some(expected.w_hh.clone()),
    )?;
    check("b_ih", &got.b_ih, &expected.b_ih)?;
    check("b_hh", &got.b_hh, &expected.b_hh)
}

/// The output of a block over a batch-first sequence.
fn output(block: &GruBlock, x: &Tensor<3>) -> Tensor<3> {
    let mut block = block.clone();
    block.batch_first = true;
    block.forward(x.clone(), None).0
}

/// Two blocks give equal results up to rounding, because one bias was added to another.
fn alike(name: &str, got: &GruBlock, expected: &GruBlock) -> Result<(), String> {
    let x = random([2, 4, expected.d_input]);
    let (got, expected) = (output(got, &x), output(expected, &x));
    close(
        name,
        &values(got),
        &values(expected),
        Tolerance::F32.forward,
    )
}
