//! From a text to windows of N parallel streams.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::Error;

/// Validation streams start without context, which costs the model; with this many characters
/// each, the cost is lost in the average.
const SHORTEST_VALIDATION_STREAM: usize = 1024;

/// Read a text file: UTF-8, without byte-order mark, lines ending in `\n` alone.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let bytes = fs::read(path).map_err(|source| Error::ReadText {
        path: path.to_path_buf(),
        source,
    })?;
    let text = String::from_utf8(bytes).map_err(|error| Error::NotUtf8 {
        path: path.to_path_buf(),
        offset: error.utf8_error().valid_up_to(),
    })?;
    // Neither is writing: a model would only learn to repeat them.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(text.replace("\r\n", "\n"))
}

/// The distinct characters of a text, in order; a token is an index into them.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    characters: Vec<char>,
    tokens: HashMap<char, i32>,
}

impl Vocabulary {
    /// Collect the characters of `text`.
    pub fn of(text: &str) -> Self {
        let mut characters: Vec<char> = text.chars().collect();
        characters.sort_unstable();
        characters.dedup();
        let tokens = (0..).zip(&characters).map(|(i, &c)| (c, i)).collect();
        Self { characters, tokens }
    }

    pub fn len(&self) -> usize {
        self.characters.len()
    }

    /// The tokens of `text`, or the characters of it that have none.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>, Error> {
        let mut unknown: Vec<char> = Vec::new();
        let mut tokens = Vec::new();
        for c in text.chars() {
            match self.tokens.get(&c) {
                Some(&token) => tokens.push(token),
                None if unknown.contains(&c) => {}
                None => unknown.push(c),
            }
        }
        if unknown.is_empty() {
            Ok(tokens)
        } else {
            Err(Error::UnknownCharacters(unknown))
        }
    }

    pub fn character(&self, token: usize) -> char {
        self.characters[token]
    }

    /// All characters in the order of their tokens.
    pub fn characters(&self) -> String {
        self.characters.iter().collect()
    }
}

/// A text as tokens: its beginning to learn from, its end to be judged by.
#[derive(Debug)]
pub struct Corpus {
    pub vocabulary: Vocabulary,
    pub train: Vec<i32>,
    pub validation: Vec<i32>,
}

impl Corpus {
    /// Split `text`; `seq` characters and their successors must fit into the training part.
    pub fn new(text: &str, validation: f64, seq: usize) -> Result<Self, Error> {
        let vocabulary = Vocabulary::of(text);
        match vocabulary.characters[..] {
            [] => return Err(Error::EmptyText),
            [only] => return Err(Error::SingleCharacter(only)),
            _ => {}
        }

        let mut tokens = vocabulary.encode(text)?;
        let needed = shortest_text(validation, seq);
        if tokens.len() < needed {
            return Err(Error::TooShort {
                found: tokens.len(),
                seq,
                needed,
            });
        }
        let validation = tokens.split_off(train_length(tokens.len(), validation));
        Ok(Self {
            vocabulary,
            train: tokens,
            validation,
        })
    }

    /// At most `batch` streams of the training part, fewer where each would not hold a window.
    pub fn train_streams(&self, batch: usize, seq: usize) -> Streams<'_> {
        Streams::new(&self.train, batch.min((self.train.len() - 1) / seq))
    }

    /// At most `batch` streams of the validation part.
    pub fn validation_streams(&self, batch: usize) -> Streams<'_> {
        let long_enough = self.validation.len() / SHORTEST_VALIDATION_STREAM;
        Streams::new(&self.validation, long_enough.clamp(1, batch))
    }
}

fn train_length(characters: usize, validation: f64) -> usize {
    (characters as f64 * (1.0 - validation)) as usize
}

/// The least length that leaves a window and its successor to train on, and one prediction to
/// validate.
fn shortest_text(validation: f64, seq: usize) -> usize {
    let first_guess = (seq as f64 / (1.0 - validation)).max(1.0 / validation) as usize;
    (first_guess..)
        .find(|&n| {
            let train = train_length(n, validation);
            train > seq && n - train >= 2
        })
        .expect("both parts grow with the text")
}

/// Tokens cut into N contiguous streams of equal length, read side by side, so that row `i` of a
/// window continues row `i` of the window before it and the recurrent state can be carried.
#[derive(Clone, Copy, Debug)]
pub struct Streams<'a> {
    tokens: &'a [i32],
    count: usize,
    length: usize,
}

impl<'a> Streams<'a> {
    fn new(tokens: &'a [i32], count: usize) -> Self {
        // The last token has no successor to be the target.
        let length = (tokens.len() - 1) / count;
        Self {
            tokens,
            count,
            length,
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// How far the first window may be shifted into the streams; shifting it from epoch to epoch
    /// moves the places where gradients are cut off.
    pub fn slack(&self, seq: usize) -> usize {
        (seq - 1).min(self.length - seq)
    }

    /// How many full windows remain after any shift up to [`slack`](Self::slack).
    pub fn full_windows(&self, seq: usize) -> usize {
        (self.length - self.slack(seq)) / seq
    }

    /// The full windows of `seq` characters from `shift` on: every shape alike.
    pub fn training_windows(&self, seq: usize, shift: usize) -> impl Iterator<Item = Window> {
        let streams = *self;
        (0..self.full_windows(seq)).map(move |i| streams.window(shift + i * seq, seq))
    }

    /// Everything in windows of `seq` characters, the last one maybe shorter.
    pub fn all_windows(&self, seq: usize) -> impl Iterator<Item = Window> {
        let streams = *self;
        (0..self.length)
            .step_by(seq)
            .map(move |start| streams.window(start, seq.min(streams.length - start)))
    }

    fn window(&self, start: usize, seq: usize) -> Window {
        let mut window = Window {
            inputs: Vec::with_capacity(self.count * seq),
            targets: Vec::with_capacity(self.count * seq),
            count: self.count,
            seq,
        };
        for stream in 0..self.count {
            let from = stream * self.length + start;
            window.inputs.extend(&self.tokens[from..from + seq]);
            window
                .targets
                .extend(&self.tokens[from + 1..from + seq + 1]);
        }
        window
    }
}

/// Inputs `[N, T]`, row-major, and for each the token that follows it.
#[derive(Debug, PartialEq)]
pub struct Window {
    inputs: Vec<i32>,
    targets: Vec<i32>,
    count: usize,
    seq: usize,
}

impl Window {
    /// Predictions asked for: N·T.
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
mod tests;
