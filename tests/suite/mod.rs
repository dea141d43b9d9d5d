//! The suites, and what they share: backends and the way from flat numbers to tensors and back.

pub mod agreement;
pub mod backends;
pub mod block;
pub mod burn_gru;
pub mod composed_nan;
pub mod conformance;
pub mod convert;
pub mod empty;
pub mod gradcheck;
pub mod gradient;
pub mod half;
pub mod long;
pub mod misuse;
pub mod noise;
pub mod nonfinite;
pub mod options;
pub mod oracle;
pub mod properties;
pub mod pytorch_model;
pub mod replay;
pub mod runs;
pub mod saving;
pub mod sums;
pub mod tracking;
pub mod train;
pub mod vectors;
