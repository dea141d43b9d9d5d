//! `GruBlock` and `burn::nn::gru::Gru` on a problem.

use burn::{
    module::Param,
    nn::gru::Gru,
    tensor::{Bool, DType, Device, Gradients, Tensor, TensorData},
};
use gru_op::{
    GruBlock, GruBlockConfig, GruWeights, Precision, PreparedGru, SequenceOptions, pack, unpack,
};

use crate::{
    burn_gru::{BurnLayer, burn_layer, each_step},
    problem::{Kind, Problem, Shape},
};

/// Tensors by name, in the order of [`crate::peer`].
pub type Outputs = Vec<(String, Vec<f32>)>;

/// What computes a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `GruBlock`.
    Block,
    /// `GruBlock::prepare`, for inference.
    Prepared(Precision),
    /// Burn's `Gru` or `BiGru`.
    Burn,
}

enum Layers {
    Block(GruBlock),
    Prepared(Box<PreparedGru>),
    /// A layer each.
    Burn(Vec<BurnLayer>),
}

/// A layer with its inputs on a device.
pub struct Layer {
    layers: Layers,
    shape: &'static Shape,
    lengths: Option<Vec<usize>>,
    starts: Option<Tensor<2, Bool>>,
    x: Tensor<3>,
    h0: Tensor<3>,
    upstream: Tensor<3>,
    is_packed: bool,
    trains: bool,
}

/// The results of a call.
pub struct Results {
    y: Tensor<3>,
    /// None if the final states are those after the padding.
    state: Option<Tensor<3>>,
    gradients: Option<AllGradients>,
}

/// Gradients of x, the initial state, and the parameters of each direction of each layer: one entry with all gates, or an
/// entry for each of r, z, n.
struct AllGradients {
    inputs: [Tensor<3>; 2],
    parameters: Vec<Vec<([Tensor<2>; 2], [Tensor<1>; 2])>>,
}

impl Layer {
    /// A program, with a backward pass or without, with numbers of type `dtype`. It is float32 for Burn's layers.
    pub fn new(
        problem: &Problem,
        program: Program,
        trains: bool,
        device: &Device,
        dtype: DType,
    ) -> Self {
        let mut device = device.clone();
        if trains {
            device = device.autodiff();
        }
        let shape = problem.shape;
        let [n, t, i, h, layers, directions] = shape.sizes;
        let tensor = |floats: &[f32], dims: [usize; 3]| {
            Tensor::<3>::from_data(TensorData::new(floats.to_vec(), dims), &device).cast(dtype)
        };
        let mut x = tensor(&problem.x, [n, t, i]);
        let mut upstream = tensor(&problem.upstream, [n, t, directions * h]);
        let lengths = problem.lengths();
        let is_packed = shape.kind == Kind::Packed && program == Program::Block;
        if let Some(lengths) = lengths.as_ref().filter(|_| is_packed) {
            x = pack(x, lengths).unsqueeze();
            upstream = pack(upstream, lengths).unsqueeze();
        }
        let starts = matches!(shape.kind, Kind::Starts(_) | Kind::Documents).then(|| {
            let flags: Vec<bool> = problem.marks.iter().map(|&mark| mark == 1).collect();
            Tensor::from_data(TensorData::new(flags, [n, t]), &device)
        });
        let weights: Vec<GruWeights> = problem
            .weights
            .iter()
            .map(|[w_ih, w_hh, b_ih, b_hh]| {
                let weight = |floats: &[f32]| {
                    let inputs = floats.len() / (3 * h);
                    let columns = (0..floats.len())
                        .map(|k| floats[k % (3 * h) * inputs + k / (3 * h)])
                        .collect();
                    let data = TensorData::new::<f32, _>(columns, [inputs, 3 * h]);
                    Tensor::<2>::from_data(data, &device).cast(dtype)
                };
                let bias = |floats: &[f32]| Tensor::<1>::from_floats(floats, &device).cast(dtype);
                GruWeights::new(weight(w_ih), weight(w_hh))
                    .with_b_ih(bias(b_ih))
                    .with_b_hh(bias(b_hh))
            })
            .collect();
        let layers_and_directions = layers * directions;
        let layers = if program == Program::Burn {
            let layers = weights.chunks(directions);
            Layers::Burn(layers.map(|of| burn_layer(of, &device)).collect())
        } else {
            let block = GruBlockConfig::new(i, h)
                .with_num_layers(layers)
                .with_bidirectional(directions == 2)
                .init_with(weights);
            let block = block.expect("the shapes match the configuration");
            if let Program::Prepared(precision) = program {
                Layers::Prepared(Box::new(block.prepare(precision)))
            } else {
                Layers::Block(block)
            }
        };
        Self {
            layers,
            shape,
            lengths,
            starts,
            x,
            h0: tensor(&problem.h0, [layers_and_directions, n, h]),
            upstream,
            is_packed,
            trains,
        }
    }

