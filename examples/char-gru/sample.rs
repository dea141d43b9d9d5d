//! Writing: one `step` per character.

use std::cmp::Ordering;
use std::time::Instant;

use burn::tensor::{Device, Int, Tensor};
use rand::Rng;
use rand::distr::{Distribution, weighted::WeightedIndex};

use crate::config::Writing;
use crate::error::Error;
use crate::model::CharGru;
use crate::vocabulary::Vocabulary;

/// The tokens to continue: those of the prompt, or a line's beginning, or the text's.
pub fn prompt(writing: &Writing, vocabulary: &Vocabulary) -> Result<Vec<i32>, Error> {
    match writing.prompt.as_deref() {
        Some(prompt) if !prompt.is_empty() => vocabulary.encode(prompt),
        _ => Ok(vocabulary.encode("\n").unwrap_or_else(|_| vec![0])),
    }
}

/// Continue `prompt`, handing out each token as soon as it is drawn; characters per second.
pub fn sample(
    model: &CharGru,
    prompt: &[i32],
    writing: &Writing,
    rng: &mut impl Rng,
    device: &Device,
    mut emit: impl FnMut(usize),
) -> Result<f64, Error> {
    let step = |token: i32, state| model.step(Tensor::<1, Int>::from_ints([token], device), state);

    let (&first, rest) = prompt.split_first().expect("a prompt has a character");
    let (mut logits, mut state) = step(first, None);
    for &token in rest {
        (logits, state) = step(token, Some(state));
    }
    let start = Instant::now();
    for _ in 0..writing.length {
        let scores = logits
            .try_into_vec_as::<f32>()
            .map_err(|reason| Error::Device(reason.to_string()))?;
        let token = draw(&scores, writing.temperature, writing.top_k, rng)?;
        emit(token);
        (logits, state) = step(token as i32, Some(state));
    }
    Ok(writing.length as f64 / start.elapsed().as_secs_f64().max(1e-9))
}

/// Draw an index with probability proportional to `exp(score / temperature)`, out of the `top_k`
/// best if there are so many.
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
    // Relative to the best score, whose weight is then 1: the sum can neither overflow nor vanish.
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
    use rand::SeedableRng;
    use rand::rngs::StdRng;

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
    fn a_broken_model_is_no_panic() {
        let mut rng = StdRng::seed_from_u64(1);
        assert!(draw(&[f32::NAN; 3], 1.0, None, &mut rng).is_err());
        assert!(draw(&[f32::NAN; 3], 1.0, Some(1), &mut rng).is_err());
    }
}
