//! The block's three kinds of noise: when they are drawn, and their effect.

use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig, GruWeights};
use gru_testkit::close::close;
use libtest_mimic::Trial;

use super::{backends::TestBackend, runs::values};

const N: usize = 4;
const T: usize = 5;
const H: usize = 48;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    type Check = fn(&Device) -> Result<(), String>;
    let checks: [(&str, Check); 2] = [
        ("recurrent-dropout", recurrent_dropout),
        ("zoneout-in-training", zoneout_in_training),
    ];
    let mut trials = Vec::new();
    for backend in backends {
        for (name, check) in checks {
            let id = format!("noise/{name}/{}", backend.name);
            trials.push(backend.trial(id, check));
        }
    }
    trials
}

/// Weights of zero and given biases: the biases determine the gates.
fn with_fixed_gates(config: GruBlockConfig, device: &Device, r: f64, z: f64, n: f64) -> GruBlock {
    let zeros = |rows: usize| Tensor::<2>::zeros([rows, 3 * H], device);
    let bias = [r, z, n].map(|value| Tensor::<1>::full([H], value, device));
    let weights = GruWeights::new(zeros(1), zeros(H)).with_b_ih(Tensor::cat(bias.into(), 0));
    let block = config.init_with(vec![weights]);
    block.expect("the shapes match the configuration")
}

/// With gates open and a candidate that passes the state through, the output shows the mask. A row has
/// one mask for all steps, with two values. The next call draws another mask.
fn recurrent_dropout(device: &Device) -> Result<(), String> {
    let plain = device;
    let device = &device.clone().autodiff();
    let config = GruBlockConfig::new(1, H)
        .with_recurrent_dropout(0.25)
        .with_activations(gru_op::Activations {
            candidate: gru_op::Activation::Identity,
            ..Default::default()
        });
    let mut block = with_fixed_gates(config, device, 50.0, -50.0, 0.0);
    let eye = Tensor::<2>::eye(H, device);
    let zeros = Tensor::<2>::zeros([H, 2 * H], device);
    block.layers[0].w_hh = Param::from_tensor(Tensor::cat(vec![zeros, eye], 1));
    let run = |block: &GruBlock, device: &Device| {
        let x = Tensor::<3>::zeros([N, T, 1], device);
        let state = Tensor::<3>::ones([1, N, H], device);
        values(block.forward(x, Some(state)).0)
    };
    let y = run(&block, device);
    // h_t = (m/0.75)^t, m ∈ {0, 1}. Gates at ±50 saturate exactly in float32.
    let mut hidden = 0;
    for n in 0..N {
        for unit in 0..H {
            let at = |t: usize| y[(n * T + t) * H + unit];
            let scale = if at(0) < 0.5 { 0.0 } else { 1.0 / 0.75 };
            hidden += usize::from(scale == 0.0);
            for t in 0..T {
                let expected = f64::powi(scale, t as i32 + 1);
                close("state", &[at(t)], &[expected], 1e-5)?;
            }
        }
    }
    // 192 draws at probability 1/4: 48 ± 6 is one standard deviation. The bounds are five.
    if !(18..=78).contains(&hidden) {
        return Err(format!(
            "{hidden} of {} units masked, expected about 48",
            N * H
        ));
    }
    if run(&block, device) == y {
        return Err("expected another mask in the next call".into());
    }
    let inference = run(&block.valid(), plain);
    close("inference", &inference, &vec![1.0; N * T * H], 1e-5)
}

/// At each step, each unit either keeps its state or updates to the candidate.
fn zoneout_in_training(device: &Device) -> Result<(), String> {
    let device = &device.clone().autodiff();
    let block = with_fixed_gates(
        GruBlockConfig::new(1, H).with_zoneout(0.25),
        device,
        0.0,
        -50.0,
        0.5,
    );
    let x = Tensor::<3>::zeros([N, T, 1], device);
    let (y, _) = block.forward(x, Some(Tensor::zeros([1, N, H], device)));
    let y = values(y);
    let taken = 0.5f64.tanh();
    let mut kept = 0;
    for n in 0..N {
        for unit in 0..H {
            let mut before = 0.0;
            for t in 0..T {
                let now = y[(n * T + t) * H + unit];
                if (now - taken).abs() > 1e-5 && now != before {
                    return Err(format!("{now}: expected {before} or {taken}"));
                }
                // After an update the candidate stays, so only the first steps show zoneout.
                kept += usize::from(t == 0 && now == 0.0);
                before = now;
            }
        }
    }
    if (18..=78).contains(&kept) {
        Ok(())
    } else {
        Err(format!("{kept} of {} units kept, expected about 48", N * H))
    }
}
