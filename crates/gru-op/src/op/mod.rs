//! The operator on Burn's tensors: arguments, checks, padding, and the call of a backend.

pub(crate) mod check;
pub mod composed;
#[cfg(feature = "cpu-kernels")]
pub(crate) mod infer;
pub(crate) mod options;
pub(crate) mod packed;
pub(crate) mod padding;
pub(crate) mod sequence;
pub(crate) mod shape;
pub(crate) mod starts;
