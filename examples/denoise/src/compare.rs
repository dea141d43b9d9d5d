//! Compares this program with nnnoiseless on the same weights and the same sound.

use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use nnnoiseless::{DenoiseFeatures, DenoiseState, RnnModel};

use crate::bands::BANDS;
use crate::demo::si_sdr;
use crate::denoiser::{Channel, Denoiser, FEATURES, Gains};
use crate::error::Error;
use crate::model::Model;
use crate::network::Network;
use crate::stopwatch::{Timed, in_turn, median};
use crate::suppressor::Suppressor;
use crate::v2;
use crate::wav::{Planes, Reader};
use crate::weights::PUBLISHED;
use crate::{FRAME, FULL_SCALE};

/// Frames to compare: the first minute.
const FRAMES: usize = 6000;
/// Frames per sample. The two programs alternate after each sample. A sample takes about a millisecond
/// and is rarely interrupted.
const BLOCK: usize = 8;
/// Minimum number of samples. A short file repeats.
const BLOCKS: usize = 500;

/// The results of a program: its output, one frame late, and the voice probabilities.
pub struct Outcome {
    /// The output frames.
    pub frames: Vec<[f32; FRAME]>,
    /// The voice probability of each frame.
    pub voice: Vec<f32>,
}

/// Runs this program's channel over frames.
pub fn ours<G: Gains>(network: G, frames: &[[f32; FRAME]]) -> Outcome {
    let mut denoiser = Denoiser::new(network);
    collect(frames, |x, y| denoiser.frame(x, y))
}

/// Runs nnnoiseless over frames.
pub fn theirs(model: &RnnModel, frames: &[[f32; FRAME]]) -> Outcome {
    let mut state = DenoiseState::with_model(model);
    collect(frames, |x, y| state.process_frame(y, x))
}

fn collect(
    frames: &[[f32; FRAME]],
    mut step: impl FnMut(&[f32; FRAME], &mut [f32; FRAME]) -> f32,
) -> Outcome {
    let mut outcome = Outcome {
        frames: vec![[0.0; FRAME]; frames.len()],
        voice: Vec::with_capacity(frames.len()),
    };
    for (x, y) in frames.iter().zip(&mut outcome.frames) {
        outcome.voice.push(step(x, y));
    }
    outcome
}

/// The features of all frames that are not silent: the network's input.
pub fn features(frames: &[[f32; FRAME]]) -> Vec<[f32; FEATURES]> {
    let mut analysis = Box::new(DenoiseFeatures::new());
    let mut of = |frame: &[f32; FRAME]| {
        analysis.shift_and_filter_input(frame);
        let silent = analysis.compute_frame_features();
        (!silent)
            .then(|| analysis.features().try_into().ok())
            .flatten()
    };
    frames.iter().filter_map(&mut of).collect()
}

/// Compares on the first channel of a file and returns the report.
///
/// # Errors
/// If the file cannot be read or has no samples.
pub fn run(model: &Arc<Model>, path: &Path) -> Result<String, Error> {
    let frames = read(path)?;
    let peer = RnnModel::from_bytes(PUBLISHED).expect("the format is nnnoiseless'");
    let mut text = String::new();
    let seconds = frames.len() as f64 / 100.0;
    let _ = writeln!(
        text,
        "{}: {seconds:.2} s of its first channel",
        path.display()
    );
    let [a, b] = [ours(Network::new(model), &frames), theirs(&peer, &frames)];
    differences(&mut text, &a, &b);
    times(&mut text, model, &peer, &frames);
    Ok(text)
}

fn differences(text: &mut String, a: &Outcome, b: &Outcome) {
    let full = f64::from(FULL_SCALE);
    let samples = [a, b].map(|outcome| outcome.frames.concat());
    let _ = writeln!(
        text,
        "\ndifference from nnnoiseless         largest         rms"
    );
    for (name, [a, b], unit) in [
        ("samples, of full scale", [&samples[0], &samples[1]], full),
        ("probability of a voice", [&a.voice, &b.voice], 1.0),
    ] {
        let pairs = a.iter().zip(b);
        let differences = pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)) / unit);
        let largest = differences.clone().fold(0.0, |m: f64, d| m.max(d.abs()));
        let rms = (differences.map(|d| d * d).sum::<f64>() / a.len() as f64).sqrt();
        let _ = writeln!(text, "{name:28} {largest:14.2e}  {rms:10.2e}");
    }
}

