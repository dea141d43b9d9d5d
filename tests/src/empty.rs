//! N = 0 or T = 0, or both, through every function: an empty batch is valid. Shapes are as for any other
//! call, the state passes through, and every parameter has a gradient of zeros.

mod block;
mod foreign;

use super::{
    backends::TestBackend,
    runs::{expect_shape, values},
};
use burn::tensor::{DType, Device, Gradients, Tensor};
use gru_op::{
    Checkpointing, GruBlockConfig, GruSpec, GruWeights, Layout, Reset, SequenceOptions, composed,
    gru_cell, gru_gates, gru_packed, gru_sequence_with,
};
use libtest_mimic::Trial;

const I: usize = 3;
const H: usize = 4;

/// N and T.
const SIZES: [(usize, usize); 3] = [(0, 3), (2, 0), (0, 0)];

type Test = fn(Call) -> Result<(), String>;
type StepTest = fn(&Device) -> Result<(), String>;

const TESTS: &[(&str, Test)] = &[
    ("sequence", sequence),
    ("composed", composed_sequence),
    ("lengths", lengths),
    ("mask-of-steps", mask_of_steps),
    ("zoneout", zoneout),
    ("starts", starts),
    ("gates", gates),
    ("block", block::forward),
    ("block-lengths", block::lengths),
    ("block-masked", block::masked),
    ("block-starts", block::starts),
    ("block-gates", block::gates),
];

/// The tests with one step and no rows, and others.
const STEP_TESTS: &[(&str, StepTest)] = &[
    ("cell", cell),
    ("block-step", block::step),
    ("packed", packed),
    ("foreign", foreign::no_rows),
    ("no-units", no_units),
];

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in backends.iter().filter(|backend| !backend.samples_modes()) {
        let id = format!("empty/no-rows-of-many-steps/{}", backend.name);
        trials.push(backend.trial(id, no_rows_of_many_steps));
    }
    for backend in backends {
        for &(name, test) in TESTS {
            for (n, t) in SIZES {
                for (layout, order) in [(Layout::BatchMajor, "NT"), (Layout::TimeMajor, "TN")] {
                    let id = format!("empty/{name}/N{n}-T{t}-{order}/{}", backend.name);
                    trials.push(backend.trial(id, move |device| {
                        let device = device.clone().autodiff();
                        test(Call {
                            n,
                            t,
                            layout,
                            device,
                        })
                    }));
                }
            }
        }
        for &(name, test) in STEP_TESTS {
            let id = format!("empty/{name}/{}", backend.name);
            trials.push(backend.trial(id, move |device| test(&device.clone().autodiff())));
        }
    }
    trials
}

#[derive(Debug, Clone)]
struct Call {
    n: usize,
    t: usize,
    layout: Layout,
    device: Device,
}

impl Call {
    fn shape(&self, features: usize) -> [usize; 3] {
        let [first, second] = self.layout.split([self.n, self.t]);
        [first, second, features]
    }

    fn x(&self) -> Tensor<3> {
        Tensor::empty(self.shape(I), (&self.device, DType::F32)).require_grad()
    }

    fn mask(&self) -> Tensor<2, burn::tensor::Bool> {
        let [first, second, _] = self.shape(1);
        Tensor::empty([first, second], &self.device)
    }

    fn specs(&self) -> impl Iterator<Item = (GruSpec, SequenceOptions<2>)> {
        let layout = self.layout;
        let all = [Checkpointing::KeepGates, Checkpointing::Recompute];
        [Reset::AfterMatmul, Reset::BeforeMatmul]
            .into_iter()
            .flat_map(move |reset| all.map(|checkpointing| (reset, checkpointing)))
            .map(move |(reset, checkpointing)| {
                let options = SequenceOptions::new().layout(layout);
                let options = options.checkpointing(checkpointing);
                (GruSpec::default().with_reset(reset), options)
            })
    }
}

