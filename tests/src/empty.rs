//! Empty batches through the functions that the case matrix does not call: blocks, packed rows, other systems'
//! operators. Shapes are as for any other call, the state passes through, and every parameter has a gradient of zeros.

use super::{
    backends::TestBackend,
    conformance::mps_graph::arguments::Arguments,
    runs::{expect, expect_shape, random, values},
};
use burn::tensor::{Bool, DType, Device, Gradients, Tensor};
use gru_op::{
    GruBlock, GruBlockConfig, GruSpec, GruWeights, Layout, Precision, SequenceOptions, Update,
    composed, gru_gates, gru_packed, gru_sequence_with, mps_graph::GruDescriptor, tensorflow,
};
use libtest_mimic::Trial;

const I: usize = 3;
const H: usize = 4;

/// N and T.
const SIZES: [(usize, usize); 3] = [(0, 3), (2, 0), (0, 0)];

type Test = fn(&Device) -> Result<(), String>;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("block-step", step),
        ("packed", packed),
        ("tensorflow", block_cell),
        ("mps-graph", mps_graph),
    ];
    let mut trials = Vec::new();
    for backend in backends {
        let id = |name: &str| format!("empty/{name}/{}", backend.name);
        if !backend.samples_modes() {
            trials.push(backend.trial(id("no-rows-of-many-steps"), no_rows_of_many_steps));
        }
        for (n, t) in SIZES {
            for layout in [Layout::BatchMajor, Layout::TimeMajor] {
                let name = format!("blocks-N{n}-T{t}-{layout:?}").to_lowercase();
                trials.push(backend.trial(id(&name), move |device| {
                    let device = device.clone().autodiff();
                    blocks(&Batch {
                        n,
                        t,
                        layout,
                        device,
                    })
                }));
            }
        }
        for (name, test) in tests {
            trials.push(backend.trial(id(name), move |device| test(&device.clone().autodiff())));
        }
    }
    trials
}

struct Batch {
    n: usize,
    t: usize,
    layout: Layout,
    device: Device,
}

impl Batch {
    fn shape(&self, features: usize) -> [usize; 3] {
        let [first, second] = self.layout.split([self.n, self.t]);
        [first, second, features]
    }

    fn x(&self) -> Tensor<3> {
        Tensor::empty(self.shape(I), (&self.device, DType::F32)).require_grad()
    }

    fn flags(&self) -> Tensor<2, Bool> {
        let [first, second, _] = self.shape(1);
        Tensor::empty([first, second], &self.device)
    }
}

fn leaf<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    random("leaf", shape, device).require_grad()
}

fn weights(device: &Device) -> GruWeights {
    GruWeights::new(leaf([I, 3 * H], device), leaf([H, 3 * H], device))
        .with_b_ih(leaf([3 * H], device))
        .with_b_hh(leaf([3 * H], device))
}

/// A gradient exists, has the shape of its tensor, and is `value` everywhere.
fn expect_gradient<const D: usize>(
    name: &str,
    leaf: &Tensor<D>,
    gradients: &Gradients,
    value: f64,
) -> Result<(), String> {
    let gradient = super::runs::gradient(name, leaf, gradients)?;
    let expected = vec![value; gradient.len()];
    expect(&format!("gradient of {name}"), gradient, expected)
}

/// Every parameter of a block has a gradient of zeros.
fn expect_zero_gradients(block: &GruBlock, gradients: &Gradients) -> Result<(), String> {
    for layer in &block.layers {
        for weight in [&layer.w_ih, &layer.w_hh] {
            expect_gradient("a weight", &weight.val(), gradients, 0.0)?;
        }
        for bias in [&layer.b_ih, &layer.b_hh].into_iter().flatten() {
            expect_gradient("a bias", &bias.val(), gradients, 0.0)?;
        }
    }
    Ok(())
}

