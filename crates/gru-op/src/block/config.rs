//! The configuration of a [`GruBlock`].

use super::{GruBlock, GruError, GruInitializer, GruLayer, error::expect_shape};
use crate::{GruWeights, backend::LayerMemory};
use burn::{
    config::Config,
    module::{Initializer, Param},
    nn::DropoutConfig,
    tensor::{Device, Tensor},
};
use gru_spec::{Activation, Activations, Checkpointing, Direction, GruSpec, Reset, Update};

/// Describes a [`GruBlock`]; [`init`](GruBlockConfig::init) makes it.
///
/// The defaults are those of Burn's own `GruConfig`, whose methods it has too, and which becomes one by
/// [`try_from`](GruBlockConfig::try_from):
///
/// ```
/// use burn::nn::gru::GruConfig;
/// use gru_op::{GruBlockConfig, Reset};
///
/// let config = GruBlockConfig::new(64, 128).with_bias(false).with_reset_after(false);
/// let burns = GruConfig::new(64, 128, false).with_reset_after(false);
/// assert_eq!(GruBlockConfig::try_from(&burns)?.reset, config.reset);
/// assert_eq!(config.reset, Reset::BeforeMatmul);
/// # Ok::<_, gru_op::GruError>(())
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
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
    /// Whether every layer walks time backwards only: ONNX' `reverse`, Keras' `go_backwards`.
    #[config(default = false)]
    pub reverse: bool,
    /// Probability with which an element between two layers is dropped in training.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Probability with which a unit of the state is hidden from the gates, in training: drawn
    /// once per row and sequence, the same for all gates and steps (Gal and Ghahramani 2016,
    /// <https://arxiv.org/abs/1512.05287>, tied weights). Keras draws one such mask for each gate.
    #[config(default = 0.0)]
    pub recurrent_dropout: f64,
    /// Probability with which a unit keeps its previous state: drawn for every step and unit in
    /// training, its expectation elsewhere (Krueger et al. 2017,
    /// <https://arxiv.org/abs/1606.01305>).
    #[config(default = 0.0)]
    pub zoneout: f64,
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
    #[config(default = "Checkpointing::KeepGates")]
    pub checkpointing: Checkpointing,
    /// How the parameters are drawn.
    #[config(default = "GruInitializer::PerGate(Initializer::XavierNormal { gain: 1.0 })")]
    pub initializer: GruInitializer,
    /// Options that differ between layers or directions: none, or one for each of
    /// [`GruBlock::layers`]. They take the place of the fields of the same names; start from
    /// [`layer_options`](GruBlockConfig::layer_options).
    #[config(default = "Vec::new()")]
    pub per_layer: Vec<GruLayerOptions>,
}

/// What one direction of one layer may have for itself. The fields are those of
/// [`GruBlockConfig`].
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
#[allow(missing_docs)] // The names are those of the configuration.
pub struct GruLayerOptions {
    pub reset: Reset,
    pub update: Update,
    pub activations: Activations,
    pub clip_gates: Option<f64>,
    pub clip_state: Option<f64>,
    pub recurrent_dropout: f64,
    pub zoneout: f64,
}

/// The names of Burn's `GruConfig`.
impl GruBlockConfig {
    /// [`with_reset`](Self::with_reset): whether the reset gate acts after the recurrent product.
    pub fn with_reset_after(self, reset_after: bool) -> Self {
        self.with_reset(if reset_after {
            Reset::AfterMatmul
        } else {
            Reset::BeforeMatmul
        })
    }

    /// [`with_activations`](Self::with_activations): that of the reset and the update gate.
    pub fn with_gate_activation(self, gate: Activation) -> Self {
        let activations = Activations {
            reset: gate,
            update: gate,
            ..self.activations
        };
        self.with_activations(activations)
    }

    /// [`with_activations`](Self::with_activations): that of the candidate.
    pub fn with_hidden_activation(self, candidate: Activation) -> Self {
        let activations = Activations {
            candidate,
            ..self.activations
        };
        self.with_activations(activations)
    }

    /// [`with_clip_state`](Self::with_clip_state): Burn's clip is that of the state, ONNX' clip
    /// that of the gates.
    pub fn with_clip(self, clip: Option<f64>) -> Self {
        self.with_clip_state(clip)
    }
}

impl GruBlockConfig {
    /// Makes the module, with fresh parameters.
    ///
    /// # Panics
    /// If a size or the number of layers is zero, the parameters are more than memory can address,
    /// a probability is not in `[0, 1)`, the block is
    /// to walk both in reverse and in both directions, `per_layer` has another number of entries
    /// than there are layers times directions, or [`GruSpec::check`] does.
    pub fn init(&self, device: &Device) -> GruBlock {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let (init, h) = (&self.initializer, self.d_hidden);
        let layer = |k: usize| {
            let inputs = self.layer_inputs(k);
            GruLayer {
                w_ih: init.weight(inputs, h, device),
                w_hh: init.weight(h, h, device),
                b_ih: self.bias.then(|| init.bias(inputs, h, device)),
                b_hh: self.bias.then(|| init.bias(h, h, device)),
                recurrent_dropout: self.options_of(k).recurrent_dropout,
                zoneout: self.options_of(k).zoneout,
                spec: self.layer_spec(k),
                direction: self.direction_of(k),
                checkpointing: self.checkpointing,
                memory: LayerMemory::new(),
            }
        };
        self.assemble((0..self.layer_count()).map(layer).collect())
    }

