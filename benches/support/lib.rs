//! What all benchmarks of a whole layer share: the shapes with their numbers, the compared programs, and `GruBlock` next
//! to Burn's own `Gru`.

pub mod agree;
pub mod layer;
#[cfg(feature = "gpu")]
mod memory_sampler;
pub mod peer;
pub mod problem;

use std::{hint::black_box, time::Instant};

use burn::tensor::{Device, Distribution, Tensor};

pub use layer::{Layer, Program};
#[cfg(feature = "gpu")]
pub use memory_sampler::MemorySampler;
pub use peer::{NoAnswer, Peer};
pub use problem::{Kind, Problem, SHAPES, Shape};

/// All modes.
pub const MODES: [Mode; 2] = [Mode::Infer, Mode::ForwardBackward];

/// The timed work.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    /// Inference.
    Infer,
    /// Forward and backward: gradients of x, the initial state, all weights and biases.
    ForwardBackward,
}

impl Mode {
    /// The mode's name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Infer => "infer",
            Self::ForwardBackward => "fwd_bwd",
        }
    }

    /// The mode with this name.
    pub fn find(name: &str) -> Option<Self> {
        MODES.into_iter().find(|mode| mode.name() == name)
    }
}

/// Medians of one call, in milliseconds.
#[derive(Clone, Copy)]
pub struct Times {
    /// Until the device has finished.
    pub done: f64,
    /// Until the call returns.
    pub host: f64,
}

/// One sample of `batch` calls.
pub fn time(run: &dyn Fn(), batch: usize, device: &Device) -> Times {
    device.sync().expect("the device works");
    let start = Instant::now();
    (0..batch).for_each(|_| run());
    let ms = || start.elapsed().as_secs_f64() * 1e3 / batch as f64;
    let host = ms();
    device.sync().expect("the device works");
    Times { host, done: ms() }
}

/// The median. NaN without values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    match values.get(count / 2) {
        Some(&middle) if count % 2 == 1 => middle,
        Some(&middle) => 0.5 * (values[count / 2 - 1] + middle),
        None => f64::NAN,
    }
}

/// The 95% bootstrap interval of the median.
pub fn interval(samples: &[f64]) -> (f64, f64) {
    const DRAWS: usize = 2000;
    let mut state = 1u64;
    let mut draw = || {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % samples.len()
    };
    let mut medians: Vec<f64> = (0..DRAWS)
        .map(|_| median((0..samples.len()).map(|_| samples[draw()]).collect()))
        .collect();
    medians.sort_by(f64::total_cmp);
    (medians[DRAWS / 40], medians[DRAWS - 1 - DRAWS / 40])
}

/// GFLOP/s of the fastest of several square matrix products.
pub fn sgemm_rate(device: &Device, size: usize) -> f64 {
    let matrix = || Tensor::<2>::random([size, size], Distribution::Default, device);
    let (a, b) = (matrix(), matrix());
    let run = || drop(black_box(a.clone().matmul(b.clone())));
    run();
    let samples = (0..9).map(|_| time(&run, 1, device).done);
    2.0 * (size as f64).powi(3) / (samples.fold(f64::INFINITY, f64::min) * 1e6)
}
