//! The conventions of a GRU (gated recurrent unit), in which systems differ, as plain data.
//!
//! ```text
//! r = φr(p_r + q_r)    z = φz(p_z + q_z)           p = x·w_ih + b_ih    q = h₋₁·w_hh + b_hh
//! n = φn(p_n + r ⊙ q_n)                            Reset::AfterMatmul
//! n = φn(p_n + (r ⊙ h₋₁)·w_hn + b_hn)              Reset::BeforeMatmul
//! h = z ⊙ h₋₁ + (1−z) ⊙ n                          Update::Keeps
//! h = (1−z) ⊙ h₋₁ + z ⊙ n                          Update::Takes
//! ```
//!
//! Systems differ in the place of the reset gate, the update rule, the activations and the clips.
//! [`GruSpec`] names each choice. [`Order`] describes how a sequence is stored and iterated. [`Inputs`]
//! and [`PerInput`] list the tensors of a call. Gates are always packed as columns `r | z | n`. Only
//! converters permute them.
//!
//! The crate is `no_std` with `alloc`. The feature `serde` makes options serializable.
#![cfg_attr(not(test), no_std)]
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod activation;
mod checkpointing;
mod lengths;
pub mod onnx;
mod order;
mod precision;
mod sizes;
mod spec;
mod tensors;

pub use self::{
    activation::{Activation, Activations},
    checkpointing::Checkpointing,
    lengths::{Lengths, LengthsError},
    order::{Direction, Layout, Order},
    precision::Precision,
    sizes::Sizes,
    spec::{GruSpec, Reset, SpecError, Update},
    tensors::{GRADIENTS, Inputs, MissingInput, NAMES, PerInput, Sequence, Shape, Weights},
};