    /// Checks that the configuration makes a block.
    ///
    /// # Errors
    /// [`GruError::Config`] where [`init`](Self::init) would panic.
    ///
    /// ```
    /// use gru_op::GruBlockConfig;
    ///
    /// let error = GruBlockConfig::new(3, 4).with_dropout(1.0).validate().unwrap_err();
    /// assert!(error.to_string().contains("dropout must be a probability"));
    /// ```
    pub fn validate(&self) -> Result<(), GruError> {
        self.try_check()
            .map_err(|reason| GruError::Config { reason })
    }

    /// Makes the module around given weights: layer `l`, direction `d` at `l·D + d`, forward
    /// before reverse. The `bias` and `initializer` of the configuration play no part.
    ///
    /// # Errors
    /// Where [`init`](Self::init) would panic; if there are more or fewer weights than layers times
    /// directions, or one does not have the shape that the configuration requires.
    ///
    /// ```
    /// # use burn::tensor::{Device, Tensor};
    /// use gru_op::{GruBlockConfig, GruWeights};
    ///
    /// let (i, h, device) = (3, 4, Device::flex());
    /// let w_ih = Tensor::ones([i, 3 * h], &device);
    /// let w_hh = Tensor::zeros([h, 3 * h], &device);
    /// let block = GruBlockConfig::new(i, h).init_with(vec![GruWeights::new(w_ih, w_hh)])?;
    /// assert!(block.layers[0].b_ih.is_none());
    /// # Ok::<_, gru_op::GruError>(())
    /// ```
    pub fn init_with(&self, weights: Vec<GruWeights>) -> Result<GruBlock, GruError> {
        self.check_weights(&weights)?;
        let layers = weights.into_iter().enumerate();
        let layers = layers.map(|(k, weights)| self.layer_around(k, weights));
        Ok(self.assemble(layers.collect()))
    }

    /// The options that all layers have by the fields of this configuration.
    ///
    /// ```
    /// use gru_op::{GruBlockConfig, Reset};
    ///
    /// // The second layer resets before the product.
    /// let config = GruBlockConfig::new(3, 4).with_num_layers(2);
    /// let mut second = config.layer_options();
    /// second.reset = Reset::BeforeMatmul;
    /// let config = config.clone().with_per_layer(vec![config.layer_options(), second]);
    /// ```
    pub fn layer_options(&self) -> GruLayerOptions {
        GruLayerOptions {
            reset: self.reset,
            update: self.update,
            activations: self.activations,
            clip_gates: self.clip_gates,
            clip_state: self.clip_state,
            recurrent_dropout: self.recurrent_dropout,
            zoneout: self.zoneout,
        }
    }

    /// Checks the configuration, and weights for [`init_with`](Self::init_with).
    ///
    /// # Errors
    /// As [`init_with`](Self::init_with).
    pub fn check_weights(&self, weights: &[GruWeights]) -> Result<(), GruError> {
        self.validate()?;
        if weights.len() != self.layer_count() {
            return Err(GruError::Count {
                what: "weights of layers times directions",
                expected: self.layer_count(),
                actual: weights.len(),
            });
        }
        let mut layers = weights.iter().enumerate();
        layers.try_for_each(|(k, weights)| self.check_layer(k, weights))
    }

    /// Rejects weights that do not have the shapes of the `k`-th of [`GruBlock::layers`].
    fn check_layer(&self, k: usize, weights: &GruWeights) -> Result<(), GruError> {
        let (i, h) = (self.layer_inputs(k), self.d_hidden);
        let name = |tensor: &str| format!("layers.{k}.{tensor}");
        let Some(w_ih) = &weights.w_ih else {
            return Err(GruError::MissingKey { key: name("w_ih") });
        };
        expect_shape(&name("w_ih"), &[i, 3 * h], &w_ih.dims())?;
        expect_shape(&name("w_hh"), &[h, 3 * h], &weights.w_hh.dims())?;
        if let Some(b_ih) = &weights.b_ih {
            expect_shape(&name("b_ih"), &[3 * h], &b_ih.dims())?;
        }
        if let Some(b_hh) = &weights.b_hh
            && b_hh.dims() != [h]
        {
            expect_shape(&name("b_hh"), &[3 * h], &b_hh.dims())?;
        }
        Ok(())
    }

