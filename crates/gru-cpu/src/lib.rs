//! GRU kernels over slices, without a framework: a forward pass, and a hand-written backward pass through time.
//!
//! # The mathematics
//!
//! N rows (batch), T steps, I inputs, H hidden units. Gates are packed `r | z | n` (reset, update,
//! candidate) in columns; all matrices are row-major: `w_ih [I,3H]`, `w_hh [H,3H]`, biases `[3H]`.
//!
//! ```text
//! p = x·w_ih + b_ih                          one large product for many steps
//! h₋₁ = start state                          where the row starts a new sequence, default zeros
//! g = m ⊙ h₋₁                                m: recurrent mask, default ones
//! q = g·w_hh + b_hh                          one product per step
//! r = φr(p_r + q_r)    z = φz(p_z + q_z)
//! n = φn(p_n + r ⊙ q_n)                      reset after the product
//! n = φn(p_n + (r ⊙ g)·w_hn + b_hn)          reset before the product
//! h = z ⊙ h₋₁ + (1−z) ⊙ n                    update gate keeps
//! h = (1−z) ⊙ h₋₁ + z ⊙ n                    update gate takes
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
//! // The gradient of the sum of all states.
//! let (d_states, mut d_w_hh) = (vec![1.0; n * t * h], vec![0.0; h * 3 * h]);
//! let to = Gradients { w_hh: Some(&mut d_w_hh), ..Default::default() };
//! gru.backward(&inputs, &states, Some(&saved), &d_states, to);
//! ```
//!
//! [`Gru::forward_ragged`] takes rows of different lengths. A [`Stack`] holds the weights of all layers for many calls,
//! in float32 or with 16 or 8 bits, and a [`StackStream`] runs them one step at a time.
//!
//! # Numerical behavior
//!
//! - **NaN and infinity.** They follow IEEE 754 in states, gates and gradients: nothing is clamped. A gate that
//!   is NaN has the derivative NaN, whatever its activation. Values at a skipped step have no effect, finite or
//!   not.
//! - **Saturation.** σ and tanh in float32 are within 1.5 and 2 units of the last place (2 without a fused
//!   multiply-add). They are exactly 0, 1 or −1 where that is the nearest number. With weights of 16 or 8 bits and
//!   the default activations, r and n have errors of at most 2⁻²⁰. Where z is σ, the
//!   forward pass computes `1 − z` without cancellation. The backward pass subtracts the saved z from 1, as other
//!   frameworks do.
//! - **Subnormals.** A new state that would be subnormal is 0, and so is a state gradient on its way to the
//!   gates. Otherwise a state or gradient that decays would stay subnormal for the rest of the sequence, and
//!   many processors are much slower with subnormals. All other arithmetic follows IEEE 754 on every target.
//!   The crate does not change processor modes, so subnormal inputs take the time that the processor needs.
//! - **Long sequences.** The accuracy of bias gradients does not depend on the number of rows. Weight gradients
//!   are summed in blocks.
//! - **Determinism.** Equal calls return equal bits on one instruction set, whatever the number of threads.
//!   Training and inference return the same states.
//!
//! # Targets
//!
//! | target | vectors | threads | where the tests ran |
//! |---|---|---|---|
//! | x86-64 | AVX-512, AVX2 with FMA, or none, selected at run time | rayon | Linux |
//! | AArch64 | NEON | rayon | Linux, emulated by `qemu-user` |
//! | wasm32 | none, or 128 bits (`simd128`), selected at build time | the caller's | `wasm32-wasip1` in Node 20; on `wasm32-unknown-unknown` the example `smoke`, and a training program in Chromium |
//! | Cortex-M4 | none | the caller's | a stream, emulated by `qemu-system-arm`: the bits of x86-64 without vectors |
//! | others | none | rayon | not tested |
//!
//! A call uses the threads of the rayon pool in which it is made. To limit them, make the call in a pool with
//! fewer threads. A long call first waits for other threads to start, a millisecond at most. So if all threads of a
//! pool make calls at the same time, make each of them in a pool of one thread.
//!
//! Without default features the crate is `no_std` with `alloc`, a call uses one thread, and the vectors are the build's. The
//! feature `std` selects vectors at run time.
//!
//! On WebAssembly a call does not use threads, and it does not read the clock, which panics in a browser. The
//! feature `threads` has no effect there, and rayon is not compiled. The vectors are selected at build time,
//! because an engine rejects a module with one unknown instruction:
//!
//! ```sh
//! RUSTFLAGS='-C target-feature=+simd128' cargo build --target wasm32-unknown-unknown
//! ```
//!
//! The feature `relaxed-simd` with `+simd128,+relaxed-simd` adds the fused multiply-add of engines that have it.
//!
//! Times were not measured on AArch64. These commands run the tests of both targets, as `tools/targets` of the repository
//! does. On WebAssembly the tests of threads and of panics are ignored: it has no threads, and a panic ends the module.
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
//! # Source layout
//!
//! - [`spec`]: what a GRU computes; the crate `gru-spec`.
//! - `call`: sizes, slices, gradients, and all checks.
//! - `element`: the public passes.
//! - `pass`: the forward and the backward pass.
//! - `quantized`: weights of 16 and 8 bits.
//! - `stack`: layers prepared for inference.
//! - `product`: register tiles, weights in panels or in place, scratch memory. `product/avx2.rs` is assembly.
//! - `simd`: vectors, σ and tanh, activations.
//! - `threads`: how work is split, and the team with its barrier.
//! - `memory`: buffers for results, large pages.
//! - `tuning`: the thresholds.
//! - [`testing`]: the instruction set that a test forces.
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[macro_use]
extern crate alloc;

/// What a GRU computes.
pub use gru_spec as spec;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod call;
mod element;
mod memory;
mod pass;
mod product;
mod quantized;
mod simd;
mod stack;
mod threads;
mod tuning;

pub use self::{
    call::{CallError, Gradients, Gru, Inputs, Sequence, Weights},
    element::Element,
    memory::buffer,
    stack::{Layers, Rounding, Stack, StackInputs, StackLayer, StackStream},
};

/// The instruction set of calls on this machine, for logs and reports: `"AVX-512"`, `"AVX2 with FMA"`, `"NEON"`,
/// `"simd128"`, `"relaxed-simd"` or `"scalar"`.
pub fn instruction_set() -> &'static str {
    simd::Isa::best().name()
}

/// For tests.
#[doc(hidden)]
pub mod testing {
    pub use crate::simd::Isa;
}
