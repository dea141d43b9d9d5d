//! Typical background noise: a hiss, mains hum, clatter.

use std::f32::consts::TAU;

use rand::Rng;
use rand::rngs::StdRng;

const RATE: f32 = crate::RATE as f32;

/// `samples` of noise with the given level (root mean square, full scale 1).
pub fn noise(samples: usize, level: f32, rng: &mut StdRng) -> Vec<f32> {
    let mut sound: Vec<f32> = (0..samples).map(|_| rng.random_range(-1.0..1.0)).collect();
    hum(&mut sound);
    clatter(&mut sound, rng);
    let power = sound.iter().map(|x| x * x).sum::<f32>() / samples.max(1) as f32;
    let gain = level / power.sqrt().max(f32::MIN_POSITIVE);
    sound.iter_mut().for_each(|x| *x *= gain);
    sound
}

/// 50 Hz and its harmonics, as from a transformer.
fn hum(sound: &mut [f32]) {
    for (harmonic, level) in [(1.0, 0.3), (2.0, 0.4), (3.0, 0.2), (5.0, 0.15), (7.0, 0.1)] {
        for (k, x) in sound.iter_mut().enumerate() {
            *x += level * (TAU * 50.0 * harmonic * (k as f32 / RATE)).sin();
        }
    }
}

/// About three hits per second, each with several decaying tones from 1.2 to 6 kHz.
fn clatter(sound: &mut [f32], rng: &mut StdRng) {
    let mut at = 0;
    loop {
        at += (rng.random_range(0.1..0.6) * RATE) as usize;
        if at >= sound.len() {
            return;
        }
        let loudness = rng.random_range(0.3..1.0);
        for _ in 0..4 {
            let pitch = rng.random_range(1200.0..6000.0);
            let decay = rng.random_range(0.004..0.012) * RATE;
            for (k, x) in sound[at..].iter_mut().take(4800).enumerate() {
                let k = k as f32;
                *x += loudness * (-k / decay).exp() * (TAU * pitch * k / RATE).sin();
            }
        }
    }
}