    /// The weights were checked.
    fn layer_around(&self, k: usize, weights: GruWeights) -> GruLayer {
        let bias = |bias: Option<Tensor<1>>| bias.map(|b| Param::from_tensor(b.detach()));
        GruLayer {
            w_ih: weight(weights.w_ih.expect("every layer has an input weight")),
            w_hh: weight(weights.w_hh),
            b_ih: bias(weights.b_ih),
            b_hh: bias(weights.b_hh),
            recurrent_dropout: self.options_of(k).recurrent_dropout,
            zoneout: self.options_of(k).zoneout,
            spec: self.layer_spec(k),
            direction: self.direction_of(k),
            checkpointing: self.checkpointing,
            memory: LayerMemory::new(),
        }
    }

    /// Why [`init`](Self::init) would panic.
    fn try_check(&self) -> Result<(), String> {
        let sizes = [
            ("d_input", self.d_input),
            ("d_hidden", self.d_hidden),
            ("num_layers", self.num_layers),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(format!(
                "GruBlockConfig: {name} must be positive, expected > 0, got 0"
            ));
        }
        if self.bytes().is_none() {
            let got = sizes
                .map(|(name, size)| format!("{name} {size}"))
                .join(", ");
            return Err(format!(
                "GruBlockConfig: expected parameters that memory can address, got {got}"
            ));
        }
        let probability = |name: &str, p: f64| {
            if (0.0..1.0).contains(&p) {
                Ok(())
            } else {
                Err(format!(
                    "GruBlockConfig: {name} must be a probability, expected 0 to below 1, got {p}"
                ))
            }
        };
        probability("dropout", self.dropout)?;
        if self.reverse && self.bidirectional {
            return Err("GruBlockConfig: expected reverse or bidirectional, got both".into());
        }
        let given = self.per_layer.len();
        if given != 0 && given != self.layer_count() {
            return Err(format!(
                "GruBlockConfig: per_layer must be empty or have one entry for each layer and \
                 direction, expected {}, got {given}",
                self.layer_count()
            ));
        }
        // Without entries of their own, all layers are as the first.
        for k in 0..given.max(1) {
            let options = self.options_of(k);
            probability("recurrent_dropout", options.recurrent_dropout)?;
            probability("zoneout", options.zoneout)?;
            self.layer_spec(k).try_check()?;
        }
        Ok(())
    }

    /// The bytes of all parameters in float64, if memory can address them: no product of sizes
    /// overflows after that.
    fn bytes(&self) -> Option<usize> {
        let (d, h) = (self.directions(), self.d_hidden);
        let gates = h.checked_mul(3)?;
        // Both weights and both biases of a layer that reads so many features.
        let layer = |inputs: usize| inputs.checked_add(h)?.checked_add(2)?.checked_mul(gates);
        let above = layer(h.checked_mul(d)?)?.checked_mul(self.num_layers - 1)?;
        let numbers = layer(self.d_input)?.checked_add(above)?.checked_mul(d)?;
        let bytes = numbers.checked_mul(8)?;
        (bytes <= isize::MAX as usize).then_some(bytes)
    }

    fn assemble(&self, layers: Vec<GruLayer>) -> GruBlock {
        GruBlock {
            layers,
            dropout: DropoutConfig::new(self.dropout).init(),
            d_input: self.d_input,
            d_hidden: self.d_hidden,
            num_layers: self.num_layers,
            bidirectional: self.bidirectional,
            batch_first: self.batch_first,
        }
    }

    fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// How many [`GruBlock::layers`] there are: L·D, layers times directions. For a configuration that
    /// [`validate`](Self::validate) accepts.
    pub fn layer_count(&self) -> usize {
        self.num_layers * self.directions()
    }

    /// How many features the `k`-th of [`GruBlock::layers`] reads: the rows of its input weight. For a
    /// configuration that [`validate`](Self::validate) accepts.
    pub fn layer_inputs(&self, k: usize) -> usize {
        match k / self.directions() {
            0 => self.d_input,
            _ => self.d_hidden * self.directions(),
        }
    }

    pub(super) fn options_of(&self, k: usize) -> GruLayerOptions {
        let own = self.per_layer.get(k).copied();
        own.unwrap_or_else(|| self.layer_options())
    }

    /// Which GRU the `k`-th of [`GruBlock::layers`] is. Its entry of `per_layer` counts, if there is one.
    pub fn layer_spec(&self, k: usize) -> GruSpec {
        let options = self.options_of(k);
        GruSpec::default()
            .with_reset(options.reset)
            .with_update(options.update)
            .with_activations(options.activations)
            .with_clip_gates(options.clip_gates)
            .with_clip_state(options.clip_state)
    }

    /// The time direction of the `k`-th of [`GruBlock::layers`].
    pub(crate) fn direction_of(&self, k: usize) -> Direction {
        if self.reverse || k % self.directions() == 1 {
            Direction::Reverse
        } else {
            Direction::Forward
        }
    }
}

/// A weight as a parameter, row by row in memory: a view, as a transposed tensor of another system,
/// would be copied at every call.
fn weight(weight: Tensor<2>) -> Param<Tensor<2>> {
    let dims = weight.dims();
    let rows: Tensor<1> = weight.reshape([dims[0] * dims[1]]);
    Param::from_tensor(rows.reshape(dims).detach())
}
