//! A call in a captured graph.

use super::{STATES, arguments::Arguments, missing, split};
use burn::backend::ir::{CustomOpIr, TensorIr};
use gru_spec::{GruSpec, Inputs, Lengths, MissingInput, Order};

/// A call in a captured graph, for exporters.
#[derive(Debug, Clone)]
pub struct RecordedCall {
    /// What a step computes.
    pub spec: GruSpec,
    /// The order in memory, and the direction.
    pub order: Order,
    /// The lengths of the rows.
    pub lengths: Lengths,
    /// The inputs.
    pub inputs: Inputs<TensorIr>,
    /// The state after every step.
    pub states: TensorIr,
}

impl RecordedCall {
    /// Reads an operation of gru-op. `None` is an operation of another crate.
    ///
    /// # Errors
    /// If the operation is not a call in inference of this version of gru-op.
    pub fn read(op: &CustomOpIr) -> Result<Option<Self>, String> {
        if !op.id.starts_with("gru_op::") {
            return Ok(None);
        }
        let (STATES, [states]) = (&op.id[..], &op.outputs[..]) else {
            return Err(format!("expected {STATES}, got {}", op.id));
        };
        let arguments = Arguments::decode(&op.scalars)?;
        let mut tensors = op.inputs.iter().cloned();
        let is_present = |k: usize| arguments.present >> k & 1 == 1;
        let slots = std::array::from_fn(|k| is_present(k).then(|| tensors.next()).flatten());
        let (inputs, _) = split(slots);
        Ok(Some(Self {
            spec: arguments.spec,
            order: arguments.order,
            lengths: arguments.lengths,
            inputs: inputs.map_err(|MissingInput(name)| missing(name))?,
            states: states.clone(),
        }))
    }
}
