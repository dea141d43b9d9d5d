//! A `GRU` node of a file.

use super::{Attributes, attributes::attributes, proto};
use crate::error::ConvertError;

/// A `GRU` node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    name: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    attributes: Attributes,
}

impl Node {
    /// Its name, or the name of its first output if it has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of `X`, `W`, `R`, `B`, `sequence_lens` and `initial_h`. Absent inputs are empty or
    /// missing.
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// The names of `Y` and `Y_h`. Absent outputs are empty or missing.
    pub fn outputs(&self) -> &[String] {
        &self.outputs
    }

    /// Its attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    pub(super) fn read(node: proto::Node) -> Result<Self, ConvertError> {
        let first = || node.output.iter().find(|name| !name.is_empty()).cloned();
        let name = match node.name.filter(|name| !name.is_empty()) {
            Some(name) => name,
            None => first().unwrap_or_default(),
        };
        let attributes = attributes(&name, &node.attribute)?;
        Ok(Self {
            name,
            inputs: node.input,
            outputs: node.output,
            attributes,
        })
    }
}
