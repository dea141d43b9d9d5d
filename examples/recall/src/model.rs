//! The network: a linear layer, a GRU, and one head each for the policy and the value.

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::gru::GruConfig;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Bool, Device, Int, Tensor};
use gru_op::{GruBlock, SequenceOptions, restart};

use crate::env::SYMBOLS;

#[derive(Module, Debug)]
pub struct Network {
    pub encoder: Linear,
    pub memory: GruBlock,
    pub policy: Linear,
    pub value: Linear,
}

/// What the heads compute for R rows.
pub struct Heads {
    /// Scores of the actions, `[R, SYMBOLS]`.
    pub logits: Tensor<2>,
    /// Expected discounted sum of rewards, `[R]`.
    pub values: Tensor<1>,
}

impl Network {
    /// A network with `hidden` units and random parameters, as Burn's `Gru` draws them.
    pub fn new(hidden: usize, device: &Device) -> Self {
        // Burn draws a parameter at its first use. The visits draw all parameters in one order.
        let gru = GruConfig::new(hidden, hidden, true).init(device);
        gru.visit(&mut Draw);
        let memory = gru.try_into().expect("gru-op has the GRU of Burn");
        let network = Self {
            encoder: LinearConfig::new(SYMBOLS, hidden).init(device),
            memory,
            policy: LinearConfig::new(hidden, SYMBOLS).init(device),
            value: LinearConfig::new(hidden, 1).init(device),
        };
        network.visit(&mut Draw);
        network
    }

    /// One step: symbols `[N]`, state `[1,N,H]` and starts `[N]` to N rows of heads and the new state.
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

    /// A window: symbols `[N,T]`, the state `[1,N,H]` before it and starts `[N,T]` to N·T rows of heads.
    pub fn window(
        &self,
        symbols: Tensor<2, Int>,
        state: Tensor<3>,
        starts: Tensor<2, Bool>,
    ) -> Heads {
        let x = self.encoder.forward(symbols.one_hot::<3>(SYMBOLS).float()); // [N, T, H]
        let options = SequenceOptions::new().state(state).starts(starts);
        let (h, _) = self.memory.forward_with(x, options);
        let [n, t, h_size] = h.dims();
        self.heads(h.reshape([n * t, h_size]))
    }

    fn heads(&self, h: Tensor<2>) -> Heads {
        Heads {
            logits: self.policy.forward(h.clone()),
            values: self.value.forward(h).squeeze_dim(1),
        }
    }
}

struct Draw;

impl ModuleVisitor for Draw {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}