/// One layer, and two bidirectional layers, without noise and with every kind of noise, with every option.
fn blocks(batch: &Batch) -> Result<(), String> {
    let config = GruBlockConfig::new(I, H).with_batch_first(batch.layout == Layout::BatchMajor);
    let deep = config.clone().with_num_layers(2).with_bidirectional(true);
    let noisy = deep.clone().with_dropout(0.5).with_recurrent_dropout(0.25);
    let noisy = noisy.with_zoneout(0.125);
    let options = SequenceOptions::<3>::new;
    for block in [config, deep, noisy].map(|config| config.init(&batch.device)) {
        let start_state = leaf([block.layers.len(), 1, H], &batch.device);
        for options in [
            options(),
            options().lengths(&vec![0; batch.n]),
            options().mask(batch.flags()),
            options()
                .starts(batch.flags())
                .start_state(start_state.clone()),
        ] {
            run(batch, &block, &options)?;
        }
        let plain = batch.flags().to_device(&batch.device.clone().inner());
        let options = options().starts(plain).start_state(start_state.inner());
        let prepared = block.prepare(Precision::Full);
        let (y, last) = prepared.forward_with(batch.x().inner(), options);
        expect_shape("y", &y, batch.shape(H * block.directions()))?;
        expect_shape("the final state", &last, [block.layers.len(), batch.n, H])?;
        for gates in block.gates(batch.x(), SequenceOptions::new()) {
            expect_shape("states", &gates.states, batch.shape(H))?;
            expect_shape("update", &gates.update, batch.shape(H))?;
        }
    }
    let gates = gru_gates(
        batch.x(),
        &weights(&batch.device),
        &GruSpec::default(),
        SequenceOptions::new().layout(batch.layout),
    );
    expect_shape("reset", &gates.reset, batch.shape(H))
}

/// Runs backward once through each output. A sum of both outputs does not work on wgpu: Burn 0.22.1 may fuse operations
/// on empty and non-empty tensors, and then the latter are wrong. For example, the gradient of `s` in `nothing.sum() +
/// (s * 1.0).sum()` is wrong without any operation of gru-op.
fn run(batch: &Batch, block: &GruBlock, options: &SequenceOptions<3>) -> Result<(), String> {
    let entries = block.layers.len();
    for (with_state, of_y) in [(true, true), (true, false), (false, true), (false, false)] {
        let x = batch.x();
        let state = with_state.then(|| leaf([entries, batch.n, H], &batch.device));
        let options = options.clone().state(state.clone());
        let (y, last) = block.forward_with(x.clone(), options);
        expect_shape("y", &y, batch.shape(H * block.directions()))?;
        expect_shape("the final state", &last, [entries, batch.n, H])?;
        let loss = if of_y { y.sum() } else { last.clone().sum() };
        if !loss.is_tracked() {
            return Err(format!(
                "expected tracked outputs, got state {with_state}, y {of_y}"
            ));
        }
        let gradients = loss.backward();
        expect_zero_gradients(block, &gradients)?;
        if of_y {
            expect_gradient("x", &x, &gradients, 0.0)?;
        }
        let expected = match state {
            Some(state) => {
                if !of_y {
                    expect_gradient("state", &state, &gradients, 1.0)?;
                }
                values(state)
            }
            None => vec![0.0; entries * batch.n * H],
        };
        expect("the final state", values(last), expected)?;
    }
    Ok(())
}

/// No memory and no time for each step.
fn no_rows_of_many_steps(device: &Device) -> Result<(), String> {
    for (layout, shape) in [
        (Layout::BatchMajor, [0, 1 << 50, I]),
        (Layout::TimeMajor, [1 << 50, 0, I]),
    ] {
        for lengths in [None, Some(&[][..])] {
            for op in [gru_sequence_with, composed::gru_sequence_with] {
                let device = device.clone().autodiff();
                let x = Tensor::<3>::zeros(shape, &device).require_grad();
                let (weights, spec) = (weights(&device), GruSpec::default());
                let options = SequenceOptions::new().layout(layout);
                let options = match lengths {
                    Some(lengths) => options.lengths(lengths),
                    None => options,
                };
                let (y, last) = op(x, &weights, &spec, options);
                expect_shape("y", &y, [shape[0], shape[1], H])?;
                expect_shape("the final state", &last, [0, H])?;
                // Burn's graph of the composed operations has no step.
                if y.is_tracked() {
                    y.sum().backward();
                }
            }
        }
    }
    Ok(())
}

