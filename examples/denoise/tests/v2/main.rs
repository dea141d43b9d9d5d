//! RNNoise 0.2, compared with the library stage by stage, and with its equations in float64.
//!
//! `reference.py` called the library and wrote `recorded.bin`. DENOISE_MODEL names the blob that `rnnoise_weights.py`
//! wrote. Without it, trials that need the weights are ignored, or fail if GRU_REQUIRE_MODELS is set.

#[path = "../distance/mod.rs"]
mod distance;
mod malformed;
mod oracle;
mod quality;
#[path = "../twin/mod.rs"]
mod twin;

use std::env;
use std::hint::black_box;
use std::sync::{Arc, OnceLock};

use allocation_counter::measure;
use denoise::FRAME;
use denoise::denoiser::{Channel, Gains};
use denoise::v2::FEATURES;
use denoise::v2::arrays::Arrays;
use denoise::v2::bands::BANDS;
use denoise::v2::denoiser::{Analysis, Denoiser};
use denoise::v2::model::{Model, Stored};
use denoise::v2::network::Network;
use distance::{largest, within};
use gru_cpu::spec::Precision;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use oracle::{Twin, features_of, high_pass};
use twin::{Arithmetic, EXACT, NAIVE};

const MODEL: &str = "DENOISE_MODEL";
const REQUIRE: &str = "GRU_REQUIRE_MODELS";
/// The allowed rounding loss as a multiple of the loss of other float32 code with the same operations. The place
/// of the largest error is random.
const ORDER: f64 = 4.0;
/// The first frame with a recorded output.
const OUTPUT: usize = 40;
/// Frames of the networks in float64, which are slow.
const FRAMES: usize = 24;

