//! `GruBlock` and `burn::nn::gru::Gru` with equal weights on one device, interleaved: the shapes, modes
//! and timing of every benchmark of a whole layer.
//!
//! Burn's `Gru` has one layer and one direction. For other shapes, several `Gru`s are combined. Burn's
//! `BiGru` is not measured.

#[cfg(feature = "gpu")]
mod memory_sampler;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use burn::{
    nn::gru::{Gru, GruConfig},
    tensor::{DType, Device, Distribution, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig, GruSpec};

#[cfg(feature = "gpu")]
pub use memory_sampler::MemorySampler;

/// Name; N, T, I, H, layers, directions.
pub const SHAPES: &[(&str, [usize; 6])] = &[
    ("cell", [1, 1, 64, 128, 1, 1]),
    ("stream", [1, 128, 64, 128, 1, 1]),
    ("audio", [1, 2048, 1, 32, 1, 1]),
    ("char-s", [32, 64, 128, 256, 1, 1]),
    ("char-l", [64, 100, 256, 512, 1, 1]),
    ("speech", [16, 400, 80, 512, 1, 1]),
    ("long", [8, 2048, 64, 64, 1, 1]),
    ("big", [64, 50, 1024, 1024, 1, 1]),
    ("bi-char", [32, 64, 128, 256, 1, 2]),
    ("deep-char", [32, 64, 128, 256, 3, 1]),
];

/// All modes.
pub const MODES: [Mode; 3] = [Mode::Infer, Mode::TrainForward, Mode::ForwardBackward];

/// The timed work.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    /// Inference.
    Infer,
    /// Forward in training, which keeps what backward needs.
    TrainForward,
    /// Forward and backward: gradients of x, the initial state, all weights and biases.
    ForwardBackward,
}

impl Mode {
    /// The mode's name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Infer => "infer",
            Self::TrainForward => "train_fwd",
            Self::ForwardBackward => "fwd_bwd",
        }
    }
}

/// The number of inputs of each layer.
fn layer_inputs([_, _, i, h, layers, directions]: [usize; 6]) -> impl Iterator<Item = usize> {
    (0..layers).map(move |layer| if layer == 0 { i } else { h * directions })
}

/// Floating-point operations of the matrix products only.
pub fn flops(sizes: &[usize; 6], mode: Mode) -> f64 {
    let &[n, t, _, h, _, directions] = sizes;
    let forward: usize = layer_inputs(*sizes)
        .map(|i| 2 * n * t * (i + h) * 3 * h * directions)
        .sum();
    let passes = if mode == Mode::ForwardBackward { 3 } else { 1 };
    (forward * passes) as f64
}

/// Floats that training keeps in addition to inputs and states, by the memory contract. `memory.rs`
/// measures it.
pub fn saved(&[n, t, _, h, layers, directions]: &[usize; 6]) -> usize {
    GruSpec::default().saved_per_unit() * n * t * h * layers * directions
}

/// Times of one call.
#[derive(Clone, Copy)]
pub struct Times {
    /// Milliseconds.
    pub median: f64,
    /// The shortest sample, in milliseconds.
    pub least: f64,
    /// The median until the call returns, in milliseconds.
    pub host: f64,
    /// The number of samples.
    pub samples: usize,
}

/// One sample: milliseconds until the call returns, and until the device has finished.
#[derive(Clone, Copy)]
struct Sample {
    host: f64,
    done: f64,
}

/// Times of Burn's `Gru` and of `GruBlock`, interleaved, for `patience` or at least a few calls.
pub fn side_by_side(
    sizes: &[usize; 6],
    mode: Mode,
    device: &Device,
    patience: Duration,
) -> (Times, Times) {
    let device = match mode {
        Mode::Infer => device.clone(),
        _ => device.clone().autodiff(),
    };
    let case = Case::new(*sizes, &device);
    let burn = || case.burn(mode);
    let ours = || case.ours(mode);
    // Warms up, and chooses a batch of calls of at least a millisecond, so that the clock's resolution
    // does not matter.
    let batch = |run: &dyn Fn()| {
        time(run, 1, &device);
        let one = time(run, 1, &device).done;
        ((1.0 / one.max(1e-6)).ceil().max(1.0) as usize, one > 1e3)
    };
    // Every backward in Burn searches all graphs that no backward has freed. After some thousands of
    // graphs this takes minutes.
    let with_burn = mode != Mode::TrainForward;
    let (burn_batch, slow) = if with_burn { batch(&burn) } else { (1, false) };
    let (ours_batch, _) = batch(&ours);
    let (burn_least, ours_least) = if slow { (2, 3) } else { (5, 15) };
    let (mut burn_ms, mut ours_ms) = (Vec::new(), Vec::new());
    let start = Instant::now();
    let early = || start.elapsed() < patience;
    while ours_ms.len() < ours_least || (early() && ours_ms.len() < 101) {
        if with_burn && (burn_ms.len() < burn_least || early()) {
            burn_ms.push(time(&burn, burn_batch, &device));
        }
        ours_ms.push(time(&ours, ours_batch, &device));
    }
    (times(burn_ms), times(ours_ms))
}

