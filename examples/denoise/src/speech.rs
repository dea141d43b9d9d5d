//! Synthetic speech by Fant's source-filter model: glottal pulses through moving formants, hisses
//! between them, pauses between phrases. It has no meaning.

use std::f32::consts::{PI, TAU};

use rand::Rng;
use rand::rngs::StdRng;

const RATE: f32 = crate::RATE as f32;

/// The first three formants of vowels in Hz: means of male speakers by Peterson and Barney (1952).
const VOWELS: [[f32; 3]; 6] = [
    [730.0, 1090.0, 2440.0],
    [270.0, 2290.0, 3010.0],
    [300.0, 870.0, 2240.0],
    [530.0, 1840.0, 2480.0],
    [570.0, 840.0, 2410.0],
    [660.0, 1720.0, 2410.0],
];
/// Higher formants, which hardly move.
const UPPER: [f32; 2] = [3500.0, 4500.0];
const BANDWIDTHS: [f32; 5] = [60.0, 90.0, 120.0, 175.0, 250.0];

/// `seconds` of speech with a level of 0.1 outside the pauses (root mean square, full scale 1).
pub fn speech(seconds: f32, rng: &mut StdRng) -> Vec<f32> {
    let wanted = samples(seconds);
    let mut voice = Voice::new();
    let mut sound = vec![0.0; samples(rng.random_range(0.4..0.6))];
    while sound.len() < wanted {
        phrase(&mut voice, &mut sound, rng);
        let pause = samples(rng.random_range(0.4..0.8));
        sound.resize(sound.len() + pause, 0.0);
    }
    sound.truncate(wanted);
    let spoken = || sound.iter().filter(|&&x| x != 0.0);
    let power = spoken().map(|x| x * x).sum::<f32>() / spoken().count().max(1) as f32;
    let gain = 0.1 / power.sqrt().max(f32::MIN_POSITIVE);
    sound.iter_mut().for_each(|x| *x *= gain);
    sound
}

/// The number of samples in some seconds.
fn samples(seconds: f32) -> usize {
    (seconds * RATE) as usize
}

/// Several syllables. Half of them start with a hiss. The pitch falls towards the end.
fn phrase(voice: &mut Voice, sound: &mut Vec<f32>, rng: &mut StdRng) {
    let syllables = rng.random_range(4..8);
    for k in 0..syllables {
        if rng.random_bool(0.5) {
            hiss(sound, rng);
        }
        let vowel = VOWELS[rng.random_range(0..VOWELS.len())];
        let stress = rng.random_range(0.6..1.0);
        let pitch = 135.0 - 40.0 * k as f32 / syllables as f32 + 25.0 * stress;
        let length = samples(rng.random_range(0.13..0.28));
        voice.vowel(vowel, pitch, stress, length, sound, rng);
        // The lips close.
        let gap = samples(rng.random_range(0.0..0.05));
        sound.resize(sound.len() + gap, 0.0);
    }
}

/// An unvoiced consonant: noise around 4 to 7 kHz.
fn hiss(sound: &mut Vec<f32>, rng: &mut StdRng) {
    let length = samples(rng.random_range(0.05..0.12));
    let mut filter = Resonator::default();
    let pitch = rng.random_range(4000.0..7000.0);
    filter.tune(pitch, 1500.0);
    for k in 0..length {
        let swell = (PI * k as f32 / length as f32).sin();
        sound.push(0.02 * swell * filter.next(rng.random_range(-1.0..1.0)));
    }
}

/// The state of glottis and vocal tract.
struct Voice {
    phase: f32,
    flow: f32,
    pitch: f32,
    formants: [f32; 3],
    mouth: [Resonator; 5],
}

impl Voice {
    fn new() -> Self {
        let mut mouth = [Resonator::default(); 5];
        for (k, formant) in UPPER.into_iter().enumerate() {
            mouth[3 + k].tune(formant, BANDWIDTHS[3 + k]);
        }
        Self {
            phase: 0.0,
            flow: 0.0,
            pitch: 140.0,
            formants: [500.0, 1500.0, 2500.0],
            mouth,
        }
    }

    fn vowel(
        &mut self,
        vowel: [f32; 3],
        pitch: f32,
        stress: f32,
        length: usize,
        sound: &mut Vec<f32>,
        rng: &mut StdRng,
    ) {
        // Formants and pitch reach their targets in about 40 ms.
        let pull = 1.0 / (0.04 * RATE);
        for k in 0..length {
            for (formant, aim) in self.formants.iter_mut().zip(vowel) {
                *formant += pull * (aim - *formant);
            }
            self.pitch += pull * (pitch - self.pitch);
            if k.is_multiple_of(48) {
                for (j, &formant) in self.formants.iter().enumerate() {
                    self.mouth[j].tune(formant, BANDWIDTHS[j]);
                }
            }
            self.phase += self.pitch / RATE;
            if self.phase >= 1.0 {
                // Pulses vary slightly.
                self.phase -= 1.0 + rng.random_range(-0.01..0.01);
            }
            let flow = glottal_flow(self.phase);
            // The lips radiate the derivative of the flow, with some breath noise.
            let source = flow - self.flow + 0.0005 * rng.random_range(-1.0..1.0);
            self.flow = flow;
            let swell = (PI * k as f32 / length as f32).sin().sqrt();
            let mouth = self.mouth.iter_mut();
            sound.push(stress * swell * mouth.fold(source, |x, formant| formant.next(x)));
        }
    }
}

/// Rosenberg's pulse: the glottis opens for 40% of a period, closes in 16%, and then stays closed.
fn glottal_flow(phase: f32) -> f32 {
    match phase {
        p if p < 0.4 => 0.5 - 0.5 * (PI * p / 0.4).cos(),
        p if p < 0.56 => (0.5 * PI * (p - 0.4) / 0.16).cos(),
        _ => 0.0,
    }
}

/// A filter with two poles and a gain of 1 at 0 Hz.
#[derive(Default, Clone, Copy)]
struct Resonator {
    a: [f32; 3],
    last: [f32; 2],
}

impl Resonator {
    fn tune(&mut self, pitch: f32, bandwidth: f32) {
        let radius = (-PI * bandwidth / RATE).exp();
        let (first, second) = (2.0 * radius * (TAU * pitch / RATE).cos(), -radius * radius);
        self.a = [1.0 - first - second, first, second];
    }

    fn next(&mut self, x: f32) -> f32 {
        let y = self.a[0] * x + self.a[1] * self.last[0] + self.a[2] * self.last[1];
        self.last = [y, self.last[0]];
        y
    }
}
