//! What a prepared GRU costs: nats per character of a model that was trained for a few passes, in each precision.
#![cfg(feature = "flex")]

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{Device, Tensor, read_sync};
use char_model::{
    data::{Corpus, Streams},
    evaluate::{evaluate, read},
    model::{CharGru, CharGruConfig},
    ngram::Reference,
    trainer::{Settings, Trainer},
};
use gru_op::{Precision, PreparedGru};

const SEQ: usize = 64;

/// [`evaluate`] with a prepared GRU.
fn nats(model: &CharGru, gru: &PreparedGru, streams: &Streams, device: &Device) -> f64 {
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    let (mut state, mut sum, mut characters) = (None, 0.0, 0);
    for window in streams.windows(SEQ) {
        let x = model.embedding.forward(window.inputs(device));
        let (y, next): (Tensor<3>, _) = gru.forward(x, state);
        state = Some(next);
        let [n, t, h] = y.dims();
        let scores = model.head.forward(y.reshape([n * t, h]));
        let loss = cross_entropy.forward(scores, window.targets(device));
        sum += f64::from(read_sync(read(loss)).unwrap()) * window.len() as f64;
        characters += window.len();
    }
    sum / characters as f64
}

#[test]
fn rounded_weights_predict_as_well() {
    let corpus = Corpus::new(lipsum::LIBER_PRIMUS, 0.1, SEQ).unwrap();
    let device = Device::flex();
    let training = device.clone().autodiff();
    training.seed(1);
    let sizes = CharGruConfig::new(corpus.vocabulary.len(), 64, 128, 1, 0.0);
    let settings = Settings {
        epochs: 3,
        batch: 16,
        seq: SEQ,
        rate: 8e-3,
        clip: 1.0,
        seed: 1,
    };
    let mut trainer = Trainer::new(settings, &corpus, sizes.init(&training), &[training]);
    for _ in 0..trainer.steps() {
        read_sync(trainer.step()).unwrap();
    }
    let model = trainer.learner.model.valid();
    let streams = corpus.validation_streams(16);

    let expected = read_sync(evaluate(&model, &streams, SEQ, &device)).unwrap();
    let bigram = Reference::new(&corpus).bigram;
    assert!(expected < bigram, "{expected} nats: it learned little");
    for (precision, share) in [
        (Precision::Full, 1e-6),
        (Precision::Bf16, 2e-4),
        (Precision::Int8, 2e-3),
    ] {
        let gru = model.gru.prepare(precision);
        let got = nats(&model, &gru, &streams, &device);
        let change = got / expected - 1.0;
        println!(
            "{precision:?}: {got:.5} nats, {expected:.5} before: {:+.4}%, {} bytes, {:?}",
            100.0 * change,
            gru.bytes(),
            gru.rounding()
        );
        assert!(
            change.abs() <= share,
            "{precision:?}: {got} nats, {expected} before"
        );
    }
}
