//! The configuration of a [`GruBlock`].

use super::{GruBlock, GruError, GruInitializer, GruLayer};
use crate::{backend::is_addressable, op::options::GruWeights};
use burn::{
    config::Config,
    module::{Initializer, Param},
    nn::DropoutConfig,
    tensor::{Device, Tensor},
};
use gru_spec::{Checkpointing, Direction, GruSpec};

/// Describes a [`GruBlock`]. [`init`](GruBlockConfig::init) creates it.
///
/// Methods and defaults are the ones of Burn's `GruConfig`, except that `new` has no third argument `bias`, activations
/// are [`Activation`](crate::Activation), and an initializer is a [`GruInitializer`](crate::GruInitializer).
/// [`try_from`](GruBlockConfig::try_from) converts a `GruConfig`. Burn's `load` ignores an unknown
/// option, and `GruBlock::from_file` rejects it.
///
/// ```
/// use burn::nn::gru::GruConfig;
/// use gru_op::{GruBlockConfig, Reset};
///
/// let config = GruConfig::new(64, 128, false).with_reset_after(false);
/// assert_eq!(GruBlockConfig::try_from(&config)?.spec.reset, Reset::BeforeMatmul);
///
/// let config = GruBlockConfig::new(64, 128).with_bias(false).with_reset_after(false);
/// assert_eq!(config.spec.reset, Reset::BeforeMatmul);
/// # Ok::<_, gru_op::GruError>(())
/// ```
#[derive(Config, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct GruBlockConfig {
    /// I, features of the input.
    pub d_input: usize,
    /// H, hidden units of every layer and direction.
    pub d_hidden: usize,
    /// L, layers. Each reads the output of the previous layer.
    #[config(default = 1)]
    pub num_layers: usize,
    /// Whether every layer also has a reverse direction. Its output is then `[…,2H]`, forward first.
    #[config(default = false)]
    pub bidirectional: bool,
    /// Whether every layer has the reverse direction only: ONNX' `reverse`, and Keras' `go_backwards`, which also
    /// reverses the outputs.
    #[config(default = false)]
    pub reverse: bool,
    /// Probability that dropout between layers sets an element to zero, in training. With one layer it has no effect, and
    /// the log has a warning.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Probability that the gates do not see a unit of the state, in training. Drawn once per row and
    /// sequence, for all gates and steps (Gal and Ghahramani 2016, <https://arxiv.org/abs/1512.05287>, tied
    /// weights). Kept units are divided by `1 − p`. Keras draws one mask per gate.
    #[config(default = 0.0)]
    pub recurrent_dropout: f64,
    /// Probability that a unit keeps its previous state. Drawn for every step and unit in training, and replaced
    /// by its mean otherwise (Krueger et al. 2017, <https://arxiv.org/abs/1606.01305>).
    #[config(default = 0.0)]
    pub zoneout: f64,
    /// Whether the products have biases.
    #[config(default = true)]
    pub bias: bool,
    /// Whether the recurrent product has its own bias too. TensorFlow's GRU has none, and Keras' with `reset_after=False`.
    #[config(default = true)]
    pub recurrent_bias: bool,
    /// Whether sequences are `[N,T,·]`. Otherwise they are `[T,N,·]`.
    #[config(default = true)]
    pub batch_first: bool,
    /// What a step computes.
    #[config(default = "GruSpec::default()")]
    pub spec: GruSpec,
    /// What training keeps for backward.
    #[config(default = "Checkpointing::KeepGates")]
    pub checkpointing: Checkpointing,
    /// How the parameters are drawn. Default: Xavier normal, for each gate, as Burn's `Gru`.
    #[config(default = "GruInitializer::PerGate(Initializer::XavierNormal { gain: 1.0 })")]
    pub initializer: GruInitializer,
    /// How the recurrent weights and their biases are drawn, if not as the others. [`GruInitializer`] has Keras'
    /// defaults.
    #[config(default = "None")]
    pub recurrent_initializer: Option<GruInitializer>,
    /// Options of each layer and direction, in the order of [`GruBlock::layers`], or none. They replace the
    /// fields with the same names. Start from [`layer_options`](GruBlockConfig::layer_options).
    #[config(default = "Vec::new()")]
    pub per_layer: Vec<GruLayerOptions>,
}

/// Options of one direction of one layer. [`GruBlockConfig`] explains the fields.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[allow(missing_docs)] // The configuration explains them.
pub struct GruLayerOptions {
    pub spec: GruSpec,
    pub recurrent_dropout: f64,
    pub zoneout: f64,
}

