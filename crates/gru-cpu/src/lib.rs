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
//! # Use
//!
//! ```
//! use gru_cpu::{
//!     Gradients, Gru, Inputs, Sequence, Weights,
//!     spec::{GruSpec, Sizes},
//! };
//!
//! let (n, t, i, h) = (2, 5, 3, 4);
//! let gru = Gru::new(Sizes { n, t, i, h }, GruSpec::default());
//! let (x, w_ih, w_hh) = (vec![1.0f32; n * t * i], vec![0.1; i * 3 * h], vec![0.2; h * 3 * h]);
//! let inputs = Inputs {
//!     sequence: Sequence::new(&x),
//!     weights: Weights::new(Some(&w_ih), &w_hh),
//! };
//! let (mut states, mut saved) = (vec![0.0; n * t * h], vec![0.0; n * t * 4 * h]);
//! gru.forward(&inputs, &mut states, Some(&mut saved));
//!
//! // Of the sum of all states.
//! let (d_states, mut d_w_hh) = (vec![1.0; n * t * h], vec![0.0; h * 3 * h]);
//! let to = Gradients { w_hh: Some(&mut d_w_hh), ..Default::default() };
//! gru.backward(&inputs, &states, Some(&saved), &d_states, to);
//! ```
//!
//! Many calls with the same weights: [`PackedWeights`]. Steps as they come:
//! [`Stream`].
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
//! - **Subnormal.** A new state that would be subnormal is 0, and so is a gradient of a state on its way
//!   to the gates. A state or gradient that fades away would otherwise stay subnormal for the rest of the
//!   sequence, and many processors take far longer over such numbers. All other arithmetic is that of
//!   IEEE 754, on every target: no mode of the processor is changed, and subnormal inputs take the time
//!   that the processor needs for them.
//! - **Long.** Biases' gradients lose no digit to the number of rows, those of the weights are
//!   summed in blocks.
//! - **The same.** Equal calls give equal bits, whatever the number of threads, on one instruction
//!   set. Training and inference give the same states.
//!
//! # Targets
//!
//! | target | vectors | threads | where its tests ran |
//! |---|---|---|---|
//! | x86-64 | AVX-512, or AVX2 with FMA, or none: as the machine has | rayon's | Linux |
//! | AArch64 | NEON | rayon's | Linux, emulated by `qemu-user`; those of whole teams of threads, of finite differences and `properties` were not run to their end |
//! | wasm32 | none, or 128 bits (`simd128`): as the module was built | the caller's | `wasm32-wasip1` in Node 20; of `wasm32-unknown-unknown` the example `smoke`, and a training program in Chromium |
//! | others | none | rayon's | nowhere |
//!
//! On WebAssembly a call neither asks for threads nor for the time, which panics in a browser; the
//! feature `threads` changes nothing there, and rayon is not compiled. Vectors are what the module
//! was built for, since an engine refuses a module for one instruction that it does not know:
//!
//! ```sh
//! RUSTFLAGS='-C target-feature=+simd128' cargo build --target wasm32-unknown-unknown
//! ```
//!
//! The feature `relaxed-simd` and `+simd128,+relaxed-simd` add the fused multiply-add of engines
//! that have it.
//!
//! No time was taken on AArch64. Its tests, and those of WebAssembly:
//!
//! ```sh
//! rustup target add wasm32-wasip1 aarch64-unknown-linux-gnu
//! export CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings $PWD/crates/gru-cpu/tests/wasm/wasi.mjs"
//! cargo test -p gru-cpu --target wasm32-wasip1 --lib --tests
//! RUSTFLAGS='-C target-feature=+simd128' cargo test -p gru-cpu --target wasm32-wasip1 --lib --tests
//! export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
//! export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu'
//! cargo test -p gru-cpu --target aarch64-unknown-linux-gnu --lib --tests
//! ```
//!
//! or, on Debian without rustup's targets, `tools/targets`. On WebAssembly tests of threads and of
//! panics are ignored: there are none, and a panic ends the module.
//!
//! # The map
//!
//! - [`spec`]: which GRU is meant; the crate `gru-spec`.
//! - `call`: sizes, slices, where gradients go; all checks.
//! - `simd`: vectors, σ and tanh, activations.
//! - `product`: register tiles, packed weights, scratch memory.
//! - `threads`: the plan of who does what, the team that meets.
//! - `gru`: the two passes; `passes`, `stream`: how others call them.
//! - `tuning`: every threshold.
//! - `memory`, `pages`: buffers for results, large pages.
//! - [`testing`]: what tests force, and the same passes by plain loops, one product per step, which
//!   they hold the kernels against.
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Which GRU is meant.
pub use gru_spec as spec;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod call;
mod gru;
mod memory;
mod pages;
mod passes;
mod product;
mod simd;
mod stream;
mod threads;
mod tuning;

pub use self::{
    call::{CallError, Gradients, Gru, Inputs, Sequence, Weights},
    memory::buffer,
    passes::Element,
    stream::{PackedWeights, Stream},
    threads::set_threads,
};

/// What tests force.
#[doc(hidden)]
pub mod testing {
    pub use crate::simd::Isa;
}
