//! The sound is the sound of nnnoiseless, which is RNNoise in Rust with its own network.

use std::f32::consts::TAU;
use std::process::Command;

use denoise::denoiser::denoise;
use denoise::network::{Model, WEIGHTS};
use denoise::{FRAME, FULL_SCALE, RATE};
use gru_cpu::spec::Precision;
use nnnoiseless::{DenoiseState, RnnModel};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Four seconds of noise and of a voice that speaks three times a second: the harmonics of a pitch that glides.
fn noisy(seed: u64) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut phase = 0.0;
    let sample = |k: u32| {
        let second = k as f32 / RATE as f32;
        phase += (140.0 + 40.0 * (TAU * second).sin()) / RATE as f32;
        let voice: f32 = (1..30)
            .map(|h| (TAU * h as f32 * phase).sin() / h as f32)
            .sum();
        let loudness = (TAU * 3.0 * second).sin().max(0.0);
        0.1 * loudness * voice + rng.random_range(-0.05..0.05)
    };
    (0..4 * RATE).map(sample).collect()
}

fn of_nnnoiseless(sound: &[f32]) -> Vec<f32> {
    let model = RnnModel::from_bytes(WEIGHTS).unwrap();
    let mut state = DenoiseState::with_model(&model);
    let mut denoised = vec![0.0; sound.len()];
    for (x, y) in sound.chunks(FRAME).zip(denoised.chunks_mut(FRAME)) {
        let x: Vec<f32> = x.iter().map(|x| x * FULL_SCALE).collect();
        state.process_frame(y, &x);
    }
    denoised.iter().map(|y| y / FULL_SCALE).collect()
}

fn power(sound: impl Iterator<Item = f32>) -> f64 {
    sound.map(|x| f64::from(x).powi(2)).sum()
}

#[test]
fn the_sound_is_that_of_nnnoiseless() {
    for seed in [3, 4] {
        let noisy = noisy(seed);
        let expected = of_nnnoiseless(&noisy);
        let (full, _) = denoise(&Model::new(Precision::Full), &noisy);
        // nnnoiseless is a frame late.
        let expected = &expected[FRAME..];
        let pairs = full.iter().zip(expected);
        let largest = pairs.map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp);
        // nnnoiseless computes tanh and σ from a table with errors up to 3e-6. Measured: 4.6e-7.
        assert!(largest.unwrap() < 1e-6, "{largest:?}");
        // Three dB less than measured. RNNoise's weights have 8 bits, so 16 bits store them exactly.
        for (precision, least) in [(Precision::Bf16, 132.5), (Precision::Int8, 37.7)] {
            let (rounded, _) = denoise(&Model::new(precision), &noisy);
            let error = power(rounded.iter().zip(&full).map(|(a, b)| a - b));
            let db = 10.0 * (power(full.iter().copied()) / error).log10();
            assert!(db > least, "{precision:?}: {db} dB");
        }
    }
}

#[test]
fn the_program_writes_a_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["in.wav", "out.wav"].map(|name| folder.path().join(name));
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: RATE,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(&from, spec).unwrap();
    let noisy = noisy(5);
    for (k, x) in noisy[..RATE as usize + 7].iter().enumerate() {
        writer.write_sample((x * FULL_SCALE) as i16).unwrap();
        writer
            .write_sample(if k < 9000 { 0i16 } else { 300 })
            .unwrap();
    }
    writer.finalize().unwrap();
    let run = || {
        Command::new(env!("CARGO_BIN_EXE_denoise"))
            .args([&from, &to])
            .output()
            .unwrap()
    };
    let output = run();
    assert!(output.status.success(), "{output:?}");
    let mut reader = hound::WavReader::open(&to).unwrap();
    assert_eq!((reader.spec().channels, reader.duration()), (2, RATE + 7));
    let samples: Vec<f32> = reader.samples().map(Result::unwrap).collect();
    let channel = |c: usize| samples.iter().skip(c).step_by(2);
    // Silence passes unchanged, and noise without a voice gets quieter.
    assert!(channel(1).take(8000).all(|&x| x == 0.0));
    let [before, after] = [&noisy[..], &channel(0).copied().collect::<Vec<_>>()]
        .map(|sound| power(sound[RATE as usize / 2..][..4800].iter().copied()));
    assert!(after < 0.1 * before, "{before} {after}");
    // It does not replace a file, and leaves no other one.
    assert!(!run().status.success());
    assert_eq!(folder.path().read_dir().unwrap().count(), 2);
}
