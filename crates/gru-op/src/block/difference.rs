//! Which GRU a block is: its configuration, told from its layers, and compared with a saved one.

use super::{GruBlock, GruBlockConfig, GruLayerOptions};
use gru_spec::Direction;
use std::fmt::Debug;

/// A saved configuration and a block that are not of the same GRU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {expected}, as the block has it, got {actual}")]
pub struct GruMismatch {
    /// In what they differ, as `layers.1.reset`.
    pub what: String,
    /// What the block has.
    pub expected: String,
    /// What was saved.
    pub actual: String,
}

impl GruBlock {
    /// A configuration that makes a block like this one. Its initializer is the default: how
    /// parameters were drawn is not known afterwards.
    ///
    /// To be saved beside the block's record, by [`Config::save`](burn::config::Config::save): a
    /// record does not say which GRU its parameters belong to.
    pub fn config(&self) -> GruBlockConfig {
        let config = GruBlockConfig::new(self.d_input, self.d_hidden)
            .with_num_layers(self.num_layers)
            .with_bidirectional(self.bidirectional)
            .with_dropout(self.dropout.prob)
            .with_batch_first(self.batch_first)
            .with_bias(self.layers.iter().any(|layer| layer.b_ih.is_some()));
        let options: Vec<GruLayerOptions> = self.layers.iter().map(|l| l.options()).collect();
        let Some((layer, first)) = self.layers.first().zip(options.first().copied()) else {
            return config;
        };
        let alike = options.iter().all(|other| *other == first);
        config
            .with_reverse(!self.bidirectional && layer.direction == Direction::Reverse)
            .with_checkpointing(layer.checkpointing)
            .with_reset(first.reset)
            .with_update(first.update)
            .with_activations(first.activations)
            .with_clip_gates(first.clip_gates)
            .with_clip_state(first.clip_state)
            .with_recurrent_dropout(first.recurrent_dropout)
            .with_zoneout(first.zoneout)
            .with_per_layer(if alike { Vec::new() } else { options })
    }

    /// Refuses the configuration of another GRU than this block's: one whose parameters would
    /// mean something else here.
    ///
    /// Burn's records hold parameters by name, so those of a block that resets before the product
    /// load into one that resets after it. This compares all that changes a number of inference:
    /// sizes, directions, reset, update, activations, clips and zoneout. Layout, checkpointing and the
    /// noise of training may differ.
    ///
    /// # Errors
    /// Names the first difference: the layer, what this block has, what was saved.
    pub fn check_config(&self, saved: &GruBlockConfig) -> Result<(), GruMismatch> {
        same("d_input", self.d_input, saved.d_input)?;
        same("d_hidden", self.d_hidden, saved.d_hidden)?;
        same("num_layers", self.num_layers, saved.num_layers)?;
        same("bidirectional", self.bidirectional, saved.bidirectional)?;
        for (k, layer) in self.layers.iter().enumerate() {
            let (ours, theirs) = (layer.options(), saved.options_of(k));
            let name = |what| format!("layers.{k}.{what}");
            same(&name("direction"), layer.direction, saved.direction_of(k))?;
            same(&name("reset"), ours.reset, theirs.reset)?;
            same(&name("update"), ours.update, theirs.update)?;
            same(&name("activations"), ours.activations, theirs.activations)?;
            // A bound that is infinite is none, and JSON has no infinity.
            let finite = |clip: Option<f64>| clip.filter(|c| c.is_finite());
            let (clip, saved) = (finite(ours.clip_gates), finite(theirs.clip_gates));
            same(&name("clip_gates"), clip, saved)?;
            let (clip, saved) = (finite(ours.clip_state), finite(theirs.clip_state));
            same(&name("clip_state"), clip, saved)?;
            same(&name("zoneout"), ours.zoneout, theirs.zoneout)?;
        }
        Ok(())
    }
}

/// Compares what would be shown, numbers to twelve digits: the last ones may change in JSON.
fn same<T: Debug>(what: &str, ours: T, saved: T) -> Result<(), GruMismatch> {
    let (expected, actual) = (format!("{ours:.12?}"), format!("{saved:.12?}"));
    if expected == actual {
        Ok(())
    } else {
        Err(GruMismatch {
            what: what.into(),
            expected,
            actual,
        })
    }
}
