//! Two embeddings, two GRUs and a linear head: letters to phonemes.

use burn::nn::{Embedding, Linear};
use burn::tensor::{Device, Int, Tensor, TensorData};
use gru_op::{PreparedGru, SequenceOptions};

use crate::Error;
use crate::symbols::{END, END_OF_LETTERS, PHONEMES, START, letters};

/// The maximum number of phonemes per word, as in g2p_en.
const STEPS: usize = 20;

/// The model of g2p_en. One GRU reads the letters. The other generates the phonemes one by one, each the most likely
/// after the previous ones.
#[derive(Debug)]
pub struct G2p {
    /// Letters to `[E]`.
    pub letters: Embedding,
    /// Reads the letters. Its final state represents the word.
    pub encoder: PreparedGru,
    /// Phonemes to `[E]`.
    pub phonemes: Embedding,
    /// Generates the phonemes from that state.
    pub decoder: PreparedGru,
    /// From the state to the scores of all phonemes.
    pub head: Linear,
}

/// The scores of every step and row: `[N, 74]` per step.
pub type Scores = Vec<Vec<f32>>;

impl G2p {
    /// The phonemes of each word, as from `predict` of g2p_en: lower-case letters a to z are known, all other
    /// characters are `<unk>`.
    ///
    /// # Errors
    /// If the device cannot be read.
    ///
    /// # Panics
    /// If there are no words.
    pub fn phonemes(&self, words: &[&str]) -> Result<Vec<Vec<&'static str>>, Error> {
        let (tokens, _) = self.run(words)?;
        let names = |row: Vec<i32>| row.iter().map(|&token| PHONEMES[token as usize]).collect();
        Ok(tokens.into_iter().map(names).collect())
    }

    /// The phonemes of each word as numbers, and the scores from which they were chosen. A finished word is still
    /// scored until all words are finished.
    ///
    /// # Errors
    /// If the device cannot be read.
    ///
    /// # Panics
    /// If there are no words.
    pub fn run(&self, words: &[&str]) -> Result<(Vec<Vec<i32>>, Scores), Error> {
        let device = self.letters.weight.val().device();
        let (mut phonemes, mut scores) = (vec![Vec::new(); words.len()], Scores::new());
        let mut state = self.encode(words, &device);
        let mut last = vec![START; words.len()];
        let mut ended = vec![false; words.len()];
        while scores.len() < STEPS && ended.contains(&false) {
            let tokens = TensorData::new(last.clone(), [words.len(), 1]);
            let x = self.phonemes.forward(Tensor::from_data(tokens, &device)); // [N, 1, E]
            let (h, next) = self.decoder.step(x.squeeze_dim(1), Some(state)); // [N, H]
            state = next;
            let step = self.head.forward(h).try_into_vec_as::<f32>()?; // [N, 74]
            for (row, of_row) in step.chunks_exact(PHONEMES.len()).enumerate() {
                last[row] = likeliest(of_row);
                ended[row] |= last[row] == END;
                if !ended[row] {
                    phonemes[row].push(last[row]);
                }
            }
            scores.push(step);
        }
        Ok((phonemes, scores))
    }

    /// The encoder's state after the last letter of each word: `[1, N, H]`.
    fn encode(&self, words: &[&str], device: &Device) -> Tensor<3> {
        let rows: Vec<Vec<i32>> = words.iter().map(|word| letters(word)).collect();
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        let longest = *lengths.iter().max().expect("there are words");
        let mut tokens = vec![END_OF_LETTERS; rows.len() * longest];
        for (place, row) in tokens.chunks_exact_mut(longest).zip(&rows) {
            place[..row.len()].copy_from_slice(row);
        }
        let tokens = TensorData::new(tokens, [rows.len(), longest]);
        let tokens = Tensor::<2, Int>::from_data(tokens, device);
        let options = SequenceOptions::new().lengths(&lengths);
        let x = self.letters.forward(tokens); // [N, T, E]
        self.encoder.forward_with(x, options).1
    }
}

/// The index of the first maximum, as in numpy's argmax.
fn likeliest(scores: &[f32]) -> i32 {
    let mut best = 0;
    for (k, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = k;
        }
    }
    best as i32
}