fn step(device: &Device) -> Result<(), String> {
    let config = GruBlockConfig::new(I, H).with_num_layers(2);
    for block in [config.clone(), config.with_zoneout(0.5)].map(|c| c.init(device)) {
        for state in [None, Some(leaf([2, 0, H], device))] {
            let (y, state) = block.step(leaf([0, I], device), state);
            expect_shape("y", &y, [0, H])?;
            expect_shape("the new state", &state, [2, 0, H])?;
            let gradients = (y.sum() + state.sum()).backward();
            expect_zero_gradients(&block, &gradients)?;
        }
    }
    Ok(())
}

/// Packed batches without steps, with and without rows.
fn packed(device: &Device) -> Result<(), String> {
    for n in [0, 2] {
        let lengths = vec![0; n];
        let (h0, weights) = (leaf([n, H], device), weights(device));
        let options = SequenceOptions::new().state(h0.clone());
        let x = leaf([0, I], device);
        let (y, last) = gru_packed(x, &lengths, &weights, &GruSpec::default(), options);
        expect_shape("y", &y, [0, H])?;
        expect_shape("the final state", &last, [n, H])?;
        let gradients = last.sum().backward();
        expect_gradient("w_hh", &weights.w_hh, &gradients, 0.0)?;
        expect_gradient("h0", &h0, &gradients, 1.0)?;
        let config = GruBlockConfig::new(I, H).with_bidirectional(true);
        let block = config.init(device);
        let (y, last) = block.forward_packed(leaf([0, I], device), &lengths, None);
        expect_shape("y of the block", &y, [0, 2 * H])?;
        expect_zero_gradients(&block, &last.sum().backward())?;
    }
    Ok(())
}

/// TensorFlow's operators without rows.
fn block_cell(device: &Device) -> Result<(), String> {
    let (x, h) = (|| leaf([0, I], device), || leaf([0, H], device));
    let (w_ru, w_c) = (leaf([I + H, 2 * H], device), leaf([I + H, H], device));
    let (b_ru, b_c) = (leaf([2 * H], device), leaf([H], device));
    let weights = || (w_ru.clone(), w_c.clone(), b_ru.clone(), b_c.clone());
    let (w, c, b, d) = weights();
    let tracked = tensorflow::gru_block_cell(x(), h(), w, c, b, d);
    let (w, c, b, d) = weights();
    let (w, c, b, d) = (w.inner(), c.inner(), b.inner(), d.inner());
    let plain = tensorflow::gru_block_cell(x().inner(), h().inner(), w, c, b, d);
    for (r, u, c, new) in [tracked, plain] {
        for (name, gate) in [("r", r), ("u", u), ("c", c), ("h", new)] {
            expect_shape(name, &gate, [0, H])?;
        }
    }
    let (w, c, b, d) = weights();
    let (d_x, d_h, d_c, d_ru) =
        tensorflow::gru_block_cell_grad(x(), h(), w, c, b, d, h(), h(), h(), h());
    expect_shape("d_x", &d_x, [0, I])?;
    expect_shape("d_h_prev", &d_h, [0, H])?;
    let d = tensorflow::gru_block_cell_weight_grad(x(), h(), h(), d_c, d_ru);
    let (d_w_ru, d_b_ru) = (values(d.d_w_ru), values(d.d_b_ru));
    if d_w_ru.iter().chain(&d_b_ru).any(|&d| d != 0.0) {
        return Err("expected gradients of zeros".into());
    }
    Ok(())
}

/// Apple's operators without rows.
fn mps_graph(device: &Device) -> Result<(), String> {
    let mut descriptor = GruDescriptor::new(Update::Keeps);
    (descriptor.training, descriptor.reset_after) = (true, true);
    let source = leaf([3, 0, 3 * H], device);
    let arguments = Arguments::new(source, leaf::<2>([3 * H, H], device));
    let results = arguments.gru(&descriptor);
    let [y, z] = [results[0].clone(), results[1].clone()];
    let d_state = Some(leaf([0, H], device));
    let d = arguments.gradients(y.clone(), z, y, d_state, &descriptor);
    expect_shape("the gradient of the source", &d.source, [3, 0, 3 * H])
}
