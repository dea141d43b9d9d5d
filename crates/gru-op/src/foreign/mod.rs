//! Operators of other systems, with their own signatures.

pub(crate) mod gate_order;
pub mod mps_graph;
pub mod tensorflow;
