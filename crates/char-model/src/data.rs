//! Splits a text into windows of N parallel streams.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::Error;
use crate::text::{Reader, Text};
use crate::vocabulary::Vocabulary;

/// Validation streams start without context, which increases the loss. With at least this many
/// characters per stream, the average hardly changes.
const SHORTEST_VALIDATION_STREAM: usize = 1024;

/// A text and its split: the beginning for training, the end for validation.
#[derive(Clone, Debug)]
pub struct Corpus {
    pub vocabulary: Arc<Vocabulary>,
    text: Text,
    train: usize,
}

impl Corpus {
    /// Splits `text`. The training part must contain at least `seq` characters and their successors.
    pub fn new(
        text: Text,
        vocabulary: Vocabulary,
        validation: f64,
        seq: usize,
    ) -> Result<Self, Error> {
        let needed = shortest_text(validation, seq);
        if text.characters() < needed {
            return Err(Error::TooShort {
                found: text.characters(),
                seq,
                needed,
            });
        }
        Ok(Self {
            train: train_length(text.characters(), validation),
            vocabulary: Arc::new(vocabulary),
            text,
        })
    }

    /// The characters for training.
    pub fn train_range(&self) -> Range<usize> {
        0..self.train
    }

    /// The characters for validation.
    pub fn validation_range(&self) -> Range<usize> {
        self.train..self.text.characters()
    }

    /// The tokens from character `start`.
    pub fn tokens(&self, start: usize) -> Tokens {
        Tokens::new(&self.text, &self.vocabulary, start)
    }

    /// At most `batch` streams of the training part, or fewer if a stream would not contain a window.
    pub fn train_streams(&self, batch: usize, seq: usize) -> Streams {
        let count = batch.min((self.train - 1) / seq);
        Streams::new(&self.text, &self.vocabulary, self.train_range(), count)
    }

    /// At most `batch` streams of the validation part.
    pub fn validation_streams(&self, batch: usize) -> Streams {
        Streams::judging(&self.text, &self.vocabulary, self.validation_range(), batch)
    }
}

fn train_length(characters: usize, validation: f64) -> usize {
    (characters as f64 * (1.0 - validation)) as usize
}

/// The minimum length with a window and its successor for training, and one prediction for validation.
fn shortest_text(validation: f64, seq: usize) -> usize {
    let first_guess = (seq as f64 / (1.0 - validation)).max(1.0 / validation) as usize;
    (first_guess..)
        .find(|&n| {
            let train = train_length(n, validation);
            train > seq && n - train >= 2
        })
        .expect("both parts grow with the text")
}

/// Iterates over the tokens of a text.
pub struct Tokens {
    reader: Reader,
    vocabulary: Arc<Vocabulary>,
}

impl Tokens {
    fn new(text: &Text, vocabulary: &Arc<Vocabulary>, start: usize) -> Self {
        Self {
            reader: text.read_from(start),
            vocabulary: vocabulary.clone(),
        }
    }

    /// The next token. Returns an error beyond the end or for an unknown character, because the text
    /// changed since it was measured.
    pub fn read(&mut self) -> Result<i32, Error> {
        let character = self.reader.read()?.ok_or(Error::TextChanged)?;
        let unknown = || Error::UnknownCharacters(vec![character]);
        self.vocabulary.token(character).ok_or_else(unknown)
    }
}

/// A text split into N contiguous streams of equal length, which are read in parallel. Row `i` of a
/// window continues row `i` of the previous window, so the recurrent state can be carried.
#[derive(Clone, Debug)]
pub struct Streams {
    text: Text,
    vocabulary: Arc<Vocabulary>,
    start: usize,
    count: usize,
    length: usize,
}

impl Streams {
    fn new(text: &Text, vocabulary: &Arc<Vocabulary>, range: Range<usize>, count: usize) -> Self {
        Self {
            text: text.clone(),
            vocabulary: vocabulary.clone(),
            start: range.start,
            count,
            // The last character has no successor and therefore no target.
            length: (range.len() - 1) / count,
        }
    }

