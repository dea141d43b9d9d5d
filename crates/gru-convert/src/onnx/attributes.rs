//! The attributes of a GRU node in a file.

use super::{
    Attributes,
    proto::{self, kind},
};
use crate::error::ConvertError;
use prost::bytes::Bytes;

/// The attributes of a GRU, each with the type that the operator defines.
pub(super) fn attributes(node: &str, list: &[Bytes]) -> Result<Attributes, ConvertError> {
    let broken = |reason: String| ConvertError::Model {
        reason: format!("GRU {node:?}: {reason}"),
    };
    let mut attributes = Attributes::default();
    for bytes in list {
        let attribute: proto::Attribute = proto::decode(bytes).map_err(broken)?;
        let (name, found) = (attribute.name().to_owned(), attribute.r#type());
        let expected = match name.as_str() {
            "activations" => kind::STRINGS,
            "activation_alpha" | "activation_beta" => kind::FLOATS,
            "clip" => kind::FLOAT,
            "direction" => kind::STRING,
            // Operator set 1 has `output_sequence`, which turns off an output.
            "hidden_size" | "layout" | "linear_before_reset" | "output_sequence" => kind::INT,
            _ => {
                return Err(broken(format!(
                    "attribute {name}: expected one of the operator's, activations, \
                     activation_alpha, activation_beta, clip, direction, hidden_size, layout, \
                     linear_before_reset"
                )));
            }
        };
        // The first version of the format had no types.
        if found != 0 && found != expected {
            return Err(broken(format!(
                "attribute {name}: expected type {expected}, got {found}"
            )));
        }
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).map(String::from);
            text.map_err(|_| broken(format!("attribute {name}: expected UTF-8")))
        };
        let i = attribute.i();
        match name.as_str() {
            "activations" => {
                let names: Result<_, _> = attribute.strings.iter().map(|s| text(s)).collect();
                attributes.activations = names?;
            }
            "activation_alpha" => attributes.activation_alpha = attribute.floats,
            "activation_beta" => attributes.activation_beta = attribute.floats,
            "clip" => attributes.clip = Some(attribute.f()),
            "direction" => attributes.direction = text(attribute.s())?,
            "hidden_size" => {
                let size = usize::try_from(i).map_err(|_| {
                    broken(format!("hidden_size: expected a positive number, got {i}"))
                });
                attributes.hidden_size = Some(size?);
            }
            "layout" => attributes.layout = i,
            "linear_before_reset" => attributes.linear_before_reset = i,
            _ => {}
        }
    }
    Ok(attributes)
}
