//! Files: formats, lengths, channels, and errors.

mod wavs;

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use denoise::denoiser::{Channel, Denoiser, FEATURES, Gains};
use denoise::error::Error;
use denoise::file::{self, Heard};
use denoise::model::Model;
use denoise::suppressor::Suppressor;
use denoise::wav::{LARGEST, Writer};
use denoise::weights::Weights;
use denoise::{FRAME, FULL_SCALE, bands::BANDS, demo};
use hound::WavSpec;
use tempfile::{TempDir, tempdir};
use wavs::{float, int, read, write};

fn model() -> Arc<Model> {
    Arc::new(Model::published())
}

/// The paths of input and output.
fn paths(folder: &TempDir) -> [PathBuf; 2] {
    ["in.wav", "out.wav"].map(|name| folder.path().join(name))
}

fn files(folder: &TempDir) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Denoises a file with these interleaved samples and returns the output.
fn denoise(spec: WavSpec, samples: &[f32]) -> Result<(Heard, Vec<f32>), Error> {
    let folder = tempdir().unwrap();
    let [from, to] = paths(&folder);
    write(&from, spec, samples);
    let done = file::denoise(&model(), &from, &to);
    assert_eq!(to.exists(), done.is_ok(), "a failed run leaves no file");
    assert_eq!(files(&folder), 1 + usize::from(done.is_ok()));
    let heard = done?;
    let (written, output) = read(&to);
    assert_eq!(written, spec);
    Ok((heard, output))
}

fn noisy(seconds: f32, seed: u64) -> Vec<f32> {
    let [_, noisy] = demo::sounds(seconds, seed);
    noisy
}

#[test]
fn every_format_gives_the_same_sound() {
    // Values that every format represents exactly, so only the output format matters.
    let steps = noisy(1.0, 5).into_iter().map(|x| (x * FULL_SCALE).round());
    let sound: Vec<f32> = steps.map(|x| x / FULL_SCALE).collect();
    let (_, float) = denoise(float(1), &sound).unwrap();
    assert!(float.iter().any(|x| x.abs() > 0.01));
    for bits in [16, 24, 32] {
        let (_, found) = denoise(int(bits, 1), &sound).unwrap();
        assert_eq!(found.len(), float.len());
        // Half a step of the format, because this test reads values as float32.
        let bound = 0.5 / (1u64 << (bits - 1)) as f32 + f32::EPSILON;
        for (found, float) in found.iter().zip(&float) {
            assert!((found - float).abs() <= bound, "{bits}: {found} {float}");
        }
    }
}

#[test]
fn any_length_comes_back() {
    for samples in [
        0,
        1,
        100,
        FRAME - 1,
        FRAME,
        FRAME + 1,
        2 * FRAME,
        5 * FRAME + 7,
    ] {
        let sound = &noisy(0.9, 6)[30_000..][..samples];
        let (heard, output) = denoise(int(16, 1), sound).unwrap();
        assert_eq!(output.len(), samples);
        assert_eq!(heard.samples, samples as u64);
    }
}

/// Gains of one for every band.
struct Open;

impl Gains for Open {
    fn frame(&mut self, _: &[f32; FEATURES], gains: &mut [f32; BANDS]) -> f32 {
        gains.fill(1.0);
        1.0
    }
}

#[test]
fn an_open_denoiser_is_one_frame_late_and_nothing_else() {
    let tone = |k: usize| 8000.0 * (k as f32 * 0.13).sin();
    let mut denoiser = Denoiser::new(Open);
    let mut output = [0.0; FRAME];
    for frame in 0..40 {
        let input = std::array::from_fn(|k| tone(frame * FRAME + k));
        denoiser.frame(&input, &mut output);
        // Only after the high-pass filter has settled. It shifts the phase of a tone ω by about 0.004/ω.
        if frame > 20 {
            for (k, y) in output.iter().enumerate() {
                let x = tone((frame - 1) * FRAME + k);
                assert!(
                    (x - y).abs() < 8000.0 * 1.1 * 0.004 / 0.13,
                    "{frame} {k}: {x} {y}"
                );
            }
        }
    }
}

impl Suppressor for Open {
    fn channel(&self) -> Box<dyn Channel> {
        Box::new(Denoiser::new(Self))
    }

    fn delay(&self) -> u64 {
        1
    }
}

#[test]
fn voices_are_counted_in_the_frames_of_the_file() {
    let folder = tempdir().unwrap();
    let [from, to] = paths(&folder);
    write(&from, int(16, 2), &noisy(0.4, 5));
    let heard = file::denoise(&Open, &from, &to).unwrap();
    assert_eq!(heard.voiced, 1.0);
}