    /// At most `batch` streams of `range`, each long enough for validation.
    pub fn judging(
        text: &Text,
        vocabulary: &Arc<Vocabulary>,
        range: Range<usize>,
        batch: usize,
    ) -> Self {
        let long_enough = range.len() / SHORTEST_VALIDATION_STREAM;
        Self::new(text, vocabulary, range, long_enough.clamp(1, batch))
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

    /// The number of characters in all windows of [`read_all`](Self::read_all).
    pub fn characters(&self) -> usize {
        self.count * self.length
    }

    /// Full windows of `seq` characters, from the character `offset` of each stream. All windows have
    /// the same shape.
    pub fn read(&self, seq: usize, offset: usize) -> Result<Windows, Error> {
        Windows::new(self, seq, offset, (self.length - offset) / seq * seq)
    }

    /// All characters in windows of `seq` characters. The last window may be shorter.
    pub fn read_all(&self, seq: usize) -> Result<Windows, Error> {
        Windows::new(self, seq, 0, self.length)
    }
}

/// Iterates over the windows of streams.
pub struct Windows {
    streams: Vec<Tokens>,
    /// The first token of the next window in each stream, which is the last target of the previous
    /// window.
    first: Vec<i32>,
    seq: usize,
    left: usize,
}

impl Windows {
    fn new(of: &Streams, seq: usize, offset: usize, left: usize) -> Result<Self, Error> {
        let starts = (0..of.count).map(|k| of.start + k * of.length + offset);
        let mut streams: Vec<_> = starts
            .map(|start| Tokens::new(&of.text, &of.vocabulary, start))
            .collect();
        let first = streams
            .iter_mut()
            .map(Tokens::read)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            streams,
            first,
            seq,
            left,
        })
    }

    /// The next window, or none after the last window.
    pub fn read(&mut self) -> Result<Option<Window>, Error> {
        let seq = self.seq.min(self.left);
        if seq == 0 {
            return Ok(None);
        }
        self.left -= seq;
        let count = self.streams.len();
        let mut window = Window {
            inputs: Vec::with_capacity(count * seq),
            targets: Vec::with_capacity(count * seq),
            count,
            seq,
        };
        for (tokens, first) in self.streams.iter_mut().zip(&mut self.first) {
            for _ in 0..seq {
                window.inputs.push(*first);
                *first = tokens.read()?;
                window.targets.push(*first);
            }
        }
        Ok(Some(window))
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

    fn corpus(text: &'static str, validation: f64, seq: usize) -> Result<Corpus, Error> {
        let (text, vocabulary) = Text::new(text)?;
        Corpus::new(text, vocabulary, validation, seq)
    }

    fn alphabet() -> &'static str {
        "abcdefghijklmnopqrstuvwxyz0123456789"
    }

    #[test]
    fn rows_continue_rows_and_targets_follow_inputs() {
        let corpus = corpus(alphabet(), 0.25, 4).unwrap();
        let streams = corpus.train_streams(2, 4);
        assert_eq!(corpus.train_range(), 0..27);
        let mut windows = streams.read(4, 1).unwrap();
        let first = windows.read().unwrap().unwrap();
        let second = windows.read().unwrap().unwrap();
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
        assert!(windows.read().unwrap().is_some());
        assert!(windows.read().unwrap().is_none());
    }

    #[test]
    fn validation_reads_everything_after_the_split() {
        let corpus = corpus(alphabet(), 0.25, 4).unwrap();
        let streams = corpus.validation_streams(8);
        assert_eq!(streams.count(), 1);
        let mut windows = streams.read_all(3).unwrap();
        let mut read = Vec::new();
        while let Some(window) = windows.read().unwrap() {
            read.extend(window.targets);
        }
        let token = |c: char| corpus.vocabulary.token(c).unwrap();
        assert_eq!(read, "23456789".chars().map(token).collect::<Vec<_>>());
    }

    #[test]
    fn any_shift_leaves_the_same_number_of_windows() {
        let corpus = corpus(alphabet(), 0.25, 4).unwrap();
        let streams = corpus.train_streams(2, 4);
        for shift in 0..=streams.slack(4) {
            let mut windows = streams.read(4, shift).unwrap();
            let mut count = 0;
            while windows.read().unwrap().is_some() {
                count += 1;
            }
            assert!(count >= streams.full_windows(4), "shift {shift}");
        }
    }

    #[test]
    fn the_shortest_text_is_just_enough() {
        for (validation, seq) in [(0.1, 64), (0.5, 1), (0.9, 3), (0.01, 10)] {
            let n = shortest_text(validation, seq);
            let text: &'static str = "ab".repeat(n).leak();
            assert!(corpus(&text[..n], validation, seq).is_ok());
            let error = corpus(&text[..n - 1], validation, seq).unwrap_err();
            assert!(error.to_string().contains(&n.to_string()), "{error}");
        }
    }

    #[test]
    fn a_stream_for_each_window_at_most() {
        let corpus = corpus("abcdefghij0123456789", 0.1, 5).unwrap();
        assert_eq!(corpus.train_streams(100, 5).count(), 3);
    }
}
