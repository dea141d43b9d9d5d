//! Converts English spelling to phonemes with the published weights of g2p_en.

pub mod model;
pub mod symbols;
pub mod weights;

/// An error of any kind.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
