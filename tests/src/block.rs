//! The block: streaming, carried state, episodes, initial weights, display, configuration files.

use super::{
    backends::TestBackend,
    runs::{expect, expect_shape, random, values},
};
use burn::{
    config::Config,
    module::Initializer,
    tensor::{Bool, Device, Tensor, TensorData},
};
use gru_op::{
    Activation, Direction, GruBlockConfig, GruInitializer, GruSpec, Reset, SequenceOptions, Update,
    restart, starts_after,
};
use gru_testkit::close::{Tolerance, close};
use libtest_mimic::Trial;

type Test = fn(&Device, Tolerance) -> Result<(), String>;

const TESTS: &[(&str, Test)] = &[
    ("acting-equals-replay", acting_equals_replay),
    ("pytorch-initializer", pytorch_initializer),
    ("per-gate-initializer", per_gate_initializer),
    ("orthogonal-initializer", orthogonal_initializer),
    ("keras-initializer", keras_initializer),
];

const N: usize = 3;
const T: usize = 7;
const I: usize = 5;
const H: usize = 9;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &backend in backends {
        for &(name, test) in TESTS {
            let tolerance = backend.tolerance(Tolerance::F32);
            let id = format!("block/{name}/{}", backend.name);
            trials.push(backend.trial(id, move |device| test(device, tolerance)));
        }
    }
    trials.push(Trial::test("block/display", || Ok(display()?)));
    trials.push(Trial::test("block/config-file", || Ok(config_file()?)));
    trials
}

fn input(device: &Device) -> Tensor<3> {
    random("x", [N, T, I], device)
}

fn state(layers: usize, device: &Device) -> Tensor<3> {
    random("state", [layers, N, H], device)
}

fn same<const D: usize>(
    name: &str,
    got: Tensor<D>,
    expected: Tensor<D>,
    tolerance: f64,
) -> Result<(), String> {
    expect_shape(name, &got, expected.dims())?;
    close(name, &values(got), &values(expected), tolerance)
}

/// The last steps of episodes, `[N,T]`: row 0 ends at a step in the middle and at the last one, row 1 twice in
/// succession, row 2 never.
const DONES: [[bool; T]; N] = [
    [false, false, true, false, false, false, true],
    [true, true, false, false, false, false, false],
    [false; T],
];

fn flags<const D: usize>(flags: &[bool], shape: [usize; D], device: &Device) -> Tensor<D, Bool> {
    Tensor::from_data(TensorData::new(flags.to_vec(), shape), device)
}

fn starts(device: &Device) -> Tensor<2, Bool> {
    let first = flags(&[true, false, false], [N], device);
    starts_after(flags(DONES.as_flattened(), [N, T], device), first)
}

/// Steps equal one sequence. With starts, `restart` changes the state between them.
fn acting_equals_replay(device: &Device, tolerance: Tolerance) -> Result<(), String> {
    for (reset, bidirectional) in [
        (Reset::AfterMatmul, false),
        (Reset::BeforeMatmul, false),
        (Reset::AfterMatmul, true),
    ] {
        let config = GruBlockConfig::new(I, H)
            .with_num_layers(2)
            .with_bidirectional(bidirectional)
            .with_zoneout(0.25)
            .with_reset(reset);
        let mut gru = config.init(device);
        for layer in &mut gru.layers {
            layer.direction = Direction::Forward;
        }
        let layers = gru.layers.len();
        let initial = || Some(state(layers, device));
        let start_state = state(2 * layers, device).slice([layers..2 * layers, 0..1]);
        for (initial, starts, start_state) in [
            (None, None, None),
            (initial(), None, None),
            (initial(), Some(starts(device)), None),
            (initial(), Some(starts(device)), Some(start_state)),
        ] {
            let x = input(device);
            let options = SequenceOptions::new()
                .state(initial.clone())
                .starts(starts.clone())
                .start_state(start_state.clone());
            let (replayed, last) = gru.forward_with(x.clone(), options);
            let mut state = initial;
            for t in 0..T {
                if let Some(starts) = &starts {
                    let starts = starts.clone().narrow(1, t, 1).squeeze_dim(1);
                    state = state.map(|state| restart(state, starts, start_state.clone()));
                }
                let at = |y: &Tensor<3>| y.clone().narrow(1, t, 1).squeeze_dim::<2>(1);
                let (acted, after) = gru.step(at(&x), state);
                same("acted", acted, at(&replayed), tolerance.forward)?;
                state = Some(after);
            }
            let state = state.expect("T is positive");
            same("state", state, last, tolerance.forward)?;
        }
    }
    Ok(())
}

fn pytorch_initializer(device: &Device, _: Tolerance) -> Result<(), String> {
    let config = GruBlockConfig::new(40, 25).with_initializer(GruInitializer::PyTorch);
    let layer = &config.init(device).layers[0];
    let bias = |bias: &Option<burn::module::Param<Tensor<1>>>| {
        values(bias.as_ref().expect("a bias is the default").val())
    };
    for (name, values) in [
        ("w_ih", values(layer.w_ih.val())),
        ("w_hh", values(layer.w_hh.val())),
        ("b_ih", bias(&layer.b_ih)),
        ("b_hh", bias(&layer.b_hh)),
    ] {
        // The bound is 1/√25 for any number of inputs. With 75 samples or more, the largest value is
        // close to it.
        let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        if !(0.17..=0.2).contains(&largest) {
            return Err(format!(
                "{name}: largest value {largest}, expected slightly below 0.2"
            ));
        }
    }
    Ok(())
}

