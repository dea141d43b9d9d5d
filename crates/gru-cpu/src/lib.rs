//! GRU kernels over slices: forward, and a hand-written backward through time. No framework.
//!
//! # The mathematics
//!
//! N rows (batch), T steps, I inputs, H hidden units. Gates are packed `r | z | n` (reset, update,
//! candidate) in columns; all matrices are row-major: `w_ih [I,3H]`, `w_hh [H,3H]`, biases `[3H]`.
//!
//! ```text
//! p = x·w_ih + b_ih                          all steps at once: one large product
//! g = m ⊙ h₋₁                                m: recurrent mask, default ones
//! q = g·w_hh + b_hh                          one product per step
//! r = φr(p_r + q_r)    z = φz(p_z + q_z)
//! n = φn(p_n + r ⊙ q_n)                      reset after the product
//! n = φn(p_n + (r ⊙ g)·w_hn + b_hn)          reset before it
//! h = z ⊙ h₋₁ + (1−z) ⊙ n                    the update gate keeps
//! h = (1−z) ⊙ h₋₁ + z ⊙ n                    the update gate takes
//! ```
//!
//! # Numbers at the edge
//!
//! - **Not finite.** A NaN or an infinity in any input goes where IEEE 754 sends it, in states, gates
//!   and gradients; nothing is clamped away. A gate that is NaN has the derivative NaN, whatever its
//!   activation. What stands at a skipped step has no effect, finite or not.
//! - **Saturated.** σ and tanh in float32 are within 1.5 and 2 units of the last place (2 where there
//!   is no fused multiply-add), 0, 1 and −1 exactly where that is the nearest number. `1 − z` is not a
//!   difference in the forward pass; in the backward pass it is that of the kept z, as in other
//!   frameworks.
//! - **Denormal.** On x86-64 numbers below the normal ones count as zero within the kernels, which
//!   would otherwise take a hundred times as long over them. A thread has that mode for its share of
//!   a call, never when it returns.
//! - **Long.** Biases' gradients lose no digit to the number of rows, those of the weights are
//!   summed in blocks.
//! - **The same.** Equal calls give equal bits, whatever the number of threads, on one instruction
//!   set. Training and inference give the same states.
//!
//! # The map
//!
//! - [`spec`]: which GRU is meant; the only part without the feature `kernels`.
//! - `dims`: sizes and how a (row, step) pair finds its place in memory.
//! - `forward`, `backward`: the two passes.
//! - `activation`: every `φ` and its derivative, written from its output.
//! - `kernel`: the walks through time, packed and vectorised.
//! - `memory`: buffers for results.
//! - `plain`: the same passes, one `product` per step: the specification of the kernels.
#![deny(missing_docs)]

pub mod spec;

#[cfg(feature = "kernels")]
mod activation;
#[cfg(feature = "kernels")]
mod backward;
#[cfg(feature = "kernels")]
mod dims;
#[cfg(feature = "kernels")]
mod element;
#[cfg(feature = "kernels")]
mod forward;
#[cfg(feature = "kernels")]
mod kernel;
#[cfg(feature = "kernels")]
mod memory;
#[cfg(feature = "kernels")]
mod plain;
#[cfg(feature = "kernels")]
mod product;
#[cfg(feature = "kernels")]
mod settings;

#[cfg(feature = "kernels")]
pub use self::{
    backward::{Gradients, backward},
    dims::{Dims, Inputs},
    element::Element,
    forward::forward,
    memory::buffer,
    settings::set_threads,
};

/// What tests force: an instruction set, or the plain passes that the kernels are held against.
#[cfg(feature = "kernels")]
#[doc(hidden)]
pub mod testing {
    pub use crate::{kernel::Isa, plain::run as plain};
}
