//! Which GRUs a system has, and whether a block or a configuration is one of them.

use crate::error::ConvertError;
use gru_op::{Activations, GruBlock, GruBlockConfig, GruSpec, Reset, Update};
use std::fmt::Debug;

/// Which GRUs one module of a system can be, sizes aside.
pub(crate) struct System {
    /// Its name in messages.
    pub name: &'static str,
    /// Whether it may have more than one layer.
    pub layers: bool,
    /// Whether it may walk time in both directions.
    pub bidirectional: bool,
    /// Whether it may walk time in reverse only.
    pub reverse: bool,
    /// Where its reset gate acts; either place if absent.
    pub reset: Option<Reset>,
    /// Whether its update gate may take the new state, as well as keep the old one.
    pub takes: bool,
    /// Which activations it has.
    pub activations: fn(&Activations) -> bool,
    /// Whether each direction may have activations of its own.
    pub own_activations: bool,
    /// Whether it bounds pre-activations.
    pub clip_gates: bool,
}

/// One layer, forward in time, with sigmoid gates and a tanh candidate: what all have, from which each
/// says where it differs.
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
};

impl System {
    /// Refuses a block that this system cannot compute. What only training draws, dropout and
    /// recurrent dropout, is no matter of arrays.
    pub fn check_block(&self, block: &GruBlock) -> Result<(), ConvertError> {
        let config = block.config();
        config.check_weights(&block.weights())?;
        // The fields of a block are public, and no configuration says all that they can.
        block
            .check_config(&config)
            .map_err(|odd| self.lacks(format!("{} {}", odd.what, odd.expected)))?;
        if block.layers.iter().any(|layer| layer.zoneout != 0.0) {
            return Err(self.lacks("zoneout"));
        }
        self.check(&config)
    }

    /// Refuses a configuration of another GRU than the arrays' own, `found`. Where a system has
    /// both placements of the reset gate, the form of the bias tells which.
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
            same("reset", config.layer_spec(0).reset, found.reset)
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
                clip(spec.clip_state).map(|c| format!("clip_state {c}")),
                (kind(&spec) != first).then(|| "layers or directions of different GRUs".into()),
            ];
            if let Some(what) = lacking.into_iter().flatten().next() {
                return Err(self.lacks(what));
            }
        }
        Ok(())
    }

    /// The error of a GRU that this system does not have.
    pub fn lacks(&self, what: impl Into<String>) -> ConvertError {
        ConvertError::Inexpressible {
            system: self.name,
            what: what.into(),
        }
    }
}

/// Refuses a configuration that says something else than the arrays.
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