fn per_gate_initializer(device: &Device, _: Tolerance) -> Result<(), String> {
    let (i, h) = (300, 100);
    let xavier = Initializer::XavierUniform { gain: 1.0 };
    let config = GruBlockConfig::new(i, h).with_initializer(GruInitializer::PerGate(xavier));
    let layer = &config.init(device).layers[0];
    for (name, weight, inputs) in [("w_ih", &layer.w_ih, i), ("w_hh", &layer.w_hh, h)] {
        // √(6 / (fan in + fan out)) of one gate. A fused weight would count 3H outputs.
        let bound = (6.0 / (inputs + h) as f64).sqrt();
        let gates = [0, 1, 2].map(|gate| values(weight.val().narrow(1, gate * h, h)));
        for gate in &gates {
            let largest = gate.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            if !(0.99 * bound..=1.0001 * bound).contains(&largest) {
                return Err(format!("{name}: largest value {largest}, expected {bound}"));
            }
        }
        if gates[0] == gates[1] || gates[1] == gates[2] {
            return Err(format!("{name}: expected different weights for two gates"));
        }
    }
    Ok(())
}

/// The recurrent weight of each gate is orthogonal, and biases are zero.
fn orthogonal_initializer(device: &Device, tolerance: Tolerance) -> Result<(), String> {
    let h = 7;
    let orthogonal = Initializer::Orthogonal { gain: 1.0 };
    let config = GruBlockConfig::new(3, h).with_recurrent_initializer(Some(orthogonal.into()));
    let layer = &config.init(device).layers[0];
    let b_ih = values(layer.b_ih.as_ref().expect("a bias is the default").val());
    if b_ih.contains(&0.0) {
        return Err(format!(
            "expected biases of the other initializer, got {b_ih:?}"
        ));
    }
    for gate in 0..3 {
        let weight = layer.w_hh.val().narrow(1, gate * h, h);
        let product = weight.clone().transpose().matmul(weight);
        let identity = Tensor::<2>::eye(h, device);
        close(
            "product",
            &values(product),
            &values(identity),
            tolerance.forward,
        )?;
    }
    let bias = values(layer.b_hh.as_ref().expect("a bias is the default").val());
    if bias.iter().any(|&bias| bias != 0.0) {
        return Err(format!("expected biases of zero, got {bias:?}"));
    }
    Ok(())
}

/// Keras draws one matrix for all gates.
fn keras_initializer(device: &Device, tolerance: Tolerance) -> Result<(), String> {
    let (i, h) = (300, 20);
    let [xavier, orthogonal] = [
        Initializer::XavierUniform { gain: 1.0 },
        Initializer::Orthogonal { gain: 1.0 },
    ];
    let config = GruBlockConfig::new(i, h)
        .with_initializer(GruInitializer::AllGates(xavier))
        .with_recurrent_initializer(Some(GruInitializer::AllGates(orthogonal)));
    let layer = &config.init(device).layers[0];
    let largest = values(layer.w_ih.val().abs().max())[0];
    let bound = (6.0 / (i + 3 * h) as f64).sqrt();
    if !(0.99 * bound..=1.0001 * bound).contains(&largest) {
        return Err(format!("w_ih: largest value {largest}, expected {bound}"));
    }
    let w_hh = layer.w_hh.val();
    let product = w_hh.clone().matmul(w_hh.transpose());
    let identity = Tensor::<2>::eye(h, device);
    close(
        "product",
        &values(product),
        &values(identity),
        tolerance.forward,
    )?;
    for (name, bias) in [("b_ih", &layer.b_ih), ("b_hh", &layer.b_hh)] {
        let bias = values(bias.as_ref().expect("a bias is the default").val());
        expect(name, bias, vec![0.0; 3 * h])?;
    }
    Ok(())
}

fn display() -> Result<(), String> {
    let config = GruBlockConfig::new(I, H)
        .with_num_layers(2)
        .with_update(Update::Takes);
    let text = config.init(&Device::flex()).to_string();
    let expected = "GruBlock {d_input: 5, d_hidden: 9, num_layers: 2, bidirectional: false, \
                    dropout: 0, bias: true, batch_first: true, reset: AfterMatmul, \
                    update: Takes, params: 972}";
    expect("display", &text[..], expected)?;
    let gates = [Activation::Sigmoid, Activation::Softsign, Activation::Tanh];
    let spec = GruSpec::default().with_activations(gates.into());
    let mut block = GruBlockConfig::new(I, H)
        .with_bidirectional(true)
        .with_recurrent_dropout(0.25)
        .with_zoneout(0.5)
        .with_spec(spec.with_clip_gates(Some(3.0)).with_clip_state(Some(2.0)))
        .init(&Device::flex());
    let all = "batch_first: true, reset: AfterMatmul, update: Keeps, \
               activations: [Sigmoid, Softsign, Tanh], clip_gates: 3, clip_state: 2, \
               recurrent_dropout: 0.25, zoneout: 0.5, params";
    let text = block.to_string();
    if !text.contains(all) {
        return Err(format!("expected {all}, got {text}"));
    }
    block.layers[1].direction = Direction::Forward;
    block.layers[1].spec = GruSpec::default();
    let text = block.to_string();
    let all =
        "clip_state: 2, none, recurrent_dropout: 0.25, zoneout: 0.5, direction: Forward, params";
    if !text.contains(all) {
        return Err(format!("expected {all}, got {text}"));
    }
    Ok(())
}

fn config_file() -> Result<(), String> {
    let config = GruBlockConfig::new(I, H)
        .with_num_layers(3)
        .with_reset(Reset::BeforeMatmul)
        .with_clip_state(Some(2.5))
        .with_initializer(GruInitializer::PyTorch);
    let file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    config.save(&file).map_err(|e| e.to_string())?;
    let loaded = GruBlockConfig::load(&file).map_err(|e| e.to_string())?;
    expect("configuration", loaded.to_string(), config.to_string())
}
