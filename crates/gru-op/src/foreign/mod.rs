//! Two operators of other systems under their own signatures.

pub(crate) mod gate_order;
pub mod mps_graph;
pub mod tensorflow;
