//! Compares the network with its equations and with nnnoiseless.
//!
//! nnnoiseless computes tanh, and σ through tanh, from a table. This program computes them to the
//! precision of float32. So the two programs differ by design. Three steps determine the expected
//! difference:
//!
//! 1. The table differs from tanh by at most [`OFF`] for all numbers.
//! 2. The twin with the table, in float32, equals nnnoiseless. Up to the rounding of float32, the twin with
//!    tanh equals this program.
//! 3. So the outputs of both programs differ by at most the difference of the two twins, plus rounding.
//!
//! No formula bounds the difference of samples: the pitch filter compares a gain with a correlation, and
//! jumps where they cross. Step 3 therefore runs the whole signal path.
//!
//! Rounding is measured too: a twin that rounds every value to float32 shows the loss of naive code.
//! Code with another order of sums loses about as much, and may lose [`ORDER`] times that.

mod distance;
mod twin;

use std::sync::Arc;

use denoise::FRAME;
use denoise::compare::{Outcome, features, ours, theirs};
use denoise::model::Model;
use denoise::network::Network;
use denoise::weights::PUBLISHED;
use distance::{largest, within};
use nnnoiseless::RnnModel;
use twin::{Arithmetic, EXACT, NAIVE, NAIVE_TABLE, TABLE, Twin, frames};

/// The table has steps of 0.04, so the nearest entry is at a distance of at most 0.02. The parabola
/// leaves out the cubic term: `0.02³/6·max|tanh'''| = 0.02³/6·2 = 2.7e-6`. Rounding to six decimals adds
/// half of the last decimal, or one if an entry is not the nearest.
const OFF: f64 = 3.7e-6;
/// The allowed rounding loss as a multiple of naive code. The number of operations is the same, and the
/// place of the largest error is random.
const ORDER: f64 = 4.0;
const SECONDS: f32 = 4.0;
const SEEDS: [u64; 2] = [3, 4];

fn twin(by: Arithmetic) -> Twin {
    Twin::new(PUBLISHED, by)
}

fn network() -> Network {
    let model = Model::published();
    Network::new(&Arc::new(model))
}

fn wide(features: &[[f32; 42]]) -> Vec<Vec<f64>> {
    let wide = |x: &[f32; 42]| x.map(f64::from).to_vec();
    features.iter().map(wide).collect()
}

/// Gains and voice of all frames.
fn outputs(mut twin: Twin, features: &[Vec<f64>]) -> Vec<f64> {
    let step = |x: &Vec<f64>| {
        let (mut gains, voice) = twin.step(x);
        gains.push(voice);
        gains
    };
    features.iter().flat_map(step).collect()
}

#[test]
fn nan_is_the_largest() {
    assert!(largest([f64::NAN, 1.0], [0.0, 0.0]).is_nan());
    assert!(largest([1.0, f64::NAN], [0.0, 0.0]).is_nan());
    assert_eq!(largest([1.0, -3.0, 2.0], [0.0; 3]), 3.0);
}

fn samples(a: &Outcome, b: &Outcome) -> f64 {
    let all = |outcome: &Outcome| outcome.frames.concat().into_iter().map(f64::from);
    largest(all(a), all(b))
}

fn voices(a: &Outcome, b: &Outcome) -> f64 {
    let all = |outcome: &Outcome| outcome.voice.clone().into_iter().map(f64::from);
    largest(all(a), all(b))
}

#[test]
fn the_table_is_off_by_less_than_its_cubic_term() {
    // Every hundred-thousandth number up to the end of the table, on both sides of zero.
    let points = (-850_000..=850_000).map(|k| f64::from(k) * 1e-5);
    let error = largest(points.clone().map(twin::table), points.map(f64::tanh));
    within("table", error, OFF);
    assert!(
        error > OFF / 2.0,
        "expected the error of a table, got {error:e}"
    );
}

#[test]
fn our_network_is_the_equations() {
    for seed in SEEDS {
        let features = features(&frames(SECONDS, seed));
        let mut network = network();
        let step = |x: &[f32; 42]| {
            use denoise::denoiser::Gains;
            let mut gains = [0.0; 22];
            let voice = network.frame(x, &mut gains);
            gains
                .into_iter()
                .chain([voice])
                .map(f64::from)
                .collect::<Vec<_>>()
        };
        let got: Vec<f64> = features.iter().flat_map(step).collect();
        let features = wide(&features);
        let exact = outputs(twin(EXACT), &features);
        let naive = outputs(twin(NAIVE), &features);
        assert_eq!(got.len(), exact.len());
        // The frames are not trivial: gains near both ends, and voices.
        assert!(exact.iter().any(|&g| g > 0.95) && exact.iter().any(|&g| g < 0.05));
        let rounding = largest(naive, exact.clone());
        within("rounding of naive code", rounding, 5e-6);
        within("our gains and voice", largest(got, exact), ORDER * rounding);
    }
}

#[test]
fn our_output_is_that_of_nnnoiseless() {
    let peer = RnnModel::from_bytes(PUBLISHED).unwrap();
    for seed in SEEDS {
        let frames = frames(SECONDS, seed);
        let loud = frames
            .as_flattened()
            .iter()
            .fold(0.0, |m: f32, x| m.max(x.abs()));
        assert!(loud > 5000.0 && frames.len() * FRAME > 150_000);
        let by = |by| ours(twin(by), &frames);
        let (exact, naive) = (by(EXACT), by(NAIVE));
        let (table, naive_table) = (by(TABLE), by(NAIVE_TABLE));
        let (ours, theirs) = (ours(network(), &frames), theirs(&peer, &frames));
        type Distance = fn(&Outcome, &Outcome) -> f64;
        for (name, distance) in [("voice", voices as Distance), ("samples", samples)] {
            // Half a unit in the last place of a probability near 1, and of a loud sample.
            let last = if name == "voice" { 3e-8 } else { 2e-3 };
            let of_theirs = distance(&theirs, &naive_table);
            within(
                &format!("{name}, nnnoiseless and naive code"),
                of_theirs,
                0.0,
            );
            let rounding = ORDER * distance(&naive, &exact) + last;
            let of_ours = distance(&ours, &exact);
            within(
                &format!("{name}, ours and the equations"),
                of_ours,
                rounding,
            );
            let table = distance(&exact, &table) + distance(&table, &naive_table);
            let of_both = distance(&ours, &theirs);
            within(
                &format!("{name}, ours and nnnoiseless"),
                of_both,
                rounding + table,
            );
        }
    }
}
