//! Converts English spelling to phonemes with the published weights of g2p_en.

pub mod error;
pub mod model;
pub mod symbols;
pub mod weights;