#[test]
fn output_is_in_step_with_input() {
    let [clean, noisy] = demo::sounds(3.0, 7);
    let (_, output) = denoise(float(1), &noisy).unwrap();
    let along = |shift: isize| -> f32 {
        let places = 1000..clean.len() - 1000;
        places
            .map(|k| clean[k] * output[k.strict_add_signed(shift)])
            .sum()
    };
    let shifts = -960..=960;
    let best = shifts
        .max_by(|&a, &b| along(a).total_cmp(&along(b)))
        .unwrap();
    // The high-pass filter shifts the phase of the voice's lowest tones slightly.
    assert!(best.abs() <= 3, "{best}");
}

#[test]
fn digital_silence_passes_and_leaves_the_states_alone() {
    let (heard, output) = denoise(int(16, 1), &[0.0; 5000]).unwrap();
    assert!(output.iter().all(|&x| x == 0.0));
    assert_eq!(heard.voiced, 0.0);

    let frames = Cell::new(0);
    let mut denoiser = Denoiser::new(Counted(&frames));
    let mut run = |sound: &[f32]| {
        frames.set(0);
        for frame in sound.as_chunks::<FRAME>().0 {
            denoiser.frame(&frame.map(|x| x * FULL_SCALE), &mut [0.0; FRAME]);
        }
        frames.get()
    };
    let (noisy, silence) = (noisy(0.5, 5), [0.0; 50 * FRAME]);
    assert_eq!(run(&noisy), 50);
    // The high-pass filter decays in the first frames.
    run(&silence);
    assert_eq!(run(&silence), 0, "frames of the network in silence");
    assert_eq!(run(&noisy), 50);
}

/// Counts its frames.
struct Counted<'a>(&'a Cell<usize>);

impl Gains for Counted<'_> {
    fn frame(&mut self, _: &[f32; FEATURES], _: &mut [f32; BANDS]) -> f32 {
        self.0.set(self.0.get() + 1);
        0.0
    }
}

#[test]
fn channels_are_independent() {
    let (a, b) = (noisy(0.7, 8), noisy(0.7, 9));
    let alone = [&a, &b].map(|sound| denoise(int(16, 1), sound).unwrap().1);
    for order in [[0, 1, 1], [1, 0, 0]] {
        let sounds = [&a, &b];
        let frames = (0..a.len()).flat_map(|k| order.map(|channel| sounds[channel][k]));
        let (heard, output) = denoise(int(16, 3), &frames.collect::<Vec<_>>()).unwrap();
        assert_eq!(heard.channels, 3);
        for (place, channel) in order.into_iter().enumerate() {
            let found = output.iter().skip(place).step_by(3);
            assert!(found.eq(&alone[channel]), "{place}");
        }
    }
}

#[test]
fn a_file_may_be_written_over_itself() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("it.wav");
    let sound = noisy(0.5, 5);
    write(&path, int(16, 1), &sound);
    file::denoise(&model(), &path, &path).unwrap();
    assert_eq!(read(&path).1, denoise(int(16, 1), &sound).unwrap().1);
}

#[test]
fn failed_writes_leave_no_file() {
    let folder = tempdir().unwrap();
    let [from, to] = paths(&folder);
    write(&from, int(16, 1), &noisy(0.1, 5));
    // A folder is at the target path.
    fs::create_dir(&to).unwrap();
    let error = file::denoise(&model(), &from, &to).err().unwrap();
    assert!(matches!(error, Error::WriteWav { .. }), "{error}");
    assert_eq!(files(&folder), 2);
    let nowhere = folder.path().join("nowhere/out.wav");
    let error = file::denoise(&model(), &from, &nowhere).err().unwrap();
    assert!(error.to_string().contains("nowhere"), "{error}");
    // An error between two frames.
    drop(Writer::create(&folder.path().join("third.wav"), int(16, 1)).unwrap());
    assert_eq!(files(&folder), 2);
}

#[test]
fn invalid_samples_are_reported_with_their_place() {
    for bad in [
        f32::NAN,
        f32::INFINITY,
        -f32::INFINITY,
        1.01 * LARGEST,
        -1e30,
    ] {
        let mut sound = vec![0.1; 4000];
        sound[2 * 1234 + 1] = bad;
        let error = denoise(float(2), &sound).err().unwrap();
        assert!(
            error.to_string().contains("sample 1234 of channel 2"),
            "{error}"
        );
        assert!(
            matches!(error, Error::Sample { found, .. } if found.to_bits() == bad.to_bits()
            || found == bad)
        );
    }
}

