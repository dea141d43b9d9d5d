//! The parts of the time of a word: each part of the model by itself, and the kernels without Burn.
//!
//!     cargo run --release -p g2p --example parts -- g2p_en-2.1.0-py3-none-any.whl

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use burn::tensor::{Device, Tensor, TensorData};
use g2p::symbols::{START, letters};
use g2p::weights;
use gru_cpu::{StackInputs, spec::Layout};
use gru_op::Precision;

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
    let model = weights::load(path, &device, Precision::Full)?;
    let int8 = weights::load(path, &device, Precision::Int8)?;
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
    time("encoder: PreparedGru::forward", || {
        black_box(model.encoder.forward(x_all.clone(), None));
    });
    time("step: tensor of the token", || {
        let token = TensorData::new(vec![START], [1, 1]);
        black_box(Tensor::<2, burn::tensor::Int>::from_data(token, &device));
    });
    time("a step: embedding", || {
        black_box(model.phonemes.forward(token.clone()));
    });
    time("step: PreparedGru::step", || {
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
    for (name, model) in [("float32", &model), ("int8", &int8)] {
        let encoder = model.encoder.stack().expect("Flex has one");
        let (mut states, mut last) = (vec![0.0; length * 256], vec![0.0; 256]);
        time(&format!("only the kernel: the letters, {name}"), || {
            let inputs = StackInputs::new(&x_word);
            encoder.forward(
                Layout::BatchMajor,
                [1, length],
                inputs,
                &mut states,
                &mut last,
            );
        });
        let mut stream = model.decoder.stream(1);
        time(&format!("only the kernel: a step, {name}"), || {
            black_box(stream.step(&x_step));
        });
    }
    Ok(())
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
