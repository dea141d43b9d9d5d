//! Splits a text into windows of N parallel streams.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::Error;
use crate::vocabulary::Vocabulary;

/// Validation streams start without context, which increases the loss. With at least this many
/// characters per stream, the average hardly changes.
const SHORTEST_VALIDATION_STREAM: usize = 1024;

/// The tokens of a text and their split: the beginning for training, the end for validation.
#[derive(Clone, Debug)]
pub struct Corpus {
    pub vocabulary: Arc<Vocabulary>,
    tokens: Arc<[i32]>,
    train: usize,
}

impl Corpus {
    /// Splits `text`. The training part must contain at least `seq` characters and their successors.
    pub fn new(text: &str, validation: f64, seq: usize) -> Result<Self, Error> {
        let vocabulary = Vocabulary::of(text)?;
        let tokens = vocabulary.encode(text)?;
        let needed = shortest_text(validation, seq);
        if tokens.len() < needed {
            return Err(Error::TooShort {
                found: tokens.len(),
                seq,
                needed,
            });
        }
        Ok(Self {
            train: train_length(tokens.len(), validation),
            vocabulary: Arc::new(vocabulary),
            tokens: tokens.into(),
        })
    }

    /// All tokens.
    pub fn tokens(&self) -> &[i32] {
        &self.tokens
    }

    /// The tokens for training.
    pub fn train(&self) -> &[i32] {
        &self.tokens[..self.train]
    }

    /// The tokens for validation.
    pub fn validation(&self) -> &[i32] {
        &self.tokens[self.train..]
    }

    /// At most `batch` streams of the training part, or fewer if a stream would not contain a window.
    pub fn train_streams(&self, batch: usize, seq: usize) -> Streams {
        let count = batch.min((self.train - 1) / seq);
        Streams::new(self.tokens.clone(), 0..self.train, count)
    }

    /// At most `batch` streams of the validation part.
    pub fn validation_streams(&self, batch: usize) -> Streams {
        Streams::judging(self.tokens.clone(), self.train..self.tokens.len(), batch)
    }
}

fn train_length(characters: usize, validation: f64) -> usize {
    (characters as f64 * (1.0 - validation)) as usize
}

/// The minimum length with a window and its successor for training, and one prediction for validation.
fn shortest_text(validation: f64, seq: usize) -> usize {
    let train = (seq + 1) as f64 / (1.0 - validation);
    let closed_form = train.max(1.0 / validation) as usize;
    // Rounding moves the result by a few characters.
    (closed_form.saturating_sub(1)..=usize::MAX)
        .find(|&n| {
            let train = train_length(n, validation);
            train > seq && n - train >= 2
        })
        .unwrap_or(usize::MAX)
}

/// Tokens split into N contiguous streams of equal length, which are read in parallel. Row `i` of a window continues row
/// `i` of the previous window, so the recurrent state can be carried.
#[derive(Clone, Debug)]
pub struct Streams {
    tokens: Arc<[i32]>,
    start: usize,
    count: usize,
    length: usize,
}

impl Streams {
    fn new(tokens: Arc<[i32]>, range: Range<usize>, count: usize) -> Self {
        Self {
            tokens,
            start: range.start,
            count,
            // The last character has no successor and therefore no target.
            length: (range.len() - 1) / count,
        }
    }

    /// At most `batch` streams of `range`, each long enough for validation.
    pub fn judging(tokens: Arc<[i32]>, range: Range<usize>, batch: usize) -> Self {
        let long_enough = range.len() / SHORTEST_VALIDATION_STREAM;
        Self::new(tokens, range, long_enough.clamp(1, batch))
    }

    /// N.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The largest shift of the first window within the streams. Another shift in each epoch moves the
    /// places where gradients are cut.
    pub fn slack(&self, seq: usize) -> usize {
        (seq - 1).min(self.length - seq)
    }

    /// The number of full windows after any shift up to [`slack`](Self::slack).
    pub fn full_windows(&self, seq: usize) -> usize {
        (self.length - self.slack(seq)) / seq
    }

    /// The number of characters in all windows of [`windows`](Self::windows).
    pub fn characters(&self) -> usize {
        self.count * self.length
    }

    /// The window of `seq` characters from the character `offset` of each stream. It is shorter at the end of the streams.
    pub fn window(&self, offset: usize, seq: usize) -> Window {
        let seq = seq.min(self.length - offset);
        let rows = |from: usize| {
            let start = |k: usize| self.start + k * self.length + from;
            let rows = (0..self.count).map(|k| &self.tokens[start(k)..][..seq]);
            rows.flatten().copied().collect()
        };
        Window::new(rows(offset), rows(offset + 1), self.count, seq)
    }

    /// All characters in windows of `seq` characters. The last window may be shorter.
    pub fn windows(&self, seq: usize) -> impl Iterator<Item = Window> {
        let offsets = (0..self.length).step_by(seq);
        offsets.map(move |offset| self.window(offset, seq))
    }
}