#[test]
fn the_largest_samples_give_numbers() {
    let noise = noisy(0.5, 5);
    let shapes: [&dyn Fn(usize) -> f32; 4] = [
        &|k| if k % 240 < 120 { LARGEST } else { -LARGEST },
        &|k| LARGEST * noise[k].signum(),
        &|k| LARGEST * (k as f32 * 0.05).sin(),
        &|_| LARGEST,
    ];
    for shape in shapes {
        let sound: Vec<f32> = (0..noise.len()).map(shape).collect();
        let (_, output) = denoise(float(1), &sound).unwrap();
        assert!(output.iter().all(|y| y.abs() < 4.0 * LARGEST));
        // Integers are clamped to full scale.
        let sound = sound.iter().map(|x| x.clamp(-1.0, 1.0)).collect::<Vec<_>>();
        denoise(int(16, 1), &sound).unwrap();
    }
}

#[test]
fn unsupported_wavs_are_errors() {
    let rate = |sample_rate| WavSpec {
        sample_rate,
        ..int(16, 1)
    };
    for (spec, expected) in [
        (rate(44_100), "48000 samples per second, got 44100"),
        (rate(16_000), "48000 samples per second, got 16000"),
        (int(8, 1), "8 bits of integers"),
        (int(16, 9), "1 to 8 channels, got 9"),
    ] {
        let error = denoise(spec, &[0.0; 18]).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn broken_wavs_are_errors() {
    let folder = tempdir().unwrap();
    let [from, to] = paths(&folder);
    write(&from, int(16, 2), &noisy(0.1, 5));
    let whole = fs::read(&from).unwrap();
    for length in [0, 1, 11, 12, 30, 43, 45, 47, 1000, whole.len() - 1] {
        fs::write(&from, &whole[..length]).unwrap();
        let error = file::denoise(&model(), &from, &to).err().unwrap();
        assert!(matches!(error, Error::ReadWav { .. }), "{length}: {error}");
        assert!(!to.exists() && files(&folder) == 1);
    }
    for at in 0..44 {
        for byte in [0x00, 0xff, 0x7f] {
            let mut broken = whole.clone();
            broken[at] = byte;
            fs::write(&from, broken).unwrap();
            // Any outcome is allowed except a panic or a partial file.
            let done = file::denoise(&model(), &from, &to).is_ok();
            assert_eq!(to.exists(), done);
            let _ = fs::remove_file(&to);
        }
    }
}

#[test]
fn the_published_weights_are_those_of_rnnoise() {
    let weights = Weights::published();
    let grus = [&weights.voice_gru, &weights.noise_gru, &weights.gain_gru];
    assert_eq!(
        grus.map(|gru| (gru.inputs, gru.units)),
        [(24, 24), (90, 48), (114, 96)]
    );
}

/// A model with unstable weights.
struct Unstable;

impl Suppressor for Unstable {
    fn channel(&self) -> Box<dyn Channel> {
        Box::new(Self)
    }

    fn delay(&self) -> u64 {
        1
    }
}

impl Channel for Unstable {
    fn frame(&mut self, _: &[f32; FRAME], output: &mut [f32; FRAME]) -> f32 {
        output.fill(f32::INFINITY);
        1.0
    }
}

#[test]
fn unstable_weights_are_reported() {
    let folder = tempdir().unwrap();
    let [from, to] = paths(&folder);
    write(&from, int(16, 1), &noisy(0.1, 5));
    let error = file::denoise(&Unstable, &from, &to).err().unwrap();
    assert!(matches!(error, Error::NotFinite { .. }), "{error}");
    assert!(!to.exists());
}

#[test]
fn program_prints_one_line_and_exits_with_1() {
    let folder = tempdir().unwrap();
    let [from, to] = paths(&folder);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_denoise"));
        let done = command.args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    };
    let [from_, to_] = [&from, &to].map(|path| path.to_str().unwrap());
    let fails = |arguments: &[&str], expected: &str| {
        let (code, out, error) = run(arguments);
        assert_eq!(code, Some(1), "{error}");
        assert!(out.is_empty() && error.lines().count() == 1, "{error}");
        assert!(
            error.starts_with("error: ") && error.contains(expected),
            "{error}"
        );
        assert!(!to.exists());
    };
    fails(&[from_, to_], "cannot read");
    write(&from, float(1), &[0.0, f32::NAN]);
    fails(&[from_, to_], "sample 1 of channel 1");
    write(&from, int(16, 1), &[]);
    fails(&["compare", from_], "expected samples, got none");
    write(&from, int(16, 2), &noisy(0.4, 5));
    let (code, out, error) = run(&[from_, to_]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(out.contains("0.20 s, 2 channels"), "{out}");
    let (code, out, _) = run(&["compare", from_]);
    assert_eq!(code, Some(0));
    let (code, _, error) = run(&["compare", from_, "--model", from_, "--precision", "int8"]);
    assert_eq!(code, Some(2), "compare runs every precision: {error}");
    for line in ["samples, of full scale", "a frame", "our network"] {
        assert!(out.contains(line), "{out}");
    }
}
