//! The configuration of a [`GruBlock`].

use super::{GruBlock, GruInitializer, GruLayer};
use crate::spec::{Activations, Direction, GruSpec, Layout, Memory, Reset, Update};
use burn::{config::Config, module::Initializer, nn::DropoutConfig, tensor::Device};

/// Describes a [`GruBlock`]; [`init`](GruBlockConfig::init) makes it.
///
/// The defaults are those of Burn's own `GruConfig`.
#[derive(Config, Debug)]
pub struct GruBlockConfig {
    /// I, features of the input.
    pub d_input: usize,
    /// H, hidden units of every layer and direction.
    pub d_hidden: usize,
    /// L, layers; each reads the output of the one before.
    #[config(default = 1)]
    pub num_layers: usize,
    /// Whether every layer also walks time backwards; its output is then `[…,2H]`, forward first.
    #[config(default = false)]
    pub bidirectional: bool,
    /// Probability with which an element between two layers is dropped in training.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Whether both products have a bias.
    #[config(default = true)]
    pub bias: bool,
    /// Whether sequences are `[N,T,·]` or `[T,N,·]`.
    #[config(default = true)]
    pub batch_first: bool,
    /// Where the reset gate acts.
    #[config(default = "Reset::AfterMatmul")]
    pub reset: Reset,
    /// What the update gate does with the previous state.
    #[config(default = "Update::Keeps")]
    pub update: Update,
    /// Activations of the three gates.
    #[config(default = "Activations::default()")]
    pub activations: Activations,
    /// Bound of the pre-activations.
    pub clip_gates: Option<f64>,
    /// Bound of the state.
    pub clip_state: Option<f64>,
    /// What training keeps for backward.
    #[config(default = "Memory::Speed")]
    pub memory: Memory,
    /// How the parameters are drawn.
    #[config(default = "GruInitializer::PerGate(Initializer::XavierNormal { gain: 1.0 })")]
    pub initializer: GruInitializer,
}

impl GruBlockConfig {
    /// Makes the module, with fresh parameters.
    ///
    /// # Panics
    /// If a size or the number of layers is zero, `dropout` is not in `[0, 1]`, or
    /// [`GruSpec::check`] does.
    pub fn init(&self, device: &Device) -> GruBlock {
        for (name, size) in [
            ("d_input", self.d_input),
            ("d_hidden", self.d_hidden),
            ("num_layers", self.num_layers),
        ] {
            assert!(
                size > 0,
                "GruBlockConfig: {name} must be positive, expected > 0, got 0"
            );
        }
        assert!(
            (0.0..=1.0).contains(&self.dropout),
            "GruBlockConfig: dropout must be a probability, expected 0 to 1, got {}",
            self.dropout
        );
        self.spec().check();
        let directions = self.directions();
        let mut layers = Vec::with_capacity(self.num_layers * directions);
        for layer in 0..self.num_layers {
            let inputs = match layer {
                0 => self.d_input,
                _ => self.d_hidden * directions,
            };
            layers.extend((0..directions).map(|_| self.layer(inputs, device)));
        }
        self.assemble(layers)
    }

    /// The block of this configuration around given layers.
    pub(crate) fn assemble(&self, layers: Vec<GruLayer>) -> GruBlock {
        GruBlock {
            layers,
            dropout: DropoutConfig::new(self.dropout).init(),
            d_input: self.d_input,
            d_hidden: self.d_hidden,
            num_layers: self.num_layers,
            bidirectional: self.bidirectional,
            batch_first: self.batch_first,
            spec: self.spec(),
        }
    }

    fn layer(&self, inputs: usize, device: &Device) -> GruLayer {
        let (init, h) = (&self.initializer, self.d_hidden);
        GruLayer {
            w_ih: init.weight(inputs, h, device),
            w_hh: init.weight(h, h, device),
            b_ih: self.bias.then(|| init.bias(inputs, h, device)),
            b_hh: self.bias.then(|| init.bias(h, h, device)),
        }
    }

    fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    fn spec(&self) -> GruSpec {
        GruSpec {
            reset: self.reset,
            update: self.update,
            activations: self.activations,
            clip_gates: self.clip_gates,
            clip_state: self.clip_state,
            layout: if self.batch_first {
                Layout::BatchMajor
            } else {
                Layout::TimeMajor
            },
            direction: Direction::Forward,
            memory: self.memory,
        }
    }
}
