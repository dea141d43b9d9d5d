//! The configuration of a block, and its differences from a saved one.

use super::{GruBlock, GruBlockConfig, GruLayer};
use gru_spec::{Activations, Direction};
use std::fmt::Debug;

/// A saved configuration belongs to another GRU than the block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {expected}, as the block has it, got {actual}")]
pub struct GruMismatch {
    /// The first difference: an option of [`GruBlockConfig`], such as `d_hidden`, or of a layer, such as `layers.1.reset`.
    pub what: String,
    /// The value in the block, as `Debug` prints it.
    pub expected: String,
    /// The saved value, as `Debug` prints it.
    pub actual: String,
}

impl GruBlock {
    /// A configuration that creates a block like this one. Its initializer is the default. It has biases in all layers if
    /// one layer has them, and `b_ih` if a layer has `b_hh`.
    ///
    /// Save it with [`Config::save`](burn::config::Config::save) next to the block's record, which does not
    /// store which GRU the parameters belong to.
    pub fn config(&self) -> GruBlockConfig {
        let config = GruBlockConfig::new(self.d_input, self.d_hidden)
            .with_num_layers(self.num_layers)
            .with_bidirectional(self.bidirectional)
            .with_dropout(self.dropout.prob)
            .with_batch_first(self.batch_first)
            .with_bias(self.layers.iter().any(has_bias))
            .with_recurrent_bias(self.layers.iter().any(|layer| layer.b_hh.is_some()));
        let Some(layer) = self.layers.first() else {
            return config;
        };
        config
            .with_reverse(!self.bidirectional && layer.direction == Direction::Reverse)
            .with_checkpointing(layer.checkpointing)
            .with_layers(self.layers.iter().map(GruLayer::options).collect())
    }

    /// Checks that parameters saved with this configuration mean the same in this block.
    ///
    /// Burn's records store parameters by name, so parameters of a reset-before GRU load into a reset-after
    /// GRU. This function compares everything that changes the results of inference: sizes, directions, reset,
    /// update, activations, clips and zoneout. Layout, checkpointing and dropout may differ. Biases are not
    /// compared, because the parameters show which of them exist.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use gru_op::GruBlockConfig;
    ///
    /// let saved = GruBlockConfig::new(3, 4);
    /// let block = saved.clone().with_reset_after(false).init(&Device::flex());
    /// let difference = block.check_config(&saved).unwrap_err();
    /// assert!(difference.to_string().contains("reset"));
    /// ```
    ///
    /// # Errors
    /// The first difference.
    pub fn check_config(&self, saved: &GruBlockConfig) -> Result<(), GruMismatch> {
        equal("d_input", self.d_input, saved.d_input)?;
        equal("d_hidden", self.d_hidden, saved.d_hidden)?;
        equal("num_layers", self.num_layers, saved.num_layers)?;
        equal("bidirectional", self.bidirectional, saved.bidirectional)?;
        for (k, layer) in self.layers.iter().enumerate() {
            let name = |what| format!("layers.{k}.{what}");
            equal(&name("direction"), layer.direction, saved.direction_of(k))?;
            let (own, other) = (layer.options(), saved.options_of(k));
            // JSON has no infinity, and an infinite bound is the same as none.
            let [a, b] = [own.spec, other.spec].map(|spec| spec.for_numbers_up_to(f64::MAX));
            equal(&name("reset"), a.reset, b.reset)?;
            equal(&name("update"), a.update, b.update)?;
            let is_same = same_activations(a.activations, b.activations);
            same(&name("activations"), a.activations, b.activations, is_same)?;
            for (what, a, b) in [
                ("clip_gates", a.clip_gates, b.clip_gates),
                ("clip_state", a.clip_state, b.clip_state),
            ] {
                let is_same = a.zip(b).map_or(a == b, |(a, b)| near(a, b));
                same(&name(what), a, b, is_same)?;
            }
            let (a, b) = (own.zoneout, other.zoneout);
            same(&name("zoneout"), a, b, near(a, b))?;
        }
        Ok(())
    }
}

fn has_bias(layer: &GruLayer) -> bool {
    layer.b_ih.is_some() || layer.b_hh.is_some()
}

/// Whether two numbers are equal up to their last digits, which JSON may change.
fn near(own: f64, saved: f64) -> bool {
    (own - saved).abs() <= 1e-12 * own.abs()
}

fn same_activations(own: Activations, saved: Activations) -> bool {
    let gates = |all: Activations| all.into_array().map(|a| a.numbered());
    let mut pairs = gates(own).into_iter().zip(gates(saved));
    pairs.all(|((own, [a, b]), (saved, [c, d]))| own == saved && near(a, c) && near(b, d))
}

fn equal<T: Debug + PartialEq>(what: &str, own: T, saved: T) -> Result<(), GruMismatch> {
    let is_same = own == saved;
    same(what, own, saved, is_same)
}

fn same<T: Debug>(what: &str, own: T, saved: T, is_same: bool) -> Result<(), GruMismatch> {
    if is_same {
        return Ok(());
    }
    Err(GruMismatch {
        what: what.into(),
        expected: format!("{own:?}"),
        actual: format!("{saved:?}"),
    })
}
