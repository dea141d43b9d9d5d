//! RNNoise's network: a dense layer, three GRUs, a dense layer.
//!
//! ```text
//! d = tanh(features)              24
//! v = GRU(d)                      24
//! n = GRU(d, v, features)         48
//! g = GRU(v, n, features)         96     gains = σ(g)
//! ```

use std::sync::Arc;

use gru_cpu::spec::{Activation, Activations, GruSpec, Precision, Reset, Update};
use gru_cpu::{Stack, StackLayer, StackStream, Weights};

/// The number of bands. Each has a gain.
pub const BANDS: usize = 22;
/// Outputs of the input layer.
const INPUT: usize = 24;

/// RNNoise's weights, by Jean-Marc Valin and others (`weights/COPYING`), in the format of nnnoiseless: consecutive layers
/// in bytes.
///
/// ```text
/// dense: I, O, activation; weight [I,O]; bias [O]
/// GRU:   I, H, activation; input weight [I,3H]; recurrent weight [H,3H]; bias [3H]
/// ```
///
/// Weights and biases are signed bytes in units of 1/256. The activations are known, so they are skipped.
pub const WEIGHTS: &[u8] = include_bytes!("../weights/weights.rnn");

/// The weights, ready to run and shared by all channels.
pub struct Model {
    input: Dense,
    grus: [Arc<Stack>; 3],
    gains: Dense,
}

impl Model {
    /// The published model, with the weights of the GRUs in a precision.
    pub fn new(precision: Precision) -> Self {
        let mut bytes = WEIGHTS;
        Self {
            input: Dense::read(&mut bytes),
            grus: [(); 3].map(|()| Arc::new(gru(&mut bytes, precision))),
            gains: Dense::read(&mut bytes),
        }
    }

    /// The bytes of the GRUs' weights.
    pub fn bytes(&self) -> usize {
        self.grus.iter().map(|gru| gru.bytes()).sum()
    }
}

/// The numbers of inputs and units of the next layer.
fn sizes(bytes: &mut &[u8]) -> [usize; 2] {
    let [inputs, units, _] = *bytes.split_off(..3).expect("a layer") else {
        unreachable!("there are three bytes");
    };
    [inputs.into(), units.into()]
}

fn numbers(bytes: &mut &[u8], count: usize) -> Vec<f32> {
    let numbers = bytes.split_off(..count).expect("a layer has its numbers");
    let number = |byte: &u8| f32::from(byte.cast_signed()) / 256.0;
    numbers.iter().map(number).collect()
}

/// The next layer. RNNoise resets before the product, its update gate keeps the previous state, and its candidate is a
/// ReLU.
fn gru(bytes: &mut &[u8], precision: Precision) -> Stack {
    let [inputs, units] = sizes(bytes);
    let mut rows = |rows: usize| {
        let mut numbers = numbers(bytes, rows * 3 * units);
        for row in numbers.chunks_exact_mut(3 * units) {
            row[..2 * units].rotate_left(units); // z | r | n becomes r | z | n
        }
        numbers
    };
    let (w_ih, w_hh, bias) = (rows(inputs), rows(units), rows(1));
    let layer = StackLayer {
        spec: GruSpec::default()
            .with_reset(Reset::BeforeMatmul)
            .with_update(Update::Keeps)
            .with_activations(Activations {
                candidate: Activation::Relu,
                ..Activations::default()
            }),
        ..StackLayer::new(Weights {
            b_ih: Some(&bias),
            ..Weights::new(Some(&w_ih), &w_hh)
        })
    };
    Stack::new(precision, [inputs, units], 1, &[layer])
}

/// `x·weight + bias`.
struct Dense {
    /// `[I,O]`.
    weight: Vec<f32>,
    /// `[O]`.
    bias: Vec<f32>,
}

impl Dense {
    fn read(bytes: &mut &[u8]) -> Self {
        let [inputs, units] = sizes(bytes);
        Self {
            weight: numbers(bytes, inputs * units),
            bias: numbers(bytes, units),
        }
    }

    fn apply(&self, x: &[f32], y: &mut [f32], activation: fn(f32) -> f32) {
        y.copy_from_slice(&self.bias);
        for (x, row) in x.iter().zip(self.weight.chunks_exact(y.len())) {
            for (y, w) in y.iter_mut().zip(row) {
                *y += x * w;
            }
        }
        y.iter_mut().for_each(|y| *y = activation(*y));
    }
}

/// The states of one channel. A frame allocates nothing.
pub struct Network<'a> {
    model: &'a Model,
    grus: [StackStream; 3],
    /// The input of a GRU.
    x: Vec<f32>,
}

impl<'a> Network<'a> {
    /// A network with zero states.
    pub fn new(model: &'a Model) -> Self {
        Self {
            model,
            grus: [0, 1, 2].map(|k| StackStream::new(model.grus[k].clone(), 1)),
            x: Vec::with_capacity(256),
        }
    }

    /// The gains of a frame's bands from its 42 features.
    pub fn frame(&mut self, features: &[f32]) -> [f32; BANDS] {
        let [voice, noise, gain] = &mut self.grus;
        let (mut d, mut gains) = ([0.0; INPUT], [0.0; BANDS]);
        self.model.input.apply(features, &mut d, f32::tanh);
        let v = voice.step(&d);
        let n = noise.step(join(&mut self.x, [&d, v, features]));
        let g = gain.step(join(&mut self.x, [v, n, features]));
        let sigmoid = |y: f32| 1.0 / (1.0 + (-y).exp());
        self.model.gains.apply(g, &mut gains, sigmoid);
        gains
    }
}

fn join<'a>(to: &'a mut Vec<f32>, parts: [&[f32]; 3]) -> &'a [f32] {
    to.clear();
    parts.iter().for_each(|part| to.extend_from_slice(part));
    to
}
