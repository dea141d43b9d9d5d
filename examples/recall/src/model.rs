//! The network: a linear layer, a GRU, and one head each for the policy and the value.

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::gru::{Gru, GruConfig};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Bool, Device, Int, Tensor};
use clap::ValueEnum;
use gru_op::{GruBlock, SequenceOptions, restart};

use crate::env::SYMBOLS;

/// Which module is the memory.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// gru-op's block: a whole sequence per call
    Block,
    /// Burn's Gru, one step per call, with the state times one minus the starts
    Burn,
}

#[derive(Module, Debug)]
pub struct Network {
    pub encoder: Linear,
    pub memory: Memory,
    pub policy: Linear,
    pub value: Linear,
}

#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // There is one in a network.
pub enum Memory {
    Block(GruBlock),
    Burn(Gru),
}

/// What the heads compute for R rows.
pub struct Heads {
    /// Scores of the actions, `[R, SYMBOLS]`.
    pub logits: Tensor<2>,
    /// Expected discounted sum of rewards, `[R]`.
    pub values: Tensor<1>,
}

impl Network {
    /// A network with `hidden` units and random parameters, the same for both kinds of memory.
    pub fn new(hidden: usize, kind: Kind, device: &Device) -> Self {
        // Burn draws a parameter at its first use. The visits draw all parameters in one order.
        let gru = GruConfig::new(hidden, hidden, true).init(device);
        gru.visit(&mut Draw);
        let memory = match kind {
            Kind::Block => Memory::Block(gru.try_into().expect("gru-op has the GRU of Burn")),
            Kind::Burn => Memory::Burn(gru),
        };
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
        let (h, state) = self.memory.step(x, state, starts);
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
        let h = self.memory.window(x, state, starts);
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

impl Memory {
    fn step(
        &self,
        x: Tensor<2>,
        state: Tensor<3>,
        starts: Tensor<1, Bool>,
    ) -> (Tensor<2>, Tensor<3>) {
        match self {
            Self::Block(block) => block.step(x, Some(restart(state, starts, None))),
            Self::Burn(gru) => {
                let h = burn_step(gru, x, state.squeeze_dim(0), starts);
                (h.clone(), h.unsqueeze_dim(0))
            }
        }
    }

    fn window(&self, x: Tensor<3>, state: Tensor<3>, starts: Tensor<2, Bool>) -> Tensor<3> {
        match self {
            Self::Block(block) => {
                let options = SequenceOptions::new().state(state).starts(starts);
                block.forward_with(x, options).0
            }
            Self::Burn(gru) => {
                let mut h = state.squeeze_dim(0);
                let [_, t, _] = x.dims();
                let mut outputs = Vec::with_capacity(t);
                for t in 0..t {
                    let x = x.clone().narrow(1, t, 1).squeeze_dim(1);
                    let starts = starts.clone().narrow(1, t, 1).squeeze_dim(1);
                    h = burn_step(gru, x, h, starts);
                    outputs.push(h.clone());
                }
                Tensor::stack(outputs, 1)
            }
        }
    }
}

/// One step of Burn's `Gru`: `[N,H]` to `[N,H]`.
fn burn_step(gru: &Gru, x: Tensor<2>, state: Tensor<2>, starts: Tensor<1, Bool>) -> Tensor<2> {
    let keeps = starts.bool_not().float().unsqueeze_dim::<2>(1); // [N, 1]
    let h = gru.forward(x.unsqueeze_dim(1), Some(state * keeps));
    h.squeeze_dim(1)
}

struct Draw;

impl ModuleVisitor for Draw {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}
