//! The configuration of a block, and its differences from a saved one.

use super::{GruBlock, GruBlockConfig, GruLayerOptions};
use gru_spec::Direction;
use std::fmt::Debug;

/// A saved configuration belongs to another GRU than the block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {expected}, as the block has it, got {actual}")]
pub struct GruMismatch {
    /// The first difference, such as `layers.1.reset`.
    pub what: String,
    /// The value in the block.
    pub expected: String,
    /// The saved value.
    pub actual: String,
}

impl GruBlock {
    /// A configuration that creates a block like this one. Its initializer is the default.
    ///
    /// Save it with [`Config::save`](burn::config::Config::save) next to the block's record, which does not
    /// store which GRU the parameters belong to.
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
        let all_equal = options.iter().all(|other| *other == first);
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
            .with_per_layer(if all_equal { Vec::new() } else { options })
    }

    /// Checks that parameters saved with this configuration mean the same in this block.
    ///
    /// Burn's records store parameters by name, so parameters of a reset-before GRU load into a reset-after
    /// GRU. This function compares everything that changes the results of inference: sizes, directions, reset,
    /// update, activations, clips and zoneout. Layout, checkpointing and dropout may differ.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_config(&self, saved: &GruBlockConfig) -> Result<(), GruMismatch> {
        same("d_input", self.d_input, saved.d_input)?;
        same("d_hidden", self.d_hidden, saved.d_hidden)?;
        same("num_layers", self.num_layers, saved.num_layers)?;
        same("bidirectional", self.bidirectional, saved.bidirectional)?;
        // JSON has no infinity, and an infinite bound is the same as none.
        let bound = |clip: Option<f64>| clip.filter(|c| c.is_finite());
        for (k, layer) in self.layers.iter().enumerate() {
            let (own, other) = (layer.options(), saved.options_of(k));
            let name = |what| format!("layers.{k}.{what}");
            same(&name("direction"), layer.direction, saved.direction_of(k))?;
            same(&name("reset"), own.reset, other.reset)?;
            same(&name("update"), own.update, other.update)?;
            same(&name("activations"), own.activations, other.activations)?;
            same(
                &name("clip_gates"),
                bound(own.clip_gates),
                bound(other.clip_gates),
            )?;
            same(
                &name("clip_state"),
                bound(own.clip_state),
                bound(other.clip_state),
            )?;
            same(&name("zoneout"), own.zoneout, other.zoneout)?;
        }
        Ok(())
    }
}

/// Compares the printed values, with numbers to twelve digits. JSON may change the last digits.
fn same<T: Debug>(what: &str, own: T, saved: T) -> Result<(), GruMismatch> {
    let (expected, actual) = (format!("{own:.12?}"), format!("{saved:.12?}"));
    if expected == actual {
        return Ok(());
    }
    let what = what.into();
    Err(GruMismatch {
        what,
        expected,
        actual,
    })
}
