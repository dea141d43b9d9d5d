//! One block in several threads.

use super::{H, I, Test, equal, expect, input, outputs, runs, values};
use burn::{
    module::Module,
    optim::GradientsParams,
    tensor::{Device, Tensor},
};
use gru_convert::{ConvertError, StateDict};
use gru_op::{
    GruBlock, GruBlockConfig, GruGates, GruLayer, GruLayerOptions, GruSpec, GruWeights, Precision,
    PreparedGru, SequenceOptions, StackStream,
};
use gru_testkit::random::numbers;
use std::thread;

pub const TESTS: &[(&str, Test)] = &[
    ("threads-infer", threads_infer),
    ("threads-learn", threads_learn),
];

const THREADS: usize = 4;

/// Compiles if all of these types are `Send` and `Sync`.
pub fn types() {
    fn both<T: Send + Sync>() {}
    both::<GruBlock>();
    both::<GruBlockConfig>();
    both::<GruGates>();
    both::<GruLayer>();
    both::<GruLayerOptions>();
    both::<SequenceOptions<2>>();
    both::<GruSpec>();
    both::<GruWeights>();
    both::<PreparedGru>();
    both::<StateDict>();
    both::<ConvertError>();
    both::<StackStream>();
}

/// Runs the closure in several threads at once and returns all results.
fn at_once<R: Send>(run: impl Fn() -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(&run)).collect();
        let results = threads.into_iter().map(|thread| thread.join());
        results.map(|r| r.expect("no thread panics")).collect()
    })
}

/// Sequences and steps, including a block with lazily initialized parameters, and sequences of a prepared block.
fn threads_infer(device: &Device) -> Result<(), String> {
    let block = GruBlockConfig::new(I, H).with_num_layers(2).init(device);
    let prepared = GruBlockConfig::new(I, H)
        .init(device)
        .prepare(Precision::Int8);
    let found = at_once(|| {
        let sequence = outputs(&block, device);
        let mut state = None;
        let x = Tensor::<2>::ones([2, I], device);
        for _ in 0..50 {
            state = Some(block.step(x.clone(), state).1);
        }
        let (y, _) = prepared.forward(input(device), None);
        let stepped = values(state.expect("there is at least one step"));
        [sequence, stepped, values(y)]
    });
    for other in &found[1..] {
        equal("outputs of another thread", &other[0], &found[0][0])?;
        equal("steps of another thread", &other[1], &found[0][1])?;
        equal("prepared, in another thread", &other[2], &found[0][2])?;
    }
    equal(
        "outputs of one thread",
        &found[0][0],
        &outputs(&block, device),
    )
}

/// Forward and backward of clones. Each thread has its own graph. The sizes are large enough for several
/// kernel threads.
fn threads_learn(device: &Device) -> Result<(), String> {
    let device = device.clone().autodiff();
    let (n, t, i, h) = (16, 40, I, 64);
    let block = GruBlockConfig::new(i, h).with_num_layers(2).init(&device);
    let d_y = numbers("d_y", n * t * h, 1.0);
    let learn = || {
        let x: Tensor<3> = runs::random("x", [n, t, i], &device);
        let block = block.clone();
        let (y, _) = block.forward(x, None);
        let gradients = runs::loss(&y, &d_y).backward();
        let gradients = GradientsParams::from_grads(gradients, &block);
        let of = |k: usize| {
            let gradient = gradients.get::<2>(block.layers[k].w_hh.id);
            values(gradient.expect("the parameter is tracked"))
        };
        [values(y), of(0), of(1)]
    };
    expect(
        "parameters",
        block.num_params(),
        2 * 6 * h + (i + 3 * h) * 3 * h,
    )?;
    let alone = learn();
    for found in at_once(learn) {
        for (k, (found, alone)) in found.iter().zip(&alone).enumerate() {
            equal(["y", "gradient 0", "gradient 1"][k], found, alone)?;
        }
    }
    Ok(())
}