impl GruBlockConfig {
    /// Creates a block with random parameters.
    ///
    /// # Panics
    /// If the configuration is not valid:
    /// - a size or the number of layers is zero, or the parameters do not fit in memory,
    /// - a probability is not in `[0, 1)`,
    /// - both `reverse` and `bidirectional` are set,
    /// - `per_layer` is not empty and does not have one entry per layer and direction,
    /// - [`GruSpec::check`] panics.
    pub fn init(&self, device: &Device) -> GruBlock {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let (init, h) = (&self.initializer, self.d_hidden);
        let recurrent = self.recurrent_initializer.as_ref().unwrap_or(init);
        let layer = |k: usize| {
            let inputs = self.layer_inputs(k);
            let weights = [
                init.weight(inputs, h, device),
                recurrent.weight(h, h, device),
            ];
            let b_ih = self.bias.then(|| init.bias(inputs, h, device));
            let b_hh = (self.bias && self.recurrent_bias).then(|| recurrent.bias(h, h, device));
            self.layer(k, weights, [b_ih, b_hh])
        };
        self.assemble((0..self.layer_count()).map(layer).collect())
    }

    /// Checks the configuration.
    ///
    /// # Errors
    /// [`GruError::Spec`] where [`GruSpec::check`] panics, and [`GruError::Config`] where [`init`](Self::init) panics
    /// for another reason.
    ///
    /// ```
    /// use gru_op::GruBlockConfig;
    ///
    /// let error = GruBlockConfig::new(3, 4).with_dropout(1.0).validate().unwrap_err();
    /// assert!(error.to_string().contains("dropout must be a probability"));
    /// ```
    pub fn validate(&self) -> Result<(), GruError> {
        let expect = |is_right: bool, error: String| {
            let reason = format!("GruBlockConfig: {error}");
            is_right.then_some(()).ok_or(GruError::Config { reason })
        };
        let (i, h, layers) = (self.d_input, self.d_hidden, self.num_layers);
        for (name, size) in [("d_input", i), ("d_hidden", h), ("num_layers", layers)] {
            let error = format!("{name} must be positive, expected > 0, got 0");
            expect(size > 0, error)?;
        }
        let sizes = format!("d_input {i}, d_hidden {h}, num_layers {layers}");
        let error = format!("expected parameters that memory can address, got {sizes}");
        expect(self.fits_in_memory(), error)?;
        let probability = |name: &str, p: f64| {
            let error = format!("{name} must be a probability, expected 0 to below 1, got {p}");
            expect((0.0..1.0).contains(&p), error)
        };
        probability("dropout", self.dropout)?;
        let error = "expected reverse or bidirectional, got both".into();
        expect(!(self.reverse && self.bidirectional), error)?;
        let (given, expected) = (self.per_layer.len(), self.layer_count());
        let error = format!(
            "per_layer must be empty or have one entry for each layer and direction, expected {expected}, got {given}"
        );
        expect(given == 0 || given == expected, error)?;
        // Without entries, all layers have the options of the first.
        for k in 0..given.max(1) {
            let options = self.options_of(k);
            probability("recurrent_dropout", options.recurrent_dropout)?;
            probability("zoneout", options.zoneout)?;
            options.spec.try_check()?;
        }
        Ok(())
    }