/// `[1, 2, …]` in a shape, as a leaf.
fn counted<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let values = (1..=shape.iter().product())
        .map(|v| v as f64)
        .collect::<Vec<_>>();
    super::runs::tensor(&values, shape, device, DType::F32).require_grad()
}

fn weights(device: &Device) -> GruWeights {
    GruWeights::new(counted([I, 3 * H], device), counted([H, 3 * H], device))
        .with_b_ih(counted([3 * H], device))
        .with_b_hh(counted([3 * H], device))
}

/// A gradient exists, has the shape of its tensor, and is `value` everywhere.
fn expect_gradient<const D: usize>(
    name: &str,
    leaf: &Tensor<D>,
    gradients: &Gradients,
    value: f64,
) -> Result<(), String> {
    let gradient = super::runs::gradient(name, leaf, gradients)?;
    if gradient.iter().all(|&g| g == value) {
        Ok(())
    } else {
        Err(format!(
            "gradient of {name}: expected {value}, got {gradient:?}"
        ))
    }
}

fn expect_zero_gradients(weights: &GruWeights, gradients: &Gradients) -> Result<(), String> {
    let w_ih = weights.w_ih.as_ref().expect("the call has one");
    expect_gradient("w_ih", w_ih, gradients, 0.0)?;
    expect_gradient("w_hh", &weights.w_hh, gradients, 0.0)?;
    for (name, bias) in [("b_ih", &weights.b_ih), ("b_hh", &weights.b_hh)] {
        expect_gradient(
            name,
            bias.as_ref().expect("the call has one"),
            gradients,
            0.0,
        )?;
    }
    Ok(())
}

/// Runs backward once through each output. A sum of both outputs does not work on wgpu: Burn 0.22.1 may
/// fuse operations on empty and non-empty tensors, and then the latter are wrong. For example, the
/// gradient of `s` in `nothing.sum() + (s * 1.0).sum()` is wrong without any operation of gru-op.
fn run(
    call: &Call,
    spec: &GruSpec,
    op: impl Fn(Tensor<3>, Option<Tensor<2>>, &GruWeights) -> (Tensor<3>, Tensor<2>),
) -> Result<(), String> {
    for (with_state, of_y) in [(true, true), (true, false), (false, true), (false, false)] {
        let (x, weights) = (call.x(), weights(&call.device));
        let h0 = with_state.then(|| counted([call.n, H], &call.device));
        let (y, last) = op(x.clone(), h0.clone(), &weights);
        let context = |e| format!("{spec:?}, state {with_state}, of y {of_y}: {e}");
        expect_shape("y", &y, call.shape(H)).map_err(context)?;
        expect_shape("the final state", &last, [call.n, H]).map_err(context)?;
        let expected = match (&h0, call.t) {
            (Some(h0), 0) => values(h0.clone()),
            _ => vec![0.0; call.n * H],
        };
        if values(last.clone()) != expected {
            return Err(context(
                "expected the final state to equal the initial state".into(),
            ));
        }
        let loss = if of_y { y.sum() } else { last.clone().sum() };
        if !loss.is_tracked() {
            return Err(context("expected a tracked final state".into()));
        }
        let gradients = loss.backward();
        if of_y || call.t > 0 {
            expect_gradient("x", &x, &gradients, 0.0).map_err(context)?;
        }
        expect_zero_gradients(&weights, &gradients).map_err(context)?;
        if let Some(h0) = h0 {
            let expected = if of_y { 0.0 } else { 1.0 };
            expect_gradient("h0", &h0, &gradients, expected).map_err(context)?;
        }
    }
    Ok(())
}

