//! Recurrent nodes that [`Model`](super::Model) does not read, for its errors.

use super::proto;
use gru_op::files::Limit;
use prost::bytes::Bytes;
use std::collections::BTreeMap;

/// What each node is, by its name and its outputs.
pub type Elsewhere = BTreeMap<String, String>;

/// The bytes that an entry needs.
const ENTRY: u64 = 512;

/// Fields of a node, of an attribute, and of a function.
const OUTPUT: u32 = 2;
const NAME: u32 = 3;
const KIND: u32 = 4;
const ATTRIBUTE: u32 = 5;
const GRAPHS: [u32; 2] = [6, 11];
const NODE: u32 = 1;
const NODE_OF_FUNCTION: u32 = 7;

/// Adds an `LSTM` or `RNN`, or the recurrent nodes in the branches or the body of a node.
pub fn add_node(found: &mut Elsewhere, node: &Bytes, limit: &mut Limit) -> Result<(), String> {
    add(found, vec![(node.clone(), None)], limit)
}

/// Adds the nodes of a function of the model.
pub fn add_function(
    found: &mut Elsewhere,
    function: &Bytes,
    limit: &mut Limit,
) -> Result<(), String> {
    let nodes = proto::fields(function.clone()).filter_map(Result::ok);
    let nodes = nodes.filter(|(number, _)| *number == NODE_OF_FUNCTION);
    let place = Some("a function of the model".to_owned());
    add(
        found,
        nodes.map(|(_, node)| (node, place.clone())).collect(),
        limit,
    )
}

/// Nodes, each with the place that contains it, or none in the main graph. Graphs may be nested.
fn add(
    found: &mut Elsewhere,
    mut nodes: Vec<(Bytes, Option<String>)>,
    limit: &mut Limit,
) -> Result<(), String> {
    while let Some((node, place)) = nodes.pop() {
        limit.claim(ENTRY)?;
        let (mut names, mut kind, mut graphs) = (Vec::new(), String::new(), Vec::new());
        for (number, content) in proto::fields(node).filter_map(Result::ok) {
            let text = || String::from_utf8_lossy(&content).into_owned();
            match number {
                OUTPUT | NAME if !content.is_empty() => names.push(text()),
                KIND => kind = text(),
                ATTRIBUTE => {
                    let inner = proto::fields(content).filter_map(Result::ok);
                    graphs.extend(inner.filter(|(number, _)| GRAPHS.contains(number)));
                }
                _ => {}
            }
        }
        let what = match (kind.as_str(), &place) {
            ("GRU", Some(place)) => format!("a GRU in {place}, and only the main graph is read"),
            ("LSTM", _) => "an LSTM: four gates".into(),
            ("RNN", _) => "an RNN: one gate".into(),
            _ => String::new(),
        };
        if !what.is_empty() {
            limit.claim(ENTRY * names.len() as u64)?;
            found.extend(names.into_iter().map(|name| (name, what.clone())));
        }
        for (_, graph) in graphs {
            let inner = proto::fields(graph).filter_map(Result::ok);
            for (_, inner) in inner.filter(|(number, _)| *number == NODE) {
                limit.claim(ENTRY)?;
                nodes.push((inner, Some(format!("a branch or body of {kind:?}"))));
            }
        }
    }
    Ok(())
}
