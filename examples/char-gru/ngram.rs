//! What counting achieves: the loss of 1-gram and 2-gram models, as a reference for the GRU.

use std::collections::HashMap;

/// Pseudo-counts tried for the 2-gram model. The one best on the validation text itself is
/// kept: the reference gets the benefit, so being below it is no luck of smoothing.
const PSEUDO_COUNTS: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];

/// Cross-entropies in nats per character over the validation text without its first character,
/// which are the characters the GRU is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    pub unigram: f64,
    pub bigram: f64,
}

impl Reference {
    /// Count in `train`, judge on `validation`.
    pub fn new(train: &[i32], validation: &[i32], vocabulary: usize) -> Self {
        let bigram = PSEUDO_COUNTS
            .iter()
            .map(|&k| bigram(train, validation, vocabulary, k))
            .fold(f64::INFINITY, f64::min);
        Self {
            unigram: unigram(train, validation, vocabulary),
            bigram,
        }
    }
}

/// `p(c) = (count(c) + 1) / (all + V)`: Laplace's rule, as every count is large.
fn unigram(train: &[i32], validation: &[i32], vocabulary: usize) -> f64 {
    let counts = count(train.iter().copied());
    let all = (train.len() + vocabulary) as f64;
    mean(validation[1..].iter().map(|c| {
        let seen = counts.get(c).copied().unwrap_or(0);
        -((seen + 1) as f64 / all).ln()
    }))
}

/// `p(c | b) = (count(b, c) + k) / (count(b, ·) + k·V)`.
fn bigram(train: &[i32], validation: &[i32], vocabulary: usize, k: f64) -> f64 {
    let contexts = count(train[..train.len() - 1].iter().copied());
    let pairs = count(train.windows(2).map(|pair| (pair[0], pair[1])));
    mean(validation.windows(2).map(|pair| {
        let context = contexts.get(&pair[0]).copied().unwrap_or(0) as f64;
        let seen = pairs.get(&(pair[0], pair[1])).copied().unwrap_or(0) as f64;
        -((seen + k) / (context + k * vocabulary as f64)).ln()
    }))
}

fn count<T: Eq + std::hash::Hash>(items: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::new();
    for item in items {
        *counts.entry(item).or_insert(0) += 1;
    }
    counts
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

#[cfg(test)]
mod tests {
    use super::*;

    // Three characters; training text abaca, validation text abc.
    const TRAIN: [i32; 5] = [0, 1, 0, 2, 0];
    const VALIDATION: [i32; 3] = [0, 1, 2];

    #[test]
    fn unigram_by_hand() {
        // b and c were each seen once in five: (1 + 1) / (5 + 3).
        let expected = -(2.0f64 / 8.0).ln();
        assert!((unigram(&TRAIN, &VALIDATION, 3) - expected).abs() < 1e-12);
    }

    #[test]
    fn bigram_by_hand() {
        // After a (twice): b once. After b (once): never c.
        let k = 0.5;
        let after_a = (1.0 + k) / (2.0 + 3.0 * k);
        let after_b = k / (1.0 + 3.0 * k);
        let expected = -(f64::ln(after_a) + f64::ln(after_b)) / 2.0;
        assert!((bigram(&TRAIN, &VALIDATION, 3, k) - expected).abs() < 1e-12);
    }

    #[test]
    fn probabilities_sum_to_one() {
        for k in PSEUDO_COUNTS {
            for context in 0..3 {
                let total: f64 = (0..3)
                    .map(|c| (-bigram(&TRAIN, &[context, c], 3, k)).exp())
                    .sum();
                assert!((total - 1.0).abs() < 1e-12);
            }
        }
        let total: f64 = (0..3).map(|c| (-unigram(&TRAIN, &[0, c], 3)).exp()).sum();
        assert!((total - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_reference_takes_the_best_smoothing() {
        let reference = Reference::new(&TRAIN, &VALIDATION, 3);
        for k in PSEUDO_COUNTS {
            assert!(reference.bigram <= bigram(&TRAIN, &VALIDATION, 3, k));
        }
    }
}
