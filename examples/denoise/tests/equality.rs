//! Compares the network with its equations in float64, and the whole signal path with nnnoiseless.
//!
//! No formula bounds the difference of samples: the pitch filter compares a gain with a correlation, and jumps where they
//! cross. So the whole signal path runs with this program's network, with the equations, and in nnnoiseless.
//!
//! Rounding is measured: a twin that rounds every value to float32 shows the loss of naive code. Code with another order
//! of sums loses about as much, and may lose [`ORDER`] times that.

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
use twin::{Arithmetic, EXACT, NAIVE, Twin, frames};

/// The allowed rounding loss as a multiple of naive code. The number of operations is the same, and the
/// place of the largest error is random.
const ORDER: f64 = 4.0;
const SECONDS: f32 = 4.0;
const SEEDS: [u64; 2] = [3, 4];
/// The allowed distance of a sample from nnnoiseless, which computes tanh, and σ through tanh, from a table with errors up
/// to 3e-6. 0.0256 and 0.0291 were measured with the two seeds, and 3.0e-6 and 8.2e-6 for the voice.
const SAMPLES: f64 = 0.046;
/// The same for the probability of a voice, with each seed.
const VOICES: [f64; 2] = [5.8e-6, 1.3e-5];

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
    for (seed, of_voice) in SEEDS.into_iter().zip(VOICES) {
        let frames = frames(SECONDS, seed);
        let loud = frames
            .as_flattened()
            .iter()
            .fold(0.0, |m: f32, x| m.max(x.abs()));
        assert!(loud > 5000.0 && frames.len() * FRAME > 150_000);
        let [exact, naive] = [EXACT, NAIVE].map(|by| ours(twin(by), &frames));
        let (ours, theirs) = (ours(network(), &frames), theirs(&peer, &frames));
        type Distance = fn(&Outcome, &Outcome) -> f64;
        // Half a unit in the last place of a probability near 1, and of a loud sample.
        for (name, distance, last, of_theirs) in [
            ("voice", voices as Distance, 3e-8, of_voice),
            ("samples", samples, 2e-3, SAMPLES),
        ] {
            let rounding = ORDER * distance(&naive, &exact) + last;
            let of_equations = distance(&ours, &exact);
            within(&format!("{name}, the equations"), of_equations, rounding);
            let of_peer = distance(&ours, &theirs);
            within(&format!("{name}, nnnoiseless"), of_peer, of_theirs);
        }
    }
}