fn sequence(call: Call) -> Result<(), String> {
    with_options(&call, |options| options)
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

fn composed_sequence(call: Call) -> Result<(), String> {
    let device = &call.device;
    for (spec, options) in call.specs() {
        let options = options.state(counted([call.n, H], device));
        let (y, last) = composed::gru_sequence_with(call.x(), &weights(device), &spec, options);
        expect_shape("y", &y, call.shape(H))?;
        expect_shape("the final state", &last, [call.n, H])?;
    }
    Ok(())
}

fn with_options(
    call: &Call,
    with: impl Fn(SequenceOptions<2>) -> SequenceOptions<2>,
) -> Result<(), String> {
    call.specs().try_for_each(|(spec, options)| {
        run(call, &spec, |x, h0, w| {
            let options = with(options.clone().state(h0));
            gru_sequence_with(x, w, &spec, options)
        })
    })
}

fn lengths(call: Call) -> Result<(), String> {
    with_options(&call, |options| options.lengths(&vec![0; call.n]))
}

fn mask_of_steps(call: Call) -> Result<(), String> {
    with_options(&call, |options| options.mask(call.mask()))
}

fn zoneout(call: Call) -> Result<(), String> {
    with_options(&call, |options| {
        let place = (&call.device, DType::F32);
        let options = options.recurrent_mask(Tensor::ones([call.n, H], place));
        options.zoneout(Tensor::zeros(call.shape(1), place))
    })
}

/// A start state `[1,H]` for all rows, also if there is none.
fn starts(call: Call) -> Result<(), String> {
    with_options(&call, |options| {
        let start_state = counted([1, H], &call.device);
        options.starts(call.mask()).start_state(start_state)
    })
}

fn gates(call: Call) -> Result<(), String> {
    for (spec, options) in call.specs() {
        let gates = gru_gates(call.x(), &weights(&call.device), &spec, options);
        expect_shape("states", &gates.states, call.shape(H))?;
        expect_shape("reset", &gates.reset, call.shape(H))?;
        expect_shape("candidate", &gates.candidate, call.shape(H))?;
    }
    Ok(())
}

fn cell(device: &Device) -> Result<(), String> {
    for h in [None, Some(counted([0, H], device))] {
        let (x, weights) = (counted([0, I], device), weights(device));
        let new = gru_cell(x.clone(), h.clone(), &weights, &GruSpec::default());
        expect_shape("h", &new, [0, H])?;
        let gradients = new.sum().backward();
        expect_gradient("x", &x, &gradients, 0.0)?;
        expect_zero_gradients(&weights, &gradients)?;
    }
    Ok(())
}

/// Packed batches without steps, with and without rows.
fn packed(device: &Device) -> Result<(), String> {
    let spec = GruSpec::default();
    for n in [0, 2] {
        let lengths = vec![0; n];
        for h0 in [None, Some(counted([n, H], device))] {
            let (x, weights) = (counted([0, I], device), weights(device));
            let options = SequenceOptions::new().state(h0.clone());
            let (y, last) = gru_packed(x, &lengths, &weights, &spec, options);
            expect_shape("y", &y, [0, H])?;
            expect_shape("the final state", &last, [n, H])?;
            let gradients = last.sum().backward();
            expect_zero_gradients(&weights, &gradients)?;
            if let Some(h0) = h0 {
                expect_gradient("h0", &h0, &gradients, 1.0)?;
            }
        }
        let block = GruBlockConfig::new(I, H)
            .with_bidirectional(true)
            .init(device);
        let (y, last) = block.forward_packed(counted([0, I], device), &lengths, None);
        expect_shape("y of the block", &y, [0, 2 * H])?;
        block::expect_zero_gradients_of(&block, &last.sum().backward())?;
    }
    Ok(())
}

fn no_units(device: &Device) -> Result<(), String> {
    let zeros = |shape: [usize; 2]| Tensor::<2>::zeros(shape, (device, DType::F32));
    let weights = GruWeights::new(zeros([I, 0]), zeros([0, 0]));
    let x = counted([2, 3, I], device);
    let gates = gru_gates(x, &weights, &GruSpec::default(), SequenceOptions::new());
    expect_shape("the update gate", &gates.update, [2, 3, 0])
}