fn main() {
    let plain = |name: &str, test: fn()| {
        Trial::test(name.to_owned(), move || {
            test();
            Ok(())
        })
    };
    let weights = |name: &str, test: fn(&'static [u8])| {
        Trial::ignorable_test(name.to_owned(), move || with_blob(test))
    };
    let mut trials = vec![
        plain("v2/features", features),
        plain("v2/sound", sound),
        plain("v2/allocations", allocations),
        weights("v2/network", network),
        weights("v2/bytes", bytes),
        weights("v2/quality", quality::quality),
        weights("v2/program", quality::program),
    ];
    trials.extend(malformed::plain().map(|(name, test)| plain(name, test)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn with_blob(test: fn(&'static [u8])) -> Result<Completion, Failed> {
    static BLOB: OnceLock<Vec<u8>> = OnceLock::new();
    let Some(path) = env::var_os(MODEL) else {
        if env::var_os(REQUIRE).is_some() {
            return Err(Failed::from(format!(
                "{MODEL} is not set, and {REQUIRE} is"
            )));
        }
        return Ok(Completion::ignored_with(format!("{MODEL} is not set")));
    };
    test(BLOB.get_or_init(|| std::fs::read(path).unwrap()));
    Ok(Completion::Completed)
}

/// The recorded results of a frame. The gains of a silent frame are NaN.
struct Recorded {
    sound: [f32; FRAME],
    features: [f32; FEATURES],
    gains: [f32; BANDS],
    voice: f32,
}

/// All frames, and the output from [`OUTPUT`] on.
fn recorded() -> (Vec<Recorded>, Vec<f32>) {
    let bytes = include_bytes!("recorded.bin");
    let (of_sound, of_results) = (2 * FRAME, 4 * (FEATURES + BANDS + 1));
    // The size of the file is n·of_sound + n·of_results + (n − OUTPUT)·4·FRAME.
    let n = (bytes.len() + 4 * FRAME * OUTPUT) / (of_sound + of_results + 4 * FRAME);
    let (sounds, rest) = bytes.split_at(n * of_sound);
    let (results, output) = rest.split_at(n * of_results);
    assert_eq!(output.len(), 4 * FRAME * (n - OUTPUT));
    let floats = |bytes: &[u8]| -> Vec<f32> {
        let (words, _) = bytes.as_chunks();
        words.iter().map(|&word| f32::from_le_bytes(word)).collect()
    };
    let frame = |(sound, results): (&[u8], &[u8])| {
        let (sound, results) = (sound.as_chunks().0, floats(results));
        Recorded {
            sound: std::array::from_fn(|k| f32::from(i16::from_le_bytes(sound[k]))),
            features: results[..FEATURES].try_into().unwrap(),
            gains: results[FEATURES..][..BANDS].try_into().unwrap(),
            voice: results[FEATURES + BANDS],
        }
    };
    let frames = sounds
        .chunks_exact(of_sound)
        .zip(results.chunks_exact(of_results));
    (frames.map(frame).collect(), floats(output))
}

/// The library and this program compute the features in float32 with different Fourier transforms. The distance of
/// the library from float64 is the unit. The distance is largest where the sound stops: there the rounding of loud
/// samples remains in the filter.
fn features() {
    let (frames, _) = recorded();
    let exact = features_of(&frames);
    let mut analysis = Analysis::default();
    // Of each frame, ours and the library's, for both kinds of features.
    let mut distances = [const { [const { Vec::new() }; 2] }; 2];
    for (t, (frame, exact)) in frames.iter().zip(&exact).enumerate() {
        let Some(features) = analysis.frame(&frame.sound) else {
            assert!(frame.gains[0].is_nan(), "frame {t} is not silent");
            continue;
        };
        assert!(!frame.gains[0].is_nan(), "frame {t} is silent");
        let pitch = |features: &[f32]| (100.0 * features[2 * BANDS]).round();
        assert_eq!(pitch(&features), pitch(&frame.features), "frame {t}");
        for (part, distances) in distances.iter_mut().enumerate() {
            let range = part * BANDS..(part + 1) * BANDS;
            for (found, distances) in [&features, &frame.features].into_iter().zip(distances) {
                let found = found[range.clone()].iter().map(|&x| f64::from(x));
                distances.push(largest(found, exact[range.clone()].iter().copied()));
            }
        }
    }
    for (name, mut distances) in ["cepstrum", "correlation"].into_iter().zip(distances) {
        distances
            .iter_mut()
            .for_each(|all| all.sort_by(f64::total_cmp));
        let [ours, theirs] = distances;
        assert!((71..80).contains(&ours.len()), "some frames are silent");
        let (middle, last) = (ours.len() / 2, ours.len() - 1);
        // A wrong band or frame changes a feature by at least 0.1.
        within(&format!("{name}, the library"), theirs[last], 1e-2);
        within(&format!("{name}, ours"), ours[last], ORDER * theirs[last]);
        within(
            &format!("{name}, median"),
            ours[middle],
            ORDER * theirs[middle],
        );
    }
}

/// Gains that the library computed.
struct Replay<'a>(std::slice::Iter<'a, Recorded>);

impl Gains<FEATURES, BANDS> for Replay<'_> {
    fn frame(&mut self, _: &[f32; FEATURES], gains: &mut [f32; BANDS]) -> f32 {
        let frame = self.0.find(|frame| !frame.gains[0].is_nan()).unwrap();
        *gains = frame.gains;
        frame.voice
    }
}

/// With the gains of the library the sound equals the sound of the library, except for rounding:
/// - The library rounds the output of the high-pass filter to float32 before the feedback, nnnoiseless does not. The
///   filter amplifies the difference. Gains do not, and the windows of two frames overlap.
/// - Two transforms round log₂ 960 ≈ 10 times each, by at most 2⁻²⁴ of the loudest sample.
fn sound() {
    let (frames, expected) = recorded();
    let mut denoiser = Denoiser::new(Replay(frames.iter()));
    let mut output = [0.0; FRAME];
    let mut found = Vec::new();
    for frame in &frames {
        let voice = denoiser.frame(&frame.sound, &mut output);
        assert_eq!(voice, frame.voice);
        found.extend(output);
    }
    let loudest = expected.iter().fold(0.0f32, |most, y| most.max(y.abs()));
    assert!(loudest > 5000.0, "{loudest}");
    let found = found[OUTPUT * FRAME..].iter().map(|&y| f64::from(y));
    let difference = largest(found, expected.iter().map(|&y| f64::from(y)));
    let samples = || frames.iter().flat_map(|frame| frame.sound.map(f64::from));
    let round = |y| f64::from(y as f32);
    let theirs = high_pass(samples(), round, round);
    let of_filter = largest(high_pass(samples(), |y| y, round), theirs);
    within(
        "rounding of the filter",
        of_filter,
        1e-4 * f64::from(loudest),
    );
    let rounding = 20.0 * f64::from(loudest) * 2f64.powi(-24);
    within("samples", difference, 2.0 * of_filter + ORDER * rounding);
}

/// A frame allocates nothing, in any precision.
fn allocations() {
    let blob = malformed::blob(&malformed::arrays());
    let arrays = Arrays::parse(&blob).unwrap();
    let (frames, _) = recorded();
    for precision in [Precision::Full, Precision::Bf16, Precision::Int8] {
        let mut denoiser = Denoiser::new(Network::new(&model(&arrays, precision)));
        let mut output = [0.0; FRAME];
        // The analysis plans its transforms in the first frame.
        denoiser.frame(&frames[0].sound, &mut output);
        let counted = measure(|| {
            for frame in &frames {
                denoiser.frame(&frame.sound, &mut output);
            }
        });
        assert_eq!(counted.count_total, 0, "{precision:?}");
    }
    // Checks that the counter works.
    assert_eq!(measure(|| drop(black_box(vec![0u8; 10]))).count_total, 1);
}

/// RNNoise's tanh: a rational function, and a reciprocal with a relative error of up to 1.5·2⁻¹² (Intel's manual
/// about `rcpps`), here with a sign from the bits of the number. σ is computed from tanh.
const RATIONAL: Arithmetic = Arithmetic {
    tanh: |x| {
        let s = x * x;
        let above = x * (952.528_015_14 + s * (96.392_356_87 + s * 0.608_630_42));
        let below = 952.723_999_02 + s * (413.368_011_47 + s * 11.886_009_22);
        let sign = if x.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0 {
            1.0
        } else {
            -1.0
        };
        (above / below * (1.0 + sign * 1.5 * 2f64.powi(-12))).clamp(-1.0, 1.0)
    },
    ..EXACT
};

fn network(blob: &'static [u8]) {
    let arrays = Arrays::parse(blob).unwrap();
    let (frames, _) = recorded();
    let frames: Vec<_> = frames
        .iter()
        .filter(|frame| !frame.gains[0].is_nan())
        .collect();
    let frames = &frames[..FRAMES];
    let run = |by| {
        let mut twin = Twin::new(&arrays, by);
        let step = |frame: &&Recorded| twin.step(&frame.features.map(f64::from));
        frames.iter().flat_map(step).collect::<Vec<f64>>()
    };
    let (exact, naive, rational) = (run(EXACT), run(NAIVE), run(RATIONAL));
    // The frames are not trivial: gains near both ends, and voices.
    assert!(exact.iter().any(|&g| g > 0.95) && exact.iter().any(|&g| g < 0.05));
    let from_exact = |other: Vec<f64>| {
        assert_eq!(other.len(), exact.len());
        largest(other, exact.iter().copied())
    };
    let with_voice = |gains: [f32; BANDS], voice| gains.into_iter().chain([voice]).map(f64::from);
    let mut network = Network::new(&model(&arrays, Precision::Full));
    let ours = frames.iter().flat_map(|frame| {
        let mut gains = [0.0; BANDS];
        let voice = network.frame(&frame.features, &mut gains);
        with_voice(gains, voice)
    });
    let ours = from_exact(ours.collect());
    let rounding = from_exact(naive);
    within("rounding of naive code", rounding, 1e-4);
    within("our gains and voice", ours, ORDER * rounding);
    let theirs = frames
        .iter()
        .flat_map(|frame| with_voice(frame.gains, frame.voice));
    let approximation = from_exact(rational);
    within("approximate tanh", approximation, 1e-2);
    within(
        "gains and voice of the library",
        from_exact(theirs.collect()),
        ORDER * approximation,
    );
}

/// The blob has the weights in float32 and rounded to 8 bits.
fn bytes(blob: &'static [u8]) {
    let arrays = Arrays::parse(blob).unwrap();
    let model = |stored| Arc::new(Model::stored(&arrays, Precision::Full, stored).unwrap());
    let features: Vec<_> = recorded().0.iter().map(|frame| frame.features).collect();
    let [a, b] =
        [Stored::Floats, Stored::Bytes].map(|stored| quality::gains(&model(stored), &features));
    let difference = quality::rms(&a, &b);
    // Rounding to 8 bits leaves 1%. Half of a wrong gate would be 10 times as much.
    within("gains with 8 bits", difference, 3e-2);
    assert!(
        difference > 1e-3,
        "expected rounding errors, got {difference:e}"
    );
}

fn model(arrays: &Arrays<'_>, precision: Precision) -> Arc<Model> {
    Arc::new(Model::new(arrays, precision).unwrap())
}
