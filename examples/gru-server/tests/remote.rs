//! A model that trains on the server, over the loopback interface.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::remote::RemoteHost;
use burn::tensor::{Device, Distribution, Tensor};
use gru_op::{GruBlock, GruBlockConfig};

/// A running server. Dropping it ends the process.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().expect("the server runs");
        self.0.wait().expect("the server ends");
    }
}

#[derive(Module, Debug)]
struct Model {
    gru: GruBlock,
    head: Linear,
}

/// Trains to add up the numbers of each row `[N,T,1]`, and returns the loss of each step.
fn train(model: &Model, x: &Tensor<3>, device: &Device) -> Vec<f32> {
    let mut model = model.clone().fork(device);
    let x = x.clone().to_device(device);
    let mut adam = AdamConfig::new().init();
    let step = |_| {
        let (y, _) = model.gru.forward(x.clone(), None);
        let loss = (model.head.forward(y) - x.clone().cumsum(1))
            .square()
            .mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(0.01, model.clone(), gradients);
        loss.into_scalar::<f32>()
    };
    (0..20).map(step).collect()
}

#[test]
fn a_server_learns_what_this_process_learns() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_gru-server"))
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = process.stdout.take().unwrap();
    let _server = Server(process);
    let mut url = String::new();
    BufReader::new(out).read_line(&mut url).unwrap();
    let host = RemoteHost::websocket(url.trim_end());
    let remote = Device::remote_options(&host).init().unwrap().autodiff();

    let local = Device::flex().autodiff();
    let model = Model {
        gru: GruBlockConfig::new(1, 16)
            .with_batch_first(true)
            .init(&local),
        head: LinearConfig::new(16, 1).init(&local),
    };
    let x = Tensor::random([32, 10, 1], Distribution::Uniform(-1.0, 1.0), &local);
    let expected = train(&model, &x, &local);
    assert!(expected[19] < expected[0] / 2.0, "{expected:?}");
    for (got, expected) in train(&model, &x, &remote).iter().zip(expected) {
        // Float32 rounding over twenty training steps.
        assert!(
            (got - expected).abs() <= 2e-5 * expected,
            "{got} {expected}"
        );
    }
}
