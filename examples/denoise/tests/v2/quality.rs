//! What 16 and 8 bits cost, and the program.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use denoise::FRAME;
use denoise::demo::{si_sdr, sounds};
use denoise::denoiser::Gains;
use denoise::suppressor::Suppressor;
use denoise::v2::FEATURES;
use denoise::v2::arrays::Arrays;
use denoise::v2::bands::BANDS;
use denoise::v2::denoiser::Analysis;
use denoise::v2::model::{Model, Stored};
use denoise::v2::network::Network;
use gru_cpu::spec::Precision;

use crate::{model, twin, within};

const SECONDS: f32 = 8.0;
const SEEDS: [u64; 2] = [1, 3];

/// The gains of all frames.
pub fn gains(model: &Arc<Model>, features: &[[f32; FEATURES]]) -> Vec<f32> {
    let mut network = Network::new(model);
    let mut all = Vec::new();
    for features in features {
        let mut gains = [0.0; BANDS];
        network.frame(features, &mut gains);
        all.extend(gains);
    }
    all
}

pub fn rms(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares = a.iter().zip(b).map(|(&a, &b)| f64::from(a - b).powi(2));
    (squares.sum::<f64>() / a.len() as f64).sqrt()
}

/// The sound, aligned with the input.
fn denoised(model: &Arc<Model>, frames: &[[f32; FRAME]]) -> Vec<f32> {
    let mut channel = model.channel();
    let silence = vec![[0.0; FRAME]; model.delay() as usize];
    let mut sound = Vec::new();
    for frame in frames.iter().chain(&silence) {
        let mut output = [0.0; FRAME];
        channel.frame(frame, &mut output);
        sound.extend(output);
    }
    sound.split_off(silence.len() * FRAME)
}

/// Bounds:
/// - gains with `Int8` are closer to float32 than with the 8-bit weights of RNNoise, which have one scale for each
///   output. `Bf16` is at least twice as close as `Int8`: 12 dB, less 6 dB for the network.
/// - SI-SDR from float32: 3 dB less than the smallest that was measured, 63.7 and 44.2 dB. Another order of sums
///   changes less, and a wrong scale leaves about 10 dB.
/// - SI-SDR from the clean speech changes by at most 0.1 dB.
pub fn quality(blob: &'static [u8]) {
    let arrays = Arrays::parse(blob).unwrap();
    let precisions = [Precision::Full, Precision::Bf16, Precision::Int8];
    let [full, bf16, int8] = precisions.map(|precision| model(&arrays, precision));
    let theirs = Arc::new(Model::stored(&arrays, Precision::Full, Stored::Bytes).unwrap());
    for seed in SEEDS {
        let frames = twin::frames(SECONDS, seed);
        let mut analysis = Analysis::default();
        let features: Vec<_> = frames.iter().filter_map(|x| analysis.frame(x)).collect();
        let exact = gains(&full, &features);
        let from_full = |model| rms(&gains(model, &features), &exact);
        let of_int8 = from_full(&int8);
        within("gains, Int8", of_int8, from_full(&theirs));
        within("gains, Bf16", from_full(&bf16), of_int8 / 2.0);

        let [mut clean, _] = sounds(SECONDS, seed);
        clean.truncate(frames.len() * FRAME);
        let sound = denoised(&full, &frames);
        let before = si_sdr(frames.as_flattened(), &clean);
        let after = si_sdr(&sound, &clean);
        println!("SI-SDR {before:.1} dB before, {after:.2} dB after");
        assert!(after > before + 3.0, "{before} {after}");
        for (model, name, least) in [(&bf16, "Bf16", 60.7), (&int8, "Int8", 41.2)] {
            let rounded = denoised(model, &frames);
            let ratio = si_sdr(&rounded, &sound);
            println!("{name}: {ratio:.1} dB from float32");
            assert!(
                ratio >= least,
                "{name}: {ratio} dB from float32, less than {least}"
            );
            let change = (si_sdr(&rounded, &clean) - after).abs();
            within(&format!("{name}, change of SI-SDR in dB"), change, 0.1);
        }
    }
}

/// The program denoises a file, and compares the precisions.
pub fn program(blob: &'static [u8]) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(path("weights.blob"), blob).unwrap();
    let run = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_denoise"))
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (done.status.code(), text(&done.stdout) + &text(&done.stderr))
    };
    let [model, noisy, first, second] = ["weights.blob", "noisy.wav", "a.wav", "b.wav"].map(path);
    let (code, text) = run(&["demo", folder.to_str().unwrap(), "--model", &model]);
    assert_eq!(code, Some(0), "{text}");
    // Frames at the wrong time have no likeness.
    let ratio = text.split("dB before,").last().unwrap().trim_start();
    let ratio: f64 = ratio.split(' ').next().unwrap().parse().unwrap();
    assert!(ratio > 8.0, "{text}");
    let (code, text) = run(&[&noisy, &first, "--model", &model]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(
        fs::read(&first).unwrap(),
        fs::read(path("denoised.wav")).unwrap()
    );
    let (code, text) = run(&[&noisy, &second, "--model", &model, "--precision", "int8"]);
    assert_eq!(code, Some(0), "{text}");
    assert_ne!(fs::read(&first).unwrap(), fs::read(&second).unwrap());
    let (code, text) = run(&["compare", &noisy, "--model", &model]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(
        text.lines().filter(|line| line.starts_with("0.2")).count(),
        3,
        "{text}"
    );
    let (code, text) = run(&[&noisy, &second, "--model", &noisy]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("noisy.wav cannot be used: expected a blob"),
        "{text}"
    );
    let (code, text) = run(&[&noisy, &second, "--precision", "int8"]);
    assert_eq!(code, Some(2), "{text}");
}