    /// Builds a block from weights, in the order of [`GruBlock::layers`]. `bias`, `recurrent_bias` and the initializers
    /// are ignored. The tensors are detached, and become parameters on their own device, in their own type.
    ///
    /// # Errors
    /// If the configuration is not valid, as for [`validate`](Self::validate), or if the number of weights or a shape does
    /// not match it. [`GruError::MissingKey`] without an input weight.
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
        let bias = |bias: Option<Tensor<1>>| bias.map(|b| Param::from_tensor(b.detach()));
        let layer = |(k, from): (usize, GruWeights)| {
            let w_ih = from.w_ih.expect("every layer has an input weight");
            let weights = [weight(w_ih), weight(from.w_hh)];
            self.layer(k, weights, [bias(from.b_ih), bias(from.b_hh)])
        };
        Ok(self.assemble(weights.into_iter().enumerate().map(layer).collect()))
    }

    /// The options that the fields of this configuration set for all layers.
    ///
    /// ```
    /// use gru_op::{GruBlockConfig, Reset};
    ///
    /// // The second layer resets before the product.
    /// let config = GruBlockConfig::new(3, 4).with_num_layers(2);
    /// let mut second = config.layer_options();
    /// second.spec.reset = Reset::BeforeMatmul;
    /// let config = config.clone().with_per_layer(vec![config.layer_options(), second]);
    /// ```
    pub fn layer_options(&self) -> GruLayerOptions {
        GruLayerOptions {
            spec: self.spec,
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
        for (k, weights) in weights.iter().enumerate() {
            let (i, h) = (self.layer_inputs(k), self.d_hidden);
            let name = |tensor: &str| format!("layers.{k}.{tensor}");
            let Some(w_ih) = &weights.w_ih else {
                return Err(GruError::MissingKey { key: name("w_ih") });
            };
            GruError::expect_shape(&name("w_ih"), &[i, 3 * h], &w_ih.dims())?;
            GruError::expect_shape(&name("w_hh"), &[h, 3 * h], &weights.w_hh.dims())?;
            for (bias, b) in [("b_ih", &weights.b_ih), ("b_hh", &weights.b_hh)] {
                if let Some(b) = b {
                    GruError::expect_shape(&name(bias), &[3 * h], &b.dims())?;
                }
            }
        }
        Ok(())
    }

    /// The `k`-th of [`GruBlock::layers`] with these parameters.
    fn layer(
        &self,
        k: usize,
        [w_ih, w_hh]: [Param<Tensor<2>>; 2],
        [b_ih, b_hh]: [Option<Param<Tensor<1>>>; 2],
    ) -> GruLayer {
        let options = self.options_of(k);
        GruLayer {
            w_ih,
            w_hh,
            b_ih,
            b_hh,
            recurrent_dropout: options.recurrent_dropout,
            zoneout: options.zoneout,
            spec: options.spec,
            direction: self.direction_of(k),
            checkpointing: self.checkpointing,
            memory: Some(Default::default()),
        }
    }

    /// Whether memory can hold all parameters in float64. After this, no product of sizes overflows.
    fn fits_in_memory(&self) -> bool {
        let (d, h) = (self.directions(), self.d_hidden);
        // The rows of two weights and two biases.
        let rows = |inputs: usize| inputs.saturating_add(h).saturating_add(2);
        let above = rows(h.saturating_mul(d)).saturating_mul(self.num_layers - 1);
        let all = rows(self.d_input).saturating_add(above);
        is_addressable(&[all, d, h.saturating_mul(3)])
    }

    fn assemble(&self, layers: Vec<GruLayer>) -> GruBlock {
        if self.dropout > 0.0 && self.num_layers == 1 {
            let p = self.dropout;
            log::warn!("GruBlockConfig: dropout {p} acts between layers, but num_layers is 1");
        }
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

    /// The number of [`GruBlock::layers`], L·D, of a [valid](Self::validate) configuration.
    pub fn layer_count(&self) -> usize {
        self.num_layers * self.directions()
    }

    /// The number of input features of the `k`-th of [`GruBlock::layers`] of a [valid](Self::validate) configuration.
    pub fn layer_inputs(&self, k: usize) -> usize {
        match k / self.directions() {
            0 => self.d_input,
            _ => self.d_hidden * self.directions(),
        }
    }

    /// The options of the `k`-th of [`GruBlock::layers`].
    pub fn options_of(&self, k: usize) -> GruLayerOptions {
        let own = self.per_layer.get(k).copied();
        own.unwrap_or_else(|| self.layer_options())
    }

    /// Sets the options of each layer and direction. If all are equal, the fields of the configuration have them, and
    /// its user may change them.
    #[doc(hidden)]
    pub fn with_layers(mut self, options: Vec<GruLayerOptions>) -> Self {
        match &options[..] {
            [first, others @ ..] if others.iter().all(|other| other == first) => {
                self.spec = first.spec;
                self.recurrent_dropout = first.recurrent_dropout;
                self.zoneout = first.zoneout;
                self.per_layer = Vec::new();
            }
            _ => self.per_layer = options,
        }
        self
    }

    /// What a step of the `k`-th of [`GruBlock::layers`] computes.
    pub fn layer_spec(&self, k: usize) -> GruSpec {
        self.options_of(k).spec
    }

    /// The direction of time of the `k`-th of [`GruBlock::layers`].
    pub(super) fn direction_of(&self, k: usize) -> Direction {
        if self.reverse || k % self.directions() == 1 {
            Direction::Reverse
        } else {
            Direction::Forward
        }
    }
}

/// A contiguous parameter. A transposed view of another system would be copied at every call.
fn weight(weight: Tensor<2>) -> Param<Tensor<2>> {
    let dims = weight.dims();
    let rows: Tensor<1> = weight.reshape([dims[0] * dims[1]]);
    Param::from_tensor(rows.reshape(dims).detach())
}
