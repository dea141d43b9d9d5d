//! Generates text.

use burn::tensor::{Device, Int, Tensor};
use clap::Parser;
use rand::distr::{Distribution, weighted::WeightedIndex};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::data::Vocabulary;
use crate::error::Error;
use crate::model::CharGru;
use crate::train::{number, read};

/// How text is generated.
#[derive(Parser, Clone, Debug)]
pub struct Sampling {
    /// Text to continue. Default: the start of a line
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prompt: String,

    /// Number of characters
    #[arg(long, value_name = "COUNT", default_value_t = 500)]
    pub length: usize,

    /// Below 1 prefers likely characters, above 1 flattens the distribution
    #[arg(long, value_name = "TEMP", default_value_t = 0.7, value_parser = number(1e-3..=1e3))]
    pub temperature: f64, // few misspellings, little repetition

    /// Equal seeds generate equal text
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
}

/// The prompt and a generated text.
///
/// # Errors
/// If the model does not know a character of the prompt, if the device reports an error, or if the scores are not
/// finite.
pub async fn generate(
    model: &CharGru,
    vocabulary: &Vocabulary,
    sampling: &Sampling,
    device: &Device,
) -> Result<String, Error> {
    let mut text = sampling.prompt.clone();
    let mut tokens = vocabulary.encode(&text)?;
    if tokens.is_empty() {
        // The first token, if the text has one line.
        tokens = vocabulary.encode("\n").unwrap_or_else(|_| vec![0]);
    }
    let mut rng = StdRng::seed_from_u64(sampling.seed);
    let mut state = None;
    for _ in 0..sampling.length {
        let input = Tensor::<1, Int>::from_ints(&tokens[..], device);
        let (scores, next) = model.forward(input.unsqueeze(), state);
        state = Some(next);
        let scores = read(scores.narrow(0, tokens.len() - 1, 1)).await?;
        let token = draw(&scores, sampling.temperature, &mut rng)?;
        text.push(vocabulary.characters()[token]);
        tokens = vec![token as i32];
    }
    Ok(text)
}

/// Draws an index with probability proportional to `exp(score / temperature)`.
fn draw(scores: &[f32], temperature: f64, rng: &mut impl Rng) -> Result<usize, Error> {
    // Relative to the best score, whose weight is 1, so that the sum cannot overflow or vanish.
    let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |&score: &f32| (f64::from(score - best) / temperature).exp();
    let weights = WeightedIndex::new(scores.iter().map(weight));
    let weights = weights.map_err(|_| Error::NotFinite("score"))?;
    Ok(weights.sample(rng))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_scores() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut share = |scores: &[f32], temperature| {
            let draws = (0..20_000).map(|_| draw(scores, temperature, &mut rng).unwrap());
            draws.filter(|&drawn| drawn == 1).count() as f64 / 20_000.0
        };
        assert!((share(&[0.0, f32::ln(3.0)], 1.0) - 0.75).abs() < 0.02);
        assert_eq!(share(&[1.0, 3.0, 2.9], 1e-3), 1.0);
        assert!(draw(&[f32::NAN; 3], 1.0, &mut rng).is_err());
    }
}
