//! Export and import of weights, and every error of the converters.

mod errors;
mod layouts;
mod round_trips;

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use gru_convert::{
    ConvertError, StateDict, cudnn, keras, mps_graph, onednn, onnx, pytorch, tensorflow,
};
use gru_op::{
    Activation, Activations, Direction, GruBlock, GruBlockConfig, GruError, GruWeights, Reset,
    Update,
    mps_graph::{GruDescriptor, HARD_SIGMOID},
};
use gru_testkit::close::{Tolerance, close};
use libtest_mimic::Trial;

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

/// Which biases a layer has.
#[derive(Clone, Copy)]
enum Biases {
    None,
    Input,
    Both,
    /// The input bias, and the candidate's recurrent bias.
    Candidate,
}

fn weights(i: usize, biases: Biases) -> GruWeights {
    GruWeights::new(random([i, 3 * H]), random([H, 3 * H]))
        .with_b_ih(match biases {
            Biases::None => None,
            _ => Some(random([3 * H])),
        })
        .with_b_hh(match biases {
            Biases::None | Biases::Input => None,
            Biases::Both => Some(random([3 * H])),
            Biases::Candidate => {
                let of_gates = Tensor::zeros([2 * H], &device());
                Some(Tensor::cat(vec![of_gates, random([H])], 0))
            }
        })
}

fn config() -> GruBlockConfig {
    GruBlockConfig::new(I, H)
}

fn block(config: GruBlockConfig) -> GruBlock {
    block_with(&config, Biases::Both)
}

fn block_with(config: &GruBlockConfig, biases: Biases) -> GruBlock {
    let weights = (0..config.layer_count()).map(|k| weights(config.layer_inputs(k), biases));
    let block = config.init_with(weights.collect());
    block.expect("the weights have the shapes of the configuration")
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
