//! The parts of the time of a word: each part of the model by itself, and the kernels without Burn.
//!
//!     cargo run --release -p g2p --example parts -- g2p_en-2.1.0-py3-none-any.whl

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use burn::tensor::{Device, Tensor, TensorData};
use g2p::symbols::{START, letters};
use g2p::weights;
use gru_cpu::{PackedWeights, Sequence, Stream, Weights, spec::GruSpec};
use gru_op::GruBlock;

const WORD: &str = "recurrent";
const TIMES: usize = 2001;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("error: expected the weights file");
        return ExitCode::FAILURE;
    };
    match run(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &Path) -> Result<(), g2p::error::Error> {
    let device = Device::flex();
    let model = weights::load(path, &device)?;
    let steps = model.run(&[WORD])?.1.len();
    println!(
        "{WORD:?}, {} letters including the end, {steps} steps of the decoder",
        WORD.len() + 1
    );

    // All inputs are made in advance, so that each line is one call.
    let token = Tensor::from_data(TensorData::new(vec![START], [1, 1]), &device);
    let word = letters(WORD);
    let length = word.len();
    let word = Tensor::from_data(TensorData::new(word, [1, length]), &device);
    let x_all: Tensor<3> = model.letters.forward(word.clone());
    let x: Tensor<2> = model.phonemes.forward(token.clone()).squeeze_dim(1);
    let state = model.encoder.forward(x_all.clone(), None).1;
    let h: Tensor<2> = model.decoder.step(x.clone(), Some(state.clone())).0;
    let scores = model.head.forward(h.clone());

    time("a word", || {
        model
            .phonemes(&[WORD])
            .map(|_| ())
            .expect("the model returned these phonemes")
    });
    time("encoder: embedding", || {
        black_box(model.letters.forward(word.clone()));
    });
    time("encoder: GruBlock::forward", || {
        black_box(model.encoder.forward(x_all.clone(), None));
    });
    time("step: tensor of the token", || {
        let token = TensorData::new(vec![START], [1, 1]);
        black_box(Tensor::<2, burn::tensor::Int>::from_data(token, &device));
    });
    time("a step: embedding", || {
        black_box(model.phonemes.forward(token.clone()));
    });
    time("step: GruBlock::step", || {
        black_box(model.decoder.step(x.clone(), Some(state.clone())));
    });
    time("a step: head", || {
        black_box(model.head.forward(h.clone()));
    });
    time("step: reading the scores", || {
        black_box(scores.clone().into_data());
    });

    let numbers = |x: Tensor<2>| x.into_data().try_into_vec::<f32>().expect("float32");
    let (x_step, x_word) = (numbers(x), numbers(x_all.squeeze_dim(0)));
    let encoder = packed(&model.encoder);
    let mut states = vec![0.0; length * 256];
    time("only the kernel: the letters, packed weights", || {
        encoder.forward(1, length, Sequence::new(&x_word), &mut states);
    });
    let mut stream = Stream::new(Arc::new(packed(&model.decoder)), 1);
    time("only the kernel: a step, packed weights", || {
        black_box(stream.step(&x_step));
    });
    Ok(())
}

fn packed(gru: &GruBlock) -> PackedWeights<f32> {
    let weights = gru.layers[0].weights();
    let numbers = |data: TensorData| data.try_into_vec::<f32>().expect("float32");
    let matrix = |w: Tensor<2>| numbers(w.into_data());
    let bias = |b: Option<Tensor<1>>| b.map(|b| numbers(b.into_data()));
    let (w_ih, w_hh) = (weights.w_ih.map(matrix), matrix(weights.w_hh));
    let (b_ih, b_hh) = (bias(weights.b_ih), bias(weights.b_hh));
    let (i, h) = (gru.d_input, gru.d_hidden);
    let (w_ih, b_ih, b_hh) = (w_ih.as_deref(), b_ih.as_deref(), b_hh.as_deref());
    PackedWeights::new(
        &GruSpec::default(),
        i,
        h,
        Weights {
            b_ih,
            b_hh,
            ..Weights::new(w_ih, &w_hh)
        },
    )
}

/// The median in microseconds.
fn time(name: &str, mut part: impl FnMut()) {
    let mut times: Vec<f64> = (0..TIMES)
        .map(|_| {
            let start = Instant::now();
            part();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:45} {:9.2} µs", 1e6 * times[TIMES / 2]);
}
