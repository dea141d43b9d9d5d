//! The GRUs that a system supports, and checks of blocks and configurations.

use crate::error::ConvertError;
use gru_op::{Activations, GruBlock, GruBlockConfig, GruSpec, Reset, Update};
use std::fmt::Debug;

/// The GRUs that one module of a system supports, apart from sizes.
pub(crate) struct System {
    /// Its name in error texts.
    pub name: &'static str,
    /// Whether it can have more than one layer.
    pub layers: bool,
    /// Whether it can be bidirectional.
    pub bidirectional: bool,
    /// Whether it can be only reverse.
    pub reverse: bool,
    /// The place of its reset gate, or none if both are supported.
    pub reset: Option<Reset>,
    /// Whether it supports both update rules.
    pub takes: bool,
    /// The activations that it supports.
    pub activations: fn(&Activations) -> bool,
    /// Whether each direction can have its own activations.
    pub own_activations: bool,
    /// Whether it bounds pre-activations.
    pub clip_gates: bool,
    /// Whether it bounds states.
    pub clip_state: bool,
}

/// One forward layer with sigmoid gates and a tanh candidate. All systems support it, and each lists its
/// differences.
pub(crate) const PLAIN: System = System {
    name: "",
    layers: false,
    bidirectional: false,
    reverse: false,
    reset: None,
    takes: false,
    activations: |activations| *activations == Activations::default(),
    own_activations: false,
    clip_gates: false,
    clip_state: false,
};

impl System {
    /// Returns an error if this system cannot compute the block. Dropout and recurrent dropout are
    /// ignored, because they only affect training.
    pub fn check_block(&self, block: &GruBlock) -> Result<(), ConvertError> {
        let config = block.config();
        config.check_weights(&block.weights())?;
        // The fields of a block are public, so a block may have no configuration.
        block
            .check_config(&config)
            .map_err(|odd| self.lacks(format!("{} {}", odd.what, odd.expected)))?;
        if block.layers.iter().any(|layer| layer.zoneout != 0.0) {
            return Err(self.lacks("zoneout"));
        }
        self.check(&config)
    }

    /// Returns an error if the configuration does not match `found`, the configuration of the arrays. If
    /// a system supports both reset forms, the shape of the bias shows which one is used.
    pub fn check_config(
        &self,
        config: &GruBlockConfig,
        found: &GruBlockConfig,
    ) -> Result<(), ConvertError> {
        config.validate()?;
        same("d_input", config.d_input, found.d_input)?;
        same("d_hidden", config.d_hidden, found.d_hidden)?;
        same("num_layers", config.num_layers, found.num_layers)?;
        same("bidirectional", config.bidirectional, found.bidirectional)?;
        same("bias", config.bias, found.bias)?;
        self.check(config)?;
        if self.reset.is_none() && found.bias {
            same(
                "reset",
                config.layer_spec(0).reset,
                found.layer_spec(0).reset,
            )
        } else {
            Ok(())
        }
    }

    fn check(&self, config: &GruBlockConfig) -> Result<(), ConvertError> {
        let shape = [
            (!self.layers && config.num_layers > 1, "several layers"),
            (
                !self.bidirectional && config.bidirectional,
                "both directions",
            ),
            (!self.reverse && config.reverse, "a layer in reverse only"),
        ];
        if let Some((_, what)) = shape.into_iter().find(|(lacking, _)| *lacking) {
            return Err(self.lacks(what));
        }
        let kind = |spec: &GruSpec| {
            let activations = (!self.own_activations).then_some(spec.activations);
            (spec.reset, spec.update, spec.clip_gates, activations)
        };
        let first = kind(&config.layer_spec(0));
        for k in 0..config.layer_count() {
            let spec = config.layer_spec(k);
            let other_reset = self.reset.is_some_and(|reset| spec.reset != reset);
            let clip = |clip: Option<f64>| clip.filter(|c| c.is_finite());
            let lacking = [
                other_reset.then(|| format!("Reset::{:?}", spec.reset)),
                (!self.takes && spec.update == Update::Takes).then(|| "Update::Takes".into()),
                (!(self.activations)(&spec.activations)).then(|| format!("{:?}", spec.activations)),
                clip(spec.clip_gates.filter(|_| !self.clip_gates))
                    .map(|c| format!("clip_gates {c}")),
                clip(spec.clip_state.filter(|_| !self.clip_state))
                    .map(|c| format!("clip_state {c}")),
                (kind(&spec) != first).then(|| "layers or directions of different GRUs".into()),
            ];
            if let Some(what) = lacking.into_iter().flatten().next() {
                return Err(self.lacks(what));
            }
        }
        Ok(())
    }

    /// The error for a GRU that this system does not support.
    pub fn lacks(&self, what: impl Into<String>) -> ConvertError {
        ConvertError::Inexpressible {
            system: self.name,
            what: what.into(),
        }
    }
}

/// Returns an error if the configuration differs from the arrays.
pub(crate) fn same<T: PartialEq + Debug>(
    what: &'static str,
    config: T,
    found: T,
) -> Result<(), ConvertError> {
    if config == found {
        Ok(())
    } else {
        Err(ConvertError::Mismatch {
            what,
            expected: format!("{found:?}"),
            actual: format!("{config:?}"),
        })
    }
}