/// Inputs `[N, T]`, row-major, and the next token for each input.
#[derive(Debug, PartialEq)]
pub struct Window {
    inputs: Vec<i32>,
    targets: Vec<i32>,
    count: usize,
    seq: usize,
}

impl Window {
    /// A window of these tokens, row-major.
    ///
    /// # Panics
    /// If either does not have `count·seq` tokens.
    pub fn new(inputs: Vec<i32>, targets: Vec<i32>, count: usize, seq: usize) -> Self {
        assert_eq!([inputs.len(), targets.len()], [count * seq; 2]);
        Self {
            inputs,
            targets,
            count,
            seq,
        }
    }

    /// N.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Some of the rows.
    pub fn rows(&self, rows: Range<usize>) -> Self {
        let tokens = rows.start * self.seq..rows.end * self.seq;
        Self {
            inputs: self.inputs[tokens.clone()].to_vec(),
            targets: self.targets[tokens].to_vec(),
            count: rows.len(),
            seq: self.seq,
        }
    }

    /// The number of predictions: N·T.
    #[allow(clippy::len_without_is_empty)] // It never is.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Input tokens `[N, T]`.
    pub fn inputs(&self, device: &Device) -> Tensor<2, Int> {
        let data = TensorData::new(self.inputs.clone(), [self.count, self.seq]);
        Tensor::from_ints(data, device)
    }

    /// Target tokens `[N·T]`.
    pub fn targets(&self, device: &Device) -> Tensor<1, Int> {
        let data = TensorData::new(self.targets.clone(), [self.len()]);
        Tensor::from_ints(data, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz0123456789";

    #[test]
    fn rows_continue_rows_and_targets_follow_inputs() {
        let corpus = Corpus::new(ALPHABET, 0.25, 4).unwrap();
        let streams = corpus.train_streams(2, 4);
        assert_eq!(corpus.train().len(), 27);
        let [first, second] = [1, 5].map(|offset| streams.window(offset, 4));
        assert_eq!(
            first.targets[..4],
            first.inputs[1..4]
                .iter()
                .copied()
                .chain([first.targets[3]])
                .collect::<Vec<_>>()[..]
        );
        // Streams of 13 characters: rows begin at a distance of 13 and continue in the next window.
        let token = |c: char| corpus.vocabulary.token(c).unwrap();
        assert_eq!(
            first.inputs,
            "bcdeopqr".chars().map(token).collect::<Vec<_>>()
        );
        assert_eq!(
            second.inputs,
            "fghistuv".chars().map(token).collect::<Vec<_>>()
        );
        assert_eq!(
            second.targets,
            "ghijtuvw".chars().map(token).collect::<Vec<_>>()
        );
        assert_eq!(streams.window(9, 4).seq, 4);
    }

    #[test]
    fn validation_reads_everything_after_the_split() {
        let corpus = Corpus::new(ALPHABET, 0.25, 4).unwrap();
        let streams = corpus.validation_streams(8);
        assert_eq!(streams.count(), 1);
        let read: Vec<i32> = streams.windows(3).flat_map(|w| w.targets).collect();
        let token = |c: char| corpus.vocabulary.token(c).unwrap();
        assert_eq!(read, "23456789".chars().map(token).collect::<Vec<_>>());
    }

    #[test]
    fn any_shift_leaves_the_same_number_of_windows() {
        let corpus = Corpus::new(ALPHABET, 0.25, 4).unwrap();
        let streams = corpus.train_streams(2, 4);
        for shift in 0..=streams.slack(4) {
            let last = shift + 4 * (streams.full_windows(4) - 1);
            assert_eq!(streams.window(last, 4).seq, 4, "shift {shift}");
        }
    }

    #[test]
    fn the_shortest_text_is_just_enough() {
        for (validation, seq) in [(0.1, 64), (0.5, 1), (0.9, 3), (0.01, 10)] {
            let n = shortest_text(validation, seq);
            let text = "ab".repeat(n);
            assert!(Corpus::new(&text[..n], validation, seq).is_ok());
            let error = Corpus::new(&text[..n - 1], validation, seq).unwrap_err();
            assert!(error.to_string().contains(&n.to_string()), "{error}");
        }
    }

    /// Counting up to this length would take days.
    #[test]
    fn a_validation_part_near_one_is_an_error_at_once() {
        let error = Corpus::new("ab", 1.0 - 1e-15, 64).unwrap_err();
        assert!(matches!(error, Error::TooShort { .. }), "{error}");
        let most = shortest_text(1.0f64.next_down(), 65_536);
        assert_eq!(most, usize::MAX);
    }

    #[test]
    fn a_stream_for_each_window_at_most() {
        let corpus = Corpus::new("abcdefghij0123456789", 0.1, 5).unwrap();
        assert_eq!(corpus.train_streams(100, 5).count(), 3);
    }
}
