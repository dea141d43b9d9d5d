//! The loss of 1-gram and 2-gram models, as a reference for the GRU.

use std::collections::HashMap;

use crate::data::Corpus;

/// Pseudo-counts to try for the 2-gram model. The value with the lowest loss on the validation text is
/// used. This favours the reference, so a lower loss of the GRU is not an effect of the smoothing.
const PSEUDO_COUNTS: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];

/// The maximum vocabulary size for which pairs are counted.
const PAIRED: usize = 4096;

/// Cross-entropies in nats per character over the validation text without its first character. The GRU
/// predicts the same characters.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    pub unigram: f64,
    /// None if the vocabulary has too many pairs.
    pub bigram: Option<f64>,
}

impl Reference {
    /// Counts in the training part and evaluates on the validation part.
    pub fn new(corpus: &Corpus) -> Self {
        let vocabulary = corpus.vocabulary.len();
        let paired = vocabulary <= PAIRED;
        let counts = Counts::of(corpus.train(), paired);
        let judged = Counts::of(corpus.validation(), paired);
        let bigrams = PSEUDO_COUNTS.map(|k| counts.bigram(&judged, vocabulary, k));
        Self {
            unigram: counts.unigram(&judged, vocabulary),
            bigram: paired.then(|| bigrams.into_iter().fold(f64::INFINITY, f64::min)),
        }
    }
}

/// The count of each character, and of each pair of characters.
struct Counts {
    /// All characters except the last: the contexts of pairs.
    contexts: HashMap<i32, usize>,
    /// All characters.
    singles: HashMap<i32, usize>,
    pairs: HashMap<(i32, i32), usize>,
    all: usize,
    first: i32,
}

impl Counts {
    /// Counts at least one token.
    fn of(tokens: &[i32], paired: bool) -> Self {
        let mut counts = Self {
            contexts: HashMap::new(),
            singles: HashMap::new(),
            pairs: HashMap::new(),
            all: tokens.len(),
            first: tokens[0],
        };
        for &token in tokens {
            *counts.singles.entry(token).or_insert(0) += 1;
        }
        if paired {
            for (&before, &next) in tokens.iter().zip(&tokens[1..]) {
                *counts.contexts.entry(before).or_insert(0) += 1;
                *counts.pairs.entry((before, next)).or_insert(0) += 1;
            }
        }
        counts
    }

    /// `p(c) = (count(c) + 1) / (all + V)`: Laplace's rule, because every count is large.
    fn unigram(&self, judged: &Self, vocabulary: usize) -> f64 {
        let all = (self.all + vocabulary) as f64;
        let loss = |c: &i32| {
            let seen = self.singles.get(c).copied().unwrap_or(0);
            -((seen + 1) as f64 / all).ln()
        };
        let total: f64 = judged
            .singles
            .iter()
            .map(|(c, &n)| n as f64 * loss(c))
            .sum();
        (total - loss(&judged.first)) / (judged.all - 1) as f64
    }

    /// `p(c | b) = (count(b, c) + k) / (count(b, ·) + k·V)`.
    fn bigram(&self, judged: &Self, vocabulary: usize, k: f64) -> f64 {
        let loss = |pair: &(i32, i32)| {
            let context = self.contexts.get(&pair.0).copied().unwrap_or(0) as f64;
            let seen = self.pairs.get(pair).copied().unwrap_or(0) as f64;
            -((seen + k) / (context + k * vocabulary as f64)).ln()
        };
        let pairs = judged.pairs.iter();
        let total: f64 = pairs.map(|(pair, &n)| n as f64 * loss(pair)).sum();
        total / (judged.all - 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Three characters; training text abaca, validation text abc.
    const TRAIN: [i32; 5] = [0, 1, 0, 2, 0];
    const VALIDATION: [i32; 3] = [0, 1, 2];

    fn counts(tokens: &[i32]) -> Counts {
        Counts::of(tokens, true)
    }

    fn bigram(validation: &[i32], k: f64) -> f64 {
        counts(&TRAIN).bigram(&counts(validation), 3, k)
    }

    #[test]
    fn unigram_by_hand() {
        // b and c each occur once among five: (1 + 1) / (5 + 3).
        let expected = -(2.0f64 / 8.0).ln();
        let got = counts(&TRAIN).unigram(&counts(&VALIDATION), 3);
        assert!((got - expected).abs() < 1e-12);
    }

    #[test]
    fn bigram_by_hand() {
        // a occurs twice as context, followed by b once. b occurs once, never followed by c.
        let k = 0.5;
        let after_a = (1.0 + k) / (2.0 + 3.0 * k);
        let after_b = k / (1.0 + 3.0 * k);
        let expected = -(f64::ln(after_a) + f64::ln(after_b)) / 2.0;
        assert!((bigram(&VALIDATION, k) - expected).abs() < 1e-12);
    }

    #[test]
    fn probabilities_sum_to_one() {
        for k in PSEUDO_COUNTS {
            for context in 0..3 {
                let total: f64 = (0..3).map(|c| (-bigram(&[context, c], k)).exp()).sum();
                assert!((total - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn reference_uses_the_split() {
        // 18 characters for training, 2 for validation.
        let corpus = Corpus::new("abcabcabcabcabcabcab", 0.1, 3).unwrap();
        let reference = Reference::new(&corpus);
        // "a" then "b" occurs 6 times in 18.
        assert!((reference.unigram + (7.0f64 / 21.0).ln()).abs() < 1e-12);
        assert!(reference.bigram.unwrap() < 0.01);
    }
}
