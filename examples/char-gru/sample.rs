//! Writing: one `step` per character.

use burn::tensor::{Device, Int, Tensor};
use rand::Rng;
use rand::distr::{Distribution, weighted::WeightedIndex};

use crate::error::Error;
use crate::model::CharGru;

/// Continue `prompt` by `length` tokens, handing out each as soon as it is drawn.
pub fn sample(
    model: &CharGru,
    prompt: &[i32],
    length: usize,
    temperature: f64,
    rng: &mut impl Rng,
    device: &Device,
    mut emit: impl FnMut(usize),
) -> Result<(), Error> {
    let step = |token: i32, state| model.step(Tensor::<1, Int>::from_ints([token], device), state);

    let (&first, rest) = prompt.split_first().expect("a prompt has a character");
    let (mut logits, mut state) = step(first, None);
    for &token in rest {
        (logits, state) = step(token, Some(state));
    }
    for _ in 0..length {
        let scores = logits
            .try_into_vec_as::<f32>()
            .map_err(|reason| Error::Device(reason.to_string()))?;
        let token = draw(&scores, temperature, rng);
        emit(token);
        (logits, state) = step(token as i32, Some(state));
    }
    Ok(())
}

/// Draw an index with probability proportional to `exp(score / temperature)`.
fn draw(scores: &[f32], temperature: f64, rng: &mut impl Rng) -> usize {
    // Relative to the best score, whose weight is then 1: the sum can neither overflow nor vanish.
    let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights = scores
        .iter()
        .map(|&score| (f64::from(score - best) / temperature).exp());
    WeightedIndex::new(weights)
        .expect("the scores of a trained model are finite")
        .sample(rng)
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
            assert_eq!(draw(&[1.0, 3.0, 2.9], 1e-300, &mut rng), 1);
        }
    }

    #[test]
    fn frequencies_follow_the_scores() {
        let mut rng = StdRng::seed_from_u64(1);
        let scores = [0.0, f32::ln(3.0)];
        let n = 20_000;
        let second = (0..n).filter(|_| draw(&scores, 1.0, &mut rng) == 1).count();
        assert!((second as f64 / n as f64 - 0.75).abs() < 0.02);
    }
}
