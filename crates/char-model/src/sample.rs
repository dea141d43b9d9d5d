//! Generates text: one `step` per character.

use std::cmp::Ordering;

use burn::tensor::{Device, Int, Tensor};
use rand::distr::{Distribution, weighted::WeightedIndex};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::error::Error;
use crate::model::CharGru;
use crate::vocabulary::Vocabulary;

/// How the next character is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Below 1, likely characters are preferred. Above 1, unlikely characters become more frequent.
    pub temperature: f64,
    /// Choose only among this many of the most likely characters.
    pub top_k: Option<usize>,
    /// Equal seeds give equal characters.
    pub seed: u64,
}

/// The tokens to continue: the prompt, the beginning of a line, or the beginning of the text.
pub fn prompt(prompt: Option<&str>, vocabulary: &Vocabulary) -> Result<Vec<i32>, Error> {
    match prompt {
        Some(prompt) if !prompt.is_empty() => vocabulary.encode(prompt),
        _ => Ok(vocabulary.encode("\n").unwrap_or_else(|_| vec![0])),
    }
}

/// Generates text with a model.
pub struct Writer {
    model: CharGru,
    device: Device,
    choice: Choice,
    rng: StdRng,
    logits: Tensor<2>,
    state: Tensor<3>,
}

impl Writer {
    /// Reads the tokens of `prompt`.
    ///
    /// # Panics
    /// If `prompt` is empty.
    pub fn new(model: &CharGru, prompt: &[i32], choice: Choice, device: &Device) -> Self {
        let (&first, rest) = prompt.split_first().expect("a prompt has a character");
        let (mut logits, mut state) = model.step(token(first, device), None);
        for &next in rest {
            (logits, state) = model.step(token(next, device), Some(state));
        }
        Self {
            model: model.clone(),
            device: device.clone(),
            choice,
            rng: StdRng::seed_from_u64(choice.seed),
            logits,
            state,
        }
    }

    /// Draws the next token and reads it from the device.
    pub async fn write(&mut self) -> Result<usize, Error> {
        let failed = |reason: &dyn std::fmt::Display| Error::device(reason);
        let scores = self.logits.clone().into_data_async().await;
        let scores = scores.map_err(|e| failed(&e))?;
        let scores = scores.try_into_vec::<f32>().map_err(|e| failed(&e))?;
        let Choice {
            temperature, top_k, ..
        } = self.choice;
        let drawn = draw(&scores, temperature, top_k, &mut self.rng)?;
        let next = token(drawn as i32, &self.device);
        (self.logits, self.state) = self.model.step(next, Some(self.state.clone()));
        Ok(drawn)
    }
}

fn token(token: i32, device: &Device) -> Tensor<1, Int> {
    Tensor::from_ints([token], device)
}

/// Draws an index with probability proportional to `exp(score / temperature)` among the `top_k` best.
fn draw(
    scores: &[f32],
    temperature: f64,
    top_k: Option<usize>,
    rng: &mut impl Rng,
) -> Result<usize, Error> {
    let worse = |a: &f32, b: &f32| b.total_cmp(a);
    let bound = match top_k {
        Some(k) if k < scores.len() => {
            let mut sorted = scores.to_vec();
            *sorted.select_nth_unstable_by(k - 1, worse).1
        }
        _ => f32::NEG_INFINITY,
    };
    // Relative to the best score, whose weight is 1, so that the sum cannot overflow or vanish.
    let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |&score: &f32| match score.partial_cmp(&bound) {
        Some(Ordering::Less) => 0.0,
        _ => (f64::from(score - best) / temperature).exp(),
    };
    let weights = WeightedIndex::new(scores.iter().map(weight));
    Ok(weights.map_err(|_| Error::NotFinite)?.sample(rng))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_draw_takes_the_best() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..100 {
            assert_eq!(draw(&[1.0, 3.0, 2.9], 1e-300, None, &mut rng).unwrap(), 1);
        }
    }

    #[test]
    fn frequencies_follow_the_scores() {
        let mut rng = StdRng::seed_from_u64(1);
        let scores = [0.0, f32::ln(3.0)];
        let n = 20_000;
        let second = (0..n).filter(|_| draw(&scores, 1.0, None, &mut rng).unwrap() == 1);
        assert!((second.count() as f64 / n as f64 - 0.75).abs() < 0.02);
    }

    #[test]
    fn only_the_best_are_drawn() {
        let mut rng = StdRng::seed_from_u64(1);
        let scores = [0.3, 0.1, 0.4, 0.2];
        for _ in 0..200 {
            let drawn = draw(&scores, 10.0, Some(2), &mut rng).unwrap();
            assert!([0, 2].contains(&drawn), "{drawn}");
        }
    }

    #[test]
    fn broken_models_do_not_panic() {
        let mut rng = StdRng::seed_from_u64(1);
        assert!(draw(&[f32::NAN; 3], 1.0, None, &mut rng).is_err());
        assert!(draw(&[f32::NAN; 3], 1.0, Some(1), &mut rng).is_err());
    }
}
