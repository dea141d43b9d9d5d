//! Eight concurrent calls against the same calls in sequence: milliseconds of a forward and a backward pass each, and
//! the ratio of the times.
//!
//!     cargo bench -p gru-cpu --bench together [-- SHAPE...]

use gru_cpu::{
    Gradients, Gru, Inputs, Sequence, Weights, buffer,
    spec::{GruSpec, Sizes},
};
use std::{thread, time::Instant};

const CALLS: usize = 8;

const SHAPES: &[(&str, [usize; 4])] = &[
    ("char-s", [32, 64, 128, 256]),
    ("char-l", [64, 100, 256, 512]),
    ("long", [8, 2048, 64, 64]),
    ("stream", [1, 128, 64, 128]),
    ("wide", [2, 64, 64, 512]),
];

fn main() {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    println!("{CALLS} calls, threads {}", rayon::current_num_threads());
    println!("shape     one by one ms   threads ms   ratio   tasks ms   ratio");
    for &(name, [n, t, i, h]) in SHAPES {
        if !chosen.is_empty() && !chosen.iter().any(|c| c == name) {
            continue;
        }
        let call = call(Sizes { n, t, i, h });
        // Interleaved in each repeat, so that a disturbance affects all three.
        let mut times: [Vec<f64>; 3] = Default::default();
        for _ in 0..7 {
            times[0].push(milliseconds(|| (0..CALLS).for_each(|_| call())));
            times[1].push(milliseconds(|| {
                thread::scope(|scope| {
                    (0..CALLS).for_each(|_| drop(scope.spawn(&call)));
                });
            }));
            times[2].push(milliseconds(|| {
                rayon::scope(|scope| (0..CALLS).for_each(|_| scope.spawn(|_| call())));
            }));
        }
        let [alone, threads, tasks] = times.map(median);
        println!(
            "{name:8} {alone:14.1} {threads:12.1} {:7.2} {tasks:10.1} {:7.2}",
            threads / alone,
            tasks / alone
        );
    }
}

/// A forward and a backward pass of these sizes.
fn call(sizes: Sizes) -> impl Fn() + Sync {
    let Sizes { n, t, i, h } = sizes;
    let noise = |len: usize, scale: f32| -> Vec<f32> {
        let value = |k: usize| scale * ((k * 2_654_435_761 % 1000) as f32 / 500.0 - 1.0);
        (0..len).map(value).collect()
    };
    let scale = 1.0 / (h as f32).sqrt();
    let (x, up) = (noise(n * t * i, 1.0), noise(n * t * h, 1.0));
    let (w_ih, w_hh) = (noise(i * 3 * h, scale), noise(h * 3 * h, scale));
    let gru = Gru::new(sizes, GruSpec::default());
    move || {
        let inputs = Inputs {
            sequence: Sequence::new(&x),
            weights: Weights::new(Some(&w_ih), &w_hh),
        };
        let mut states = buffer(n * t * h);
        let mut saved = buffer(n * t * h * gru.spec.saved_per_unit());
        gru.forward(&inputs, &mut states, Some(&mut saved));
        let mut d: [Vec<f32>; 3] = [x.len(), w_ih.len(), w_hh.len()].map(buffer);
        let [x, w_ih, w_hh] = &mut d;
        let to = Gradients {
            x: Some(x),
            w_ih: Some(w_ih),
            w_hh: Some(w_hh),
            ..Gradients::default()
        };
        gru.backward(&inputs, &states, Some(&saved), &up, to);
    }
}

fn milliseconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