fn time(run: &dyn Fn(), batch: usize, device: &Device) -> Sample {
    device.sync().expect("the device works");
    let start = Instant::now();
    (0..batch).for_each(|_| run());
    let ms = || start.elapsed().as_secs_f64() * 1e3 / batch as f64;
    let host = ms();
    device.sync().expect("the device works");
    Sample { host, done: ms() }
}

fn times(samples: Vec<Sample>) -> Times {
    let sorted = |of: fn(&Sample) -> f64| {
        let mut ms: Vec<f64> = samples.iter().map(of).collect();
        ms.sort_by(f64::total_cmp);
        ms
    };
    let (done, host) = (sorted(|s| s.done), sorted(|s| s.host));
    let middle = |ms: &[f64]| ms.get(ms.len() / 2).copied().unwrap_or(f64::NAN);
    Times {
        median: middle(&done),
        least: done.first().copied().unwrap_or(f64::NAN),
        host: middle(&host),
        samples: samples.len(),
    }
}

/// GFLOP/s of the fastest of several square matrix products.
pub fn sgemm_rate(device: &Device, size: usize) -> f64 {
    let matrix = || Tensor::<2>::random([size, size], Distribution::Default, device);
    let (a, b) = (matrix(), matrix());
    let run = || drop(black_box(a.clone().matmul(b.clone())));
    run();
    let best = times((0..9).map(|_| time(&run, 1, device)).collect()).least;
    2.0 * (size as f64).powi(3) / (best * 1e6)
}

struct Case {
    /// By layer, then by direction.
    burn: Vec<Gru>,
    ours: GruBlock,
    directions: usize,
    x: Tensor<3>,
    h0: Tensor<3>,
    up: Tensor<3>,
}

impl Case {
    fn new(sizes: [usize; 6], device: &Device) -> Self {
        let [n, t, i, h, layers, directions] = sizes;
        let burn: Vec<Gru> = layer_inputs(sizes)
            .flat_map(|i| (0..directions).map(move |_| i))
            .map(|i| GruConfig::new(i, h, true).init(device))
            .collect();
        let weights = burn.iter().map(|gru| {
            let block = GruBlock::try_from(gru.clone()).expect("the default has kernels");
            block.layers[0].weights()
        });
        let ours = GruBlockConfig::new(i, h)
            .with_num_layers(layers)
            .with_bidirectional(directions == 2)
            .init_with(weights.collect())
            .expect("the shapes match the configuration");
        let noise =
            |shape: [usize; 3]| Tensor::random(shape, Distribution::Default, (device, DType::F32));
        Self {
            burn,
            ours,
            directions,
            x: noise([n, t, i]),
            h0: noise([layers * directions, n, h]),
            up: noise([n, t, directions * h]),
        }
    }

    fn burn(&self, mode: Mode) {
        self.run(mode, |x, h0| {
            let mut x = x;
            for (l, layer) in self.burn.chunks(self.directions).enumerate() {
                let outputs = layer.iter().enumerate().map(|(d, gru)| {
                    let state = h0
                        .clone()
                        .narrow(0, l * self.directions + d, 1)
                        .squeeze_dim(0);
                    match d {
                        0 => gru.forward(x.clone(), Some(state)),
                        _ => gru.forward(x.clone().flip([1]), Some(state)).flip([1]),
                    }
                });
                x = Tensor::cat(outputs.collect(), 2);
            }
            x
        });
    }

    fn ours(&self, mode: Mode) {
        self.run(mode, |x, h0| self.ours.forward(x, Some(h0)).0);
    }

    fn run(&self, mode: Mode, forward: impl Fn(Tensor<3>, Tensor<3>) -> Tensor<3>) {
        let (x, h0) = (self.x.clone(), self.h0.clone());
        if mode == Mode::Infer {
            black_box(forward(x, h0));
            return;
        }
        let (x, h0) = (x.require_grad(), h0.require_grad());
        let y = forward(x.clone(), h0.clone());
        if mode == Mode::ForwardBackward {
            let gradients = (y * self.up.clone()).sum().backward();
            black_box((x.grad(&gradients), h0.grad(&gradients)));
        } else {
            black_box(y);
        }
    }
}
