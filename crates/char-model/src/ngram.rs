//! The loss of 1-gram and 2-gram models, as a reference for the GRU.

use std::collections::HashMap;

use crate::data::Corpus;

/// Pseudo-counts to try for the 2-gram model. The value with the lowest loss on the validation text is
/// used. This favours the reference, so a lower loss of the GRU is not an effect of the smoothing.
const PSEUDO_COUNTS: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];

/// Cross-entropies in nats per character over the validation text without its first character. The GRU
/// predicts the same characters.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    pub unigram: f64,
    pub bigram: f64,
}

impl Reference {
    /// Counts in the training part and evaluates on the validation part.
    pub fn new(corpus: &Corpus) -> Self {
        let (train, judged) = (corpus.train(), corpus.validation());
        let vocabulary = corpus.vocabulary.len();
        // Laplace's rule, because every count is large.
        let unigram = Counts::of(train, 1).loss(&judged[1..], vocabulary, 1.0);
        let pairs = Counts::of(train, 2);
        let bigrams = PSEUDO_COUNTS.map(|k| pairs.loss(judged, vocabulary, k));
        Self {
            unigram,
            bigram: bigrams.into_iter().fold(f64::INFINITY, f64::min),
        }
    }
}

/// The count of each n-gram, and of each context: an n-gram without its last character.
struct Counts<'a> {
    n: usize,
    grams: HashMap<&'a [i32], usize>,
    contexts: HashMap<&'a [i32], usize>,
}

impl<'a> Counts<'a> {
    fn of(tokens: &'a [i32], n: usize) -> Self {
        let (mut grams, mut contexts) = (HashMap::new(), HashMap::new());
        for gram in tokens.windows(n) {
            *grams.entry(gram).or_insert(0) += 1;
            *contexts.entry(&gram[..n - 1]).or_insert(0) += 1;
        }
        Self { n, grams, contexts }
    }

    /// `p(c | b) = (count(b, c) + k) / (count(b, ·) + k·V)`.
    fn loss(&self, judged: &[i32], vocabulary: usize, k: f64) -> f64 {
        let loss = |gram: &[i32]| {
            let context = count(&self.contexts, &gram[..self.n - 1]) + k * vocabulary as f64;
            -((count(&self.grams, gram) + k) / context).ln()
        };
        let losses = judged.windows(self.n).map(loss);
        losses.sum::<f64>() / (judged.len() - self.n + 1) as f64
    }
}

fn count(counts: &HashMap<&[i32], usize>, key: &[i32]) -> f64 {
    counts.get(key).map_or(0.0, |&n| n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Three characters: abaca.
    const TRAIN: [i32; 5] = [0, 1, 0, 2, 0];

    fn bigram(validation: &[i32], k: f64) -> f64 {
        Counts::of(&TRAIN, 2).loss(validation, 3, k)
    }

    #[test]
    fn bigram_by_hand() {
        // a occurs twice as context, followed by b once. b occurs once, never followed by c.
        let k = 0.5;
        let after_a = (1.0 + k) / (2.0 + 3.0 * k);
        let after_b = k / (1.0 + 3.0 * k);
        let expected = -(f64::ln(after_a) + f64::ln(after_b)) / 2.0;
        assert!((bigram(&[0, 1, 2], k) - expected).abs() < 1e-12);
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
        assert!(reference.bigram < 0.01);
    }
}
