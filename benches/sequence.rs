//! `GruBlock` beside `burn::nn::gru::Gru`: same backend, same process, same weights, turn by turn.
//! Milliseconds are medians.
//!
//!     cargo bench -p gru-benches [-- flex|ndarray] [SHAPE...]
//!
//! RAYON_NUM_THREADS sets the threads of both.

use burn::{
    nn::gru::{Gru, GruConfig},
    tensor::{DType, Device, Tensor, TensorData},
};
use gru_op::GruBlock;
use std::{hint::black_box, time::Instant};

/// N, T, I, H.
const SHAPES: &[(&str, [usize; 4])] = &[
    ("char-s", [32, 64, 128, 256]),
    ("char-l", [64, 100, 256, 512]),
    ("speech", [16, 400, 80, 512]),
    ("long", [8, 512, 64, 64]),
    ("stream", [1, 128, 64, 128]),
    ("audio", [1, 512, 1, 32]),
];

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let (backends, shapes): (Vec<&String>, Vec<&String>) = words
        .iter()
        .partition(|word| ["flex", "ndarray"].contains(&word.as_str()));
    #[allow(deprecated)] // Its users are served until it goes.
    let devices = [("flex", Device::flex()), ("ndarray", Device::ndarray())];
    println!(
        "backend  shape     inference ms: burn   ours  times   fwd+bwd ms: burn   ours  times"
    );
    for (backend, device) in devices {
        if !backends.is_empty() && !backends.iter().any(|b| *b == backend) {
            continue;
        }
        for &(shape, sizes) in SHAPES {
            if !shapes.is_empty() && !shapes.iter().any(|s| *s == shape) {
                continue;
            }
            let (burn, ours) = medians(|| Case::new(sizes, &device).inference());
            let autodiff = device.clone().autodiff();
            let (burn_train, ours_train) = medians(|| Case::new(sizes, &autodiff).training());
            println!(
                "{backend:8} {shape:8}  {burn:18.3} {ours:6.3} {:5.1}x  {burn_train:17.3} \
                 {ours_train:6.3} {:5.1}x",
                burn / ours,
                burn_train / ours_train,
            );
        }
    }
}

struct Case {
    theirs: Gru,
    ours: GruBlock,
    x: Tensor<3>,
    up: Tensor<3>,
}

/// A pair of things to time.
type Pair = (Box<dyn Fn()>, Box<dyn Fn()>);

impl Case {
    fn new([n, t, i, h]: [usize; 4], device: &Device) -> Self {
        let theirs = GruConfig::new(i, h, true).init(device);
        let noise = |shape: [usize; 3]| {
            let value = |k: usize| (k * 2_654_435_761 % 1000) as f32 / 500.0 - 1.0;
            let data = (0..shape.iter().product()).map(value).collect();
            Tensor::from_data(TensorData::new::<f32, _>(data, shape), (device, DType::F32))
        };
        Self {
            ours: GruBlock::try_from(theirs.clone()).expect("the default has kernels"),
            theirs,
            x: noise([n, t, i]),
            up: noise([n, t, h]),
        }
    }

    fn inference(self) -> Pair {
        let (theirs, x) = (self.theirs, self.x.clone());
        let burn = move || drop(black_box(theirs.forward(x.clone(), None)));
        let (ours, x) = (self.ours, self.x);
        let ours = move || drop(black_box(ours.forward(x.clone(), None)));
        (Box::new(burn), Box::new(ours))
    }

    fn training(self) -> Pair {
        let (theirs, x, up) = (self.theirs, self.x.clone(), self.up.clone());
        let burn = move || {
            let x = x.clone().require_grad();
            let y = theirs.forward(x.clone(), None);
            black_box(x.grad(&(y * up.clone()).sum().backward()));
        };
        let (ours, x, up) = (self.ours, self.x, self.up);
        let ours = move || {
            let x = x.clone().require_grad();
            let (y, _) = ours.forward(x.clone(), None);
            black_box(x.grad(&(y * up.clone()).sum().backward()));
        };
        (Box::new(burn), Box::new(ours))
    }
}

/// Medians of both in milliseconds, measured turn by turn so that both meet the same machine.
fn medians(pair: impl FnOnce() -> Pair) -> (f64, f64) {
    let (burn, ours) = pair();
    burn();
    ours();
    let start = Instant::now();
    let mut times = (Vec::new(), Vec::new());
    while times.0.len() < 5 || (start.elapsed().as_secs() < 2 && times.0.len() < 31) {
        for (run, times) in [(&burn, &mut times.0), (&ours, &mut times.1)] {
            let t = Instant::now();
            run();
            times.push(t.elapsed().as_secs_f64() * 1e3);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    (median(times.0), median(times.1))
}
