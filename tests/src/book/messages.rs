//! Messages that the chapter on troubleshooting quotes.

use burn::{
    module::Module,
    nn::{LinearConfig, activation::ActivationConfig, gru::GruConfig},
    tensor::{DType, Device, Distribution, Tensor},
};
use gru_convert::{StateDict, pytorch};
use gru_op::{GruBlock, GruBlockConfig, Reset, SequenceOptions};
use std::{
    error::Error,
    panic::{AssertUnwindSafe, catch_unwind},
};

#[derive(Module, Debug)]
struct Model<G: Module> {
    gru: G,
}

/// A panic is quoted up to its explanation, if it has one.
pub fn are_quoted() -> Result<(), Box<dyn Error>> {
    let page = include_str!("../../../docs/src/troubleshooting.md");
    let quoted = |message: &str| assert!(page.contains(message), "not quoted: {message}");
    let panics = |work: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("expected a panic");
        let message = panic.downcast::<String>().expect("a panic has a message");
        quoted(
            message
                .split_once("; ")
                .map_or(message.as_str(), |(first, _)| first),
        );
    };

    let device = Device::flex();
    let random = |shape| Tensor::<3>::random(shape, Distribution::Default, &device);
    let (x, config) = (random([3, 9, 8]), GruBlockConfig::new(8, 16));
    let gru = config.init(&device);
    panics(&|| drop(gru.forward(x.clone(), Some(random([2, 3, 16])))));
    panics(&|| drop(gru.forward(random([3, 9, 7]), None)));
    panics(&|| drop(gru.forward_with(x.clone(), SequenceOptions::new().lengths(&[10, 9, 1]))));
    panics(&|| drop(gru.forward(x.clone().cast(DType::BF16), None)));
    let training = device.clone().autodiff();
    let noisy = config.clone().with_recurrent_dropout(0.2).init(&training);
    panics(&|| drop(noisy.step(Tensor::zeros([3, 8], &training), None)));

    let both = config.clone().with_bidirectional(true).init(&device);
    panics(&|| drop(both.step(Tensor::zeros([3, 8], &device), None)));

    quoted(
        &config
            .clone()
            .with_dropout(1.0)
            .validate()
            .unwrap_err()
            .to_string(),
    );
    quoted(
        &GruBlockConfig::new(8, 0)
            .validate()
            .unwrap_err()
            .to_string(),
    );
    let gelu = GruConfig::new(3, 5, true).with_hidden_activation(ActivationConfig::Gelu);
    quoted(&GruBlockConfig::try_from(&gelu).unwrap_err().to_string());

    let before = config.clone().with_reset(Reset::BeforeMatmul);
    quoted(&gru.check_config(&before).unwrap_err().to_string());
    quoted(
        &pytorch::export(&before.init(&device), "")
            .unwrap_err()
            .to_string(),
    );
    let mut dict = StateDict::new();
    dict.insert("gru.weight_ih_l0", x.into_data());
    quoted(&pytorch::config(&dict, "encoder.").unwrap_err().to_string());

    let linear = LinearConfig::new(2, 3).init(&device);
    let mut dict = StateDict::new();
    dict.insert("weight", linear.weight.val().into_data());
    dict.insert("fc.bias", linear.bias.as_ref().unwrap().val().into_data());
    quoted(
        &gru_convert::burn_nn::load(dict, linear)
            .unwrap_err()
            .to_string(),
    );

    // The page calls each file model.bpk.
    let path = std::env::temp_dir().join(format!("gru-op-book-{}.bpk", std::process::id()));
    gru.save_file(&path).unwrap();
    let error = GruBlock::from_file(&path, &device).unwrap_err().to_string();
    Model {
        gru: GruConfig::new(8, 16, true).init(&device),
    }
    .save_file(&path)
    .unwrap();
    quoted(
        &Model {
            gru: config.init(&device),
        }
        .try_load_file(&path)
        .unwrap_err()
        .to_string(),
    );
    std::fs::remove_file(&path).unwrap();
    quoted(&error.replace(&path.display().to_string(), "model.bpk"));
    Ok(())
}
