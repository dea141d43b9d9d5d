//! One step of a stack, one row, one thread, in each precision. All precisions are interleaved.
//!
//!     cargo bench -p gru-cpu --bench stack [-- ROUNDS]
//!
//! Microseconds, medians of the rounds. A sample is the mean of some steps in sequence.

use gru_cpu::{Stack, StackLayer, StackStream, Weights, spec::Precision, testing::Isa};
use std::{hint::black_box, sync::Arc, time::Instant};

/// Name, layers, I and H.
const SHAPES: [(&str, usize, [usize; 2]); 10] = [
    ("8 units", 1, [8, 8]),
    ("16 units", 1, [16, 16]),
    ("64 units", 1, [64, 64]),
    ("cell", 1, [64, 128]),
    ("g2p", 1, [256, 256]),
    ("DeepFilterNet 3", 5, [256, 256]),
    ("RNNoise 0.2", 3, [384, 384]),
    ("NSNet2 16 kHz", 2, [400, 400]),
    ("NSNet2 48 kHz", 2, [600, 600]),
    ("H 1024", 1, [1024, 1024]),
];
const PRECISIONS: [Precision; 3] = [Precision::Full, Precision::Bf16, Precision::Int8];

fn stack(precision: Precision, layers: usize, [i, h]: [usize; 2]) -> Stack {
    let mut seed = 1u64;
    let mut draw = |len: usize| -> Vec<f32> {
        let scale = 1.0 / (h as f32).sqrt();
        let next = |_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            ((seed >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale
        };
        (0..len).map(next).collect()
    };
    let weights: Vec<_> = (0..layers)
        .map(|k| {
            let inputs = if k == 0 { i } else { h };
            [draw(inputs * 3 * h), draw(h * 3 * h), draw(3 * h)]
        })
        .collect();
    let layers = weights.iter().map(|[w_ih, w_hh, b]| {
        StackLayer::new(Weights {
            b_ih: Some(b),
            b_hh: Some(b),
            ..Weights::new(Some(w_ih), w_hh)
        })
    });
    Stack::new(precision, [i, h], 1, &layers.collect::<Vec<_>>())
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|a| a.parse().ok());
    let rounds: usize = rounds.unwrap_or(31);
    let sets = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    for isa in sets {
        println!("{isa:?}");
        println!(
            "{:16} {:>9} {:>9} {:>9}",
            "µs a step", "Full", "Bf16", "Int8"
        );
        for (name, layers, sizes) in SHAPES {
            let mut streams = PRECISIONS.map(|precision| {
                let stack = isa.run(|| stack(precision, layers, sizes));
                StackStream::new(Arc::new(stack), 1)
            });
            let x = vec![0.5; sizes[0]];
            let weights = layers * 3 * sizes[1] * (sizes[0] + sizes[1]);
            let steps = (4_000_000 / weights).clamp(4, 200);
            let mut times = PRECISIONS.map(|_| Vec::new());
            for _ in 0..rounds {
                for (stream, times) in streams.iter_mut().zip(&mut times) {
                    stream.step(&x);
                    let start = Instant::now();
                    for _ in 0..steps {
                        black_box(stream.step(black_box(&x)));
                    }
                    times.push(start.elapsed().as_secs_f64() * 1e6 / steps as f64);
                }
            }
            let [full, bf16, int8] = times.map(median);
            println!("{name:16} {full:9.3} {bf16:9.3} {int8:9.3}");
        }
    }
}