fn times(text: &mut String, model: &Arc<Model>, peer: &RnnModel, frames: &[[f32; FRAME]]) {
    let features = features(frames);
    let (mut output, mut gains) = ([0.0; FRAME], [0.0; BANDS]);
    let mut denoiser = Denoiser::new(Network::new(model));
    let mut peer = DenoiseState::with_model(peer);
    let mut network = Network::new(model);
    let samples = vec![
        each(frames, move |x| {
            black_box(denoiser.frame(x, &mut output));
        }),
        each(frames, move |x| {
            black_box(peer.process_frame(&mut output, x));
        }),
        each(&features, move |x| {
            black_box(network.frame(x, &mut gains));
        }),
    ];
    let (blocks, times) = medians(frames.len(), samples);
    let _ = writeln!(text, "\nmedian of {blocks} samples, µs");
    for (name, time) in ["a frame", "a frame of nnnoiseless", "our network"]
        .iter()
        .zip(times)
    {
        let _ = writeln!(text, "{name:28} {time:14.1}");
    }
}

/// The number of samples, and the median time of each function for a frame, in µs.
fn medians(frames: usize, samples: Vec<Timed<'_>>) -> (usize, Vec<f64>) {
    let blocks = (frames / BLOCK).max(BLOCKS);
    let times = in_turn(blocks, samples).into_iter();
    let of_frame = |times| 1e6 * median(times) / BLOCK as f64;
    (blocks, times.map(of_frame).collect())
}

/// Compares RNNoise 0.1 and RNNoise 0.2 in each precision, float32 first, on the first channel of a file, and
/// returns the report.
///
/// # Errors
/// If the file cannot be read or has no samples.
pub fn precisions(
    model: &Arc<Model>,
    models: &[Arc<v2::model::Model>; 3],
    path: &Path,
) -> Result<String, Error> {
    let frames = read(path)?;
    let sound = |model: &Arc<v2::model::Model>| {
        let mut channel = model.channel();
        collect(&frames, |x, y| channel.frame(x, y)).frames.concat()
    };
    let full = sound(&models[0]);
    let ratio = |model| si_sdr(&sound(model), &full);
    let mut analysis = v2::denoiser::Analysis::default();
    let features: Vec<_> = frames.iter().filter_map(|x| analysis.frame(x)).collect();

    let mut channels = vec![model.channel()];
    channels.extend(models.iter().map(|model| model.channel()));
    let (mut output, mut gains) = ([0.0; FRAME], [0.0; v2::bands::BANDS]);
    let mut samples = Vec::new();
    for mut channel in channels {
        samples.push(each(&frames, move |x| {
            black_box(channel.frame(x, &mut output));
        }));
    }
    for model in models {
        let mut network = v2::network::Network::new(model);
        samples.push(each(&features, move |x| {
            black_box(network.frame(x, &mut gains));
        }));
    }
    let (blocks, times) = medians(frames.len(), samples);
    let mut text = format!(
        "{}: {:.2} s of its first channel, medians of {blocks} samples\n\n\
         RNNoise   GRUs   bytes of GRUs   a frame, µs   network, µs   SI-SDR from full, dB\n\
         0.1       full   {:13}   {:11.1}             –                      –\n",
        path.display(),
        frames.len() as f64 / 100.0,
        model.grus().map(|gru| gru.bytes()).iter().sum::<usize>(),
        times[0],
    );
    for (k, (name, model)) in ["full", "bf16", "int8"].iter().zip(models).enumerate() {
        let _ = writeln!(
            text,
            "0.2       {name}   {:13}   {:11.1}   {:11.1}   {:>20.1}",
            model.grus().bytes(),
            times[1 + k],
            times[1 + models.len() + k],
            ratio(model),
        );
    }
    Ok(text)
}

/// Runs `step` for a sample of the inputs. Does nothing without inputs: neither program runs its network in silence.
fn each<'a, X>(inputs: &'a [X], mut step: impl FnMut(&X) + 'a) -> Timed<'a> {
    Box::new(move |block| {
        for k in (block * BLOCK..(block + 1) * BLOCK).filter(|_| !inputs.is_empty()) {
            step(&inputs[k % inputs.len()]);
        }
    })
}

/// The frames of the first channel.
fn read(path: &Path) -> Result<Vec<[f32; FRAME]>, Error> {
    let mut reader = Reader::open(path)?;
    if reader.is_empty() {
        let path = path.to_path_buf();
        return Err(Error::Empty { path });
    }
    let frames = reader.len().div_ceil(FRAME as u64).min(FRAMES as u64);
    let mut planes = Planes::new();
    let next = |_| reader.frame(&mut planes).map(|()| planes[0]);
    (0..frames).map(next).collect()
}
