//! The attributes of a GRU node in a file.

use super::{
    Attributes,
    proto::{self, kind},
};
use crate::error::ConvertError;
use prost::{Message, bytes::Bytes};

/// The attributes of a GRU, each with the type that the operator defines.
pub(super) fn attributes(node: &str, list: &[Bytes]) -> Result<Attributes, ConvertError> {
    let broken = |reason: String| ConvertError::Model {
        reason: format!("GRU {node:?}: {reason}"),
    };
    let mut attributes = Attributes::default();
    for bytes in list {
        let attribute =
            proto::Attribute::decode(bytes.clone()).map_err(|e| broken(e.to_string()))?;
        let (name, found) = (attribute.name().to_owned(), attribute.r#type());
        // The first version of the format had no types.
        let typed = |expected: i32| match found {
            0 => Ok(()),
            found if found == expected => Ok(()),
            found => Err(broken(format!(
                "attribute {name}: expected type {expected}, got {found}"
            ))),
        };
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).map(String::from);
            text.map_err(|_| broken(format!("attribute {name}: expected UTF-8")))
        };
        match name.as_str() {
            "activations" => {
                typed(kind::STRINGS)?;
                let names: Result<_, _> = attribute.strings.iter().map(|s| text(s)).collect();
                attributes.activations = names?;
            }
            "activation_alpha" => {
                typed(kind::FLOATS)?;
                attributes.activation_alpha = attribute.floats;
            }
            "activation_beta" => {
                typed(kind::FLOATS)?;
                attributes.activation_beta = attribute.floats;
            }
            "clip" => {
                typed(kind::FLOAT)?;
                attributes.clip = Some(attribute.f());
            }
            "direction" => {
                typed(kind::STRING)?;
                attributes.direction = text(attribute.s())?;
            }
            "hidden_size" => {
                typed(kind::INT)?;
                let size = attribute.i();
                let positive = usize::try_from(size);
                attributes.hidden_size = Some(positive.map_err(|_| {
                    broken(format!(
                        "hidden_size: expected a positive number, got {size}"
                    ))
                })?);
            }
            "layout" => {
                typed(kind::INT)?;
                attributes.layout = attribute.i();
            }
            "linear_before_reset" => {
                typed(kind::INT)?;
                attributes.linear_before_reset = attribute.i();
            }
            // Attribute of operator set 1, which turned off an output.
            "output_sequence" => typed(kind::INT)?,
            _ => {
                return Err(broken(format!(
                    "attribute {name}: expected one of the operator's, activations, \
                     activation_alpha, activation_beta, clip, direction, hidden_size, layout, \
                     linear_before_reset"
                )));
            }
        }
    }
    Ok(attributes)
}
