//! The network: a linear layer, a GRU, and one head each for the policy and the value.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Bool, Device, Int, Tensor, activation::log_softmax};
use gru_op::{GruBlock, GruBlockConfig, SequenceOptions, restart};

use crate::env::SYMBOLS;

/// Units of each layer, H.
const UNITS: usize = 64;

#[derive(Module, Debug)]
pub struct Network {
    encoder: Linear,
    memory: GruBlock,
    policy: Linear,
    value: Linear,
}

/// What the heads compute for R rows.
pub struct Heads {
    /// Log-probabilities of the actions, `[R, SYMBOLS]`.
    pub log_probs: Tensor<2>,
    /// Expected discounted sum of rewards, `[R,1]`.
    pub values: Tensor<2>,
}

impl Network {
    pub fn new(device: &Device) -> Self {
        Self {
            encoder: LinearConfig::new(SYMBOLS, UNITS).init(device),
            memory: GruBlockConfig::new(UNITS, UNITS)
                .with_batch_first(true)
                .init(device),
            policy: LinearConfig::new(UNITS, SYMBOLS).init(device),
            value: LinearConfig::new(UNITS, 1).init(device),
        }
    }

    /// The state `[1,N,H]` of `n` rows before their first step.
    pub fn state(n: usize, device: &Device) -> Tensor<3> {
        Tensor::zeros([1, n, UNITS], device)
    }

    /// One step: symbols `[N]`, state `[1,N,H]` and starts `[N]` to the heads of N rows and the new state.
    pub fn step(
        &self,
        symbols: Tensor<1, Int>,
        state: Tensor<3>,
        starts: Tensor<1, Bool>,
    ) -> (Heads, Tensor<3>) {
        let x = self.encoder.forward(symbols.one_hot::<2>(SYMBOLS).float()); // [N, H]
        let (h, state) = self.memory.step(x, Some(restart(state, starts, None)));
        (self.heads(h), state)
    }

    /// A window: symbols `[N,T]`, the state `[1,N,H]` before it and starts `[N,T]` to the heads of N·T rows.
    pub fn window(
        &self,
        symbols: Tensor<2, Int>,
        state: Tensor<3>,
        starts: Tensor<2, Bool>,
    ) -> Heads {
        let x = self.encoder.forward(symbols.one_hot::<3>(SYMBOLS).float()); // [N, T, H]
        let options = SequenceOptions::new().state(state).starts(starts);
        let (h, _) = self.memory.forward_with(x, options);
        self.heads(h.flatten(0, 1))
    }

    fn heads(&self, h: Tensor<2>) -> Heads {
        Heads {
            log_probs: log_softmax(self.policy.forward(h.clone()), 1),
            values: self.value.forward(h),
        }
    }
}