    /// What a reader of the times must know.
    pub fn note(&self) -> &'static str {
        match (&self.layers, self.shape.kind) {
            (Layers::Block(_) | Layers::Prepared(_), _) | (_, Kind::Dense) => "",
            (_, Kind::Starts(_) | Kind::Documents) => "a call per step",
            (_, Kind::Lengths(_) | Kind::Packed) => "dense and padded",
        }
    }

    /// One call. Gradients are taken one by one, as an optimizer does. [`Gradients`] would free them in random order, and
    /// fusion would not find the operations of an earlier call again.
    pub fn call(&self) -> Results {
        let (mut x, mut h0) = (self.x.clone(), self.h0.clone());
        if self.trains {
            (x, h0) = (x.require_grad(), h0.require_grad());
        }
        let inputs = [x.clone(), h0.clone()];
        let (y, state) = match &self.layers {
            Layers::Block(block) => self.gru_op(
                (x, h0),
                |x, options| block.forward_with(x, options),
                |x, lengths, h0| block.forward_packed(x, lengths, h0),
            ),
            Layers::Prepared(gru) => self.gru_op(
                (x, h0),
                |x, options| gru.forward_with(x, options),
                |x, lengths, h0| gru.forward_packed(x, lengths, h0),
            ),
            Layers::Burn(layers) => self.burn(layers, x, h0),
        };
        let gradients = self.trains.then(|| {
            let mut all = (y.clone() * self.upstream.clone()).sum().backward();
            self.take(inputs, &mut all)
        });
        Results {
            y,
            state,
            gradients,
        }
    }

    fn take(&self, inputs: [Tensor<3>; 2], from: &mut Gradients) -> AllGradients {
        let inputs = inputs.map(|input| {
            let gradient = input.grad_remove(from);
            gradient.unwrap_or_else(|| input.inner().zeros_like())
        });
        let gates = self.parameters().into_iter().map(|gates| {
            let gate = |Gate { weights, biases }: Gate<'_>| {
                const GRADIENT: &str = "a parameter has a gradient";
                let weights = weights.map(|w| w.val().grad_remove(from).expect(GRADIENT));
                let biases = biases.map(|b| b.val().grad_remove(from).expect(GRADIENT));
                (weights, biases)
            };
            gates.into_iter().map(gate).collect()
        });
        AllGradients {
            parameters: gates.collect(),
            inputs,
        }
    }

    fn gru_op(
        &self,
        (x, h0): (Tensor<3>, Tensor<3>),
        sequence: impl Fn(Tensor<3>, SequenceOptions<3>) -> (Tensor<3>, Tensor<3>),
        packed: impl Fn(Tensor<2>, &[usize], Option<Tensor<3>>) -> (Tensor<2>, Tensor<3>),
    ) -> (Tensor<3>, Option<Tensor<3>>) {
        let (y, state) = match &self.lengths {
            Some(lengths) if self.is_packed => {
                let (y, state) = packed(x.squeeze_dim(0), lengths, Some(h0));
                (y.unsqueeze(), state)
            }
            _ => sequence(x, self.options(h0)),
        };
        (y, Some(state))
    }

    fn options(&self, h0: Tensor<3>) -> SequenceOptions<3> {
        let options = SequenceOptions::new().state(h0);
        match &self.lengths {
            Some(lengths) => options.lengths(lengths),
            None => options.starts(self.starts.clone()),
        }
    }

    fn burn(
        &self,
        layers: &[BurnLayer],
        mut x: Tensor<3>,
        h0: Tensor<3>,
    ) -> (Tensor<3>, Option<Tensor<3>>) {
        let mut states = Vec::with_capacity(layers.len());
        for (l, layer) in layers.iter().enumerate() {
            let (y, state) = match (layer, &self.starts) {
                (BurnLayer::Both(gru), _) => gru.forward(x, Some(h0.clone().narrow(0, 2 * l, 2))),
                (BurnLayer::One(gru), starts) => {
                    let state = h0.clone().narrow(0, l, 1);
                    let y = match starts {
                        None => gru.forward(x, Some(state.squeeze_dim(0))),
                        Some(starts) => each_step(gru, x, state.squeeze_dim(0), starts),
                    };
                    let last = y.clone().narrow(1, y.dims()[1] - 1, 1);
                    (y, last.swap_dims(0, 1))
                }
            };
            states.push(state);
            x = y;
        }
        let state = self.lengths.is_none().then(|| Tensor::cat(states, 0));
        (x, state)
    }

    /// The numbers of a call, padded, with weights in PyTorch's layout.
    pub fn outputs(&self, results: &Results) -> Outputs {
        let padded = |x: &Tensor<3>| match &self.lengths {
            Some(lengths) if self.is_packed => unpack(x.clone().squeeze_dim(0), lengths),
            _ => x.clone(),
        };
        let y = padded(&results.y);
        let state = results.state.clone().unwrap_or_else(|| {
            // Burn's own final state comes after the padding.
            let lengths = self.lengths.iter().flatten().enumerate();
            let last = |(row, &length)| y.clone().slice([row..row + 1, length - 1..length]);
            Tensor::cat(lengths.map(last).collect(), 1)
        });
        let mut outputs = vec![
            ("y".to_owned(), floats(y)),
            ("h_n".to_owned(), floats(state)),
        ];
        let Some(gradients) = &results.gradients else {
            return outputs;
        };
        let [d_x, d_h0] = &gradients.inputs;
        outputs.push(("d_x".into(), floats(padded(d_x))));
        outputs.push(("d_h0".into(), floats(d_h0.clone())));
        for (k, gates) in gradients.parameters.iter().enumerate() {
            for (at, side) in ["ih", "hh"].into_iter().enumerate() {
                let weights = gates.iter();
                let weights = weights.flat_map(|(w, _)| floats(w[at].clone().transpose()));
                outputs.push((format!("d_w_{side}.{k}"), weights.collect()));
                let biases = gates.iter().flat_map(|(_, b)| floats(b[at].clone()));
                outputs.push((format!("d_b_{side}.{k}"), biases.collect()));
            }
        }
        outputs
    }

    /// The parameters, as in [`AllGradients`].
    fn parameters(&self) -> Vec<Vec<Gate<'_>>> {
        const BIAS: &str = "the layer has biases";
        fn gates(gru: &Gru) -> Vec<Gate<'_>> {
            let gates = [&gru.reset_gate, &gru.update_gate, &gru.new_gate];
            let parameters = gates.map(|gate| {
                let (input, hidden) = (&gate.input_transform, &gate.hidden_transform);
                let biases = [input, hidden].map(|linear| linear.bias.as_ref().expect(BIAS));
                let weights = [&input.weight, &hidden.weight];
                Gate { weights, biases }
            });
            parameters.into()
        }
        match &self.layers {
            Layers::Block(block) => {
                let layers = block.layers.iter().map(|layer| {
                    let biases = [&layer.b_ih, &layer.b_hh].map(|b| b.as_ref().expect(BIAS));
                    let weights = [&layer.w_ih, &layer.w_hh];
                    vec![Gate { weights, biases }]
                });
                layers.collect()
            }
            Layers::Prepared(_) => Vec::new(),
            Layers::Burn(layers) => {
                let layers = layers.iter().flat_map(|layer| match layer {
                    BurnLayer::One(gru) => vec![gates(gru)],
                    BurnLayer::Both(gru) => vec![gates(&gru.forward), gates(&gru.reverse)],
                });
                layers.collect()
            }
        }
    }
}

/// Of the input and of the state.
struct Gate<'a> {
    weights: [&'a Param<Tensor<2>>; 2],
    biases: [&'a Param<Tensor<1>>; 2],
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.into_data().convert::<f32>();
    data.try_into_vec().expect("the tensor is float32")
}
