//! A text as tokens, in streams that are read in parallel.

use std::{collections::BTreeSet, ops::Range};

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::Error;

/// The default text: sentences of this project's documentation and comments of November 2026, in random order.
pub const DOCUMENTATION: &str = include_str!("documentation.txt");

/// The shortest stream for validation. Each stream starts without context, which increases the loss. With this many
/// characters per stream, the effect is small.
pub const VALIDATION_STREAM: usize = 1024;

/// The distinct characters of a text, sorted. A token is an index into them.
#[derive(Clone, Debug, PartialEq)]
pub struct Vocabulary(Vec<char>);

impl Vocabulary {
    /// The characters of `text`.
    pub fn of(text: &str) -> Self {
        let distinct: BTreeSet<char> = text.chars().collect();
        Self(distinct.into_iter().collect())
    }

    /// All characters, in the order of their tokens.
    pub fn characters(&self) -> &[char] {
        &self.0
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    /// If `text` contains another character.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>, Error> {
        let token = |c| self.0.binary_search(&c).map(|token| token as i32);
        let tokens = text
            .chars()
            .map(|c| token(c).map_err(|_| Error::Unknown(c)));
        tokens.collect()
    }
}

/// A text for training. The last tenth is for validation.
#[derive(Clone, Debug)]
pub struct Text {
    /// Its characters.
    pub vocabulary: Vocabulary,
    /// The first nine tenths.
    pub train: Streams,
    /// The last tenth.
    pub validation: Streams,
    /// A checksum of the text, which identifies it in a checkpoint.
    pub checksum: u32,
}

impl Text {
    /// Splits `text` into at most `batch` streams with windows of `seq` characters.
    ///
    /// # Errors
    /// If a part does not contain a window and its targets.
    pub fn new(text: &str, batch: usize, seq: usize) -> Result<Self, Error> {
        let vocabulary = Vocabulary::of(text);
        let mut train = vocabulary.encode(text)?;
        let validation = train.split_off(train.len() * 9 / 10);
        let train = Streams::new(train, batch, seq)?;
        if train.length < seq {
            return Err(Error::TooShort(seq));
        }
        Ok(Self {
            vocabulary,
            train,
            validation: Streams::new(validation, batch, VALIDATION_STREAM)?,
            checksum: crc32fast::hash(text.as_bytes()),
        })
    }
}

/// Tokens cut into N contiguous streams of equal length. All streams are read in parallel, so row `n` of a window
/// continues row `n` of the previous window, and the recurrent state can be carried.
#[derive(Clone, Debug)]
pub struct Streams {
    tokens: Vec<i32>,
    /// N.
    pub count: usize,
    /// Inputs in each stream. Each input has a target, the next token.
    pub length: usize,
}

impl Streams {
    /// Cuts `tokens` into at most `batch` streams. There are fewer if these were shorter than `least`.
    ///
    /// # Errors
    /// If there is no input with a target.
    pub fn new(tokens: Vec<i32>, batch: usize, least: usize) -> Result<Self, Error> {
        let inputs = tokens.len().saturating_sub(1);
        let count = (inputs / least).clamp(1, batch);
        if inputs == 0 {
            return Err(Error::TooShort(1));
        }
        Ok(Self {
            tokens,
            count,
            length: inputs / count,
        })
    }

    /// The inputs `[N, T]` of some times, and their targets `[N·T]`.
    pub fn window(&self, times: Range<usize>, device: &Device) -> (Tensor<2, Int>, Tensor<1, Int>) {
        let shape = [self.count, times.len()];
        let part = |ahead: usize| -> Tensor<2, Int> {
            let start = |row: usize| row * self.length + ahead;
            let rows = 0..self.count;
            let tokens = rows.flat_map(|row| &self.tokens[start(row)..][times.clone()]);
            let tokens: Vec<i32> = tokens.copied().collect();
            Tensor::from_ints(TensorData::new(tokens, shape), device)
        };
        (part(0), part(1).flatten(0, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALPHABET: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

    fn read(streams: &Streams, times: Range<usize>) -> [String; 2] {
        let (inputs, targets) = streams.window(times, &Device::flex());
        let all: Vec<char> = ALPHABET.chars().collect();
        let text = |data: TensorData| data.iter::<i64>().map(|k| all[k as usize]).collect();
        [text(inputs.into_data()), text(targets.into_data())]
    }

    #[test]
    fn rows_continue_and_targets_follow_inputs() {
        let text = Text::new(ALPHABET, 2, 4).unwrap();
        // 32 characters in two streams of 15 inputs.
        assert_eq!(read(&text.train, 1..5), ["1234ghij", "2345hijk"]);
        assert_eq!(read(&text.train, 5..9), ["5678klmn", "6789lmno"]);
        assert_eq!(read(&text.validation, 0..3), ["wxy", "xyz"]);
        let shortest = |seq| Text::new(ALPHABET, 2, seq).map(|text| text.train.count);
        assert_eq!(shortest(31).unwrap(), 1);
        assert!(matches!(shortest(32), Err(Error::TooShort(32))));
    }
}
