//! Embedding, GRU, linear head.

use burn::config::Config;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};
use gru_op::{GruBlock, GruBlockConfig};

/// The sizes of a [`CharGru`], which are saved with its parameters.
#[derive(Config, Debug, PartialEq)]
pub struct CharGruConfig {
    /// V, the number of distinct characters.
    pub vocabulary: usize,
    /// E, the size of an embedding.
    pub embed: usize,
    /// H, the units of a layer.
    pub hidden: usize,
    /// L, the number of layers.
    pub layers: usize,
    /// Dropout probability in training.
    pub dropout: f64,
}

/// A model that predicts the next character.
#[derive(Module, Debug)]
pub struct CharGru {
    pub embedding: Embedding,
    pub gru: GruBlock,
    pub dropout: Dropout,
    /// From the state to the scores of all characters.
    pub head: Linear,
}

impl CharGruConfig {
    /// A model with random parameters.
    pub fn init(&self, device: &Device) -> CharGru {
        let model = CharGru {
            embedding: EmbeddingConfig::new(self.vocabulary, self.embed).init(device),
            gru: GruBlockConfig::new(self.embed, self.hidden)
                .with_num_layers(self.layers)
                .with_dropout(self.dropout)
                .init(device),
            dropout: DropoutConfig::new(self.dropout).init(),
            head: LinearConfig::new(self.hidden, self.vocabulary).init(device),
        };
        // Burn draws a parameter at its first use. This draws all parameters now, in the order of the
        // fields, so that a seed always gives the same model.
        model.visit(&mut Draw);
        model
    }
}

struct Draw;

impl ModuleVisitor for Draw {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}

impl CharGru {
    /// Tokens `[N, T]` and state `[L, N, H]` to logits `[N·T, V]` and the new state.
    pub fn forward(
        &self,
        tokens: Tensor<2, Int>,
        state: Option<Tensor<3>>,
    ) -> (Tensor<2>, Tensor<3>) {
        let x = self.dropout.forward(self.embedding.forward(tokens)); // [N, T, E]
        let (y, state) = self.gru.forward(x, state); // [N, T, H]
        let y = self.dropout.forward(y);
        let [n, t, h] = y.dims();
        (self.head.forward(y.reshape([n * t, h])), state)
    }

    /// One token per row `[N]` to logits `[N, V]` and the new state.
    pub fn step(&self, tokens: Tensor<1, Int>, state: Option<Tensor<3>>) -> (Tensor<2>, Tensor<3>) {
        let [n] = tokens.dims();
        let x = self.embedding.forward(tokens.reshape([n, 1])); // [N, 1, E]
        let (h, state) = self.gru.step(x.squeeze_dim(1), state); // [N, H]
        (self.head.forward(h), state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Tolerance;

    #[test]
    fn steps_give_what_the_sequence_gives() {
        let _alone = crate::drawing();
        let device = Device::flex();
        device.seed(7);
        let model = CharGruConfig::new(5, 4, 4, 2, 0.5).init(&device);
        let tokens = Tensor::<2, Int>::from_ints([[0, 3, 1], [4, 4, 2]], &device);

        let (logits, last) = model.forward(tokens.clone(), None);
        let mut state = None;
        let mut stepped = Vec::new();
        for t in 0..3 {
            let column = tokens.clone().narrow(1, t, 1).reshape([2]);
            let (step, next) = model.step(column, state);
            state = Some(next);
            stepped.push(step);
        }

        let stepped: Tensor<3> = Tensor::stack(stepped, 1); // [N, T, V]
        let tolerance = Tolerance::<f32>::absolute(1e-5);
        let logits = logits.reshape([2, 3, 5]).into_data();
        stepped.into_data().assert_approx_eq(&logits, tolerance);
        let state = state.unwrap().into_data();
        state.assert_approx_eq(&last.into_data(), tolerance);
    }
}
