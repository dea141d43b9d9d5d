//! A GRU (gated recurrent unit) for [Burn](https://burn.dev): a cell and a sequence operator with
//! a hand-written backward and kernels of their own, and the [`GruBlock`] module.
//!
//! # The mathematics
//!
//! N rows (batch), T steps, I inputs, H hidden units. Gates are packed `r | z | n` (reset, update,
//! candidate) in columns: `w_ih [I,3H]`, `w_hh [H,3H]`, biases `[3H]`. ⊙ is element-wise.
//!
//! ```text
//! p = x·w_ih + b_ih                  all steps at once: one large product
//! q = h₋₁·w_hh + b_hh                one product per step
//! r = φr(p_r + q_r)    z = φz(p_z + q_z)
//! n = φn(p_n + r ⊙ q_n)                       Reset::AfterMatmul
//! n = φn(p_n + (r ⊙ h₋₁)·w_hn + b_hn)         Reset::BeforeMatmul
//! h = z ⊙ h₋₁ + (1−z) ⊙ n                     Update::Keeps
//! h = (1−z) ⊙ h₋₁ + z ⊙ n                     Update::Takes
//! ```
//!
//! Source: Cho et al. 2014, <https://arxiv.org/abs/1406.1078> (v3 resets before the product, v1
//! after it).
//!
//! # Numbers at the edge
//!
//! A NaN in any input shows in the states, the loss and the gradients; an infinity becomes a NaN or a
//! saturated gate, as IEEE 754 has it. None is clamped away, and steps that do not count hide theirs. On
//! the CPU that is as in PyTorch; on a GPU as far as its language goes (the front page of `gru-cube`
//! says where it stands; WGSL lets a compiler assume that there are none). On the CPU, too, saturated gates are exactly 0, 1 and −1, equal calls
//! give equal bits whatever the number of threads, and on x86-64 numbers below the normal ones count as
//! zero. N and T may be zero.
//!
//! # The map
//!
//! - [`GruBlock`], [`GruBlockConfig`]: layers, directions, dropout, state; what most users want.
//! - [`gru_sequence`], [`gru_cell`]: the operator over [`Tensor`](burn::tensor::Tensor).
//! - [`GruSpec`]: which GRU is meant.
//! - [`GruBackend`]: the operator over primitives of a backend, and how a backend joins.
//! - [`composed`]: the specification, made of Burn's own operations.
//! - [`convert`]: weights of PyTorch, Keras, ONNX, TensorFlow, MPSGraph, oneDNN and cuDNN, both ways;
//!   those of Burn's own modules come in.
//! - [`conventions`]: where GRUs differ, what each system does, and what proves it.
//! - `gradcheck`: gradients against central differences, for any operator; with `autodiff`.
//! - `remote`: the operator on devices of other machines; with `remote`.
//! - [`tensorflow`], [`mps_graph`]: two operators of other systems under their own signatures.
//!
//! # Features
//!
//! `flex` and `ndarray` run on the CPU by the same kernels. `wgpu`, `vulkan`, `metal`, `webgpu`,
//! `cuda`, `rocm`, `cpu` are CubeCL backends, on the kernels of `gru-cube`. `tch`, LibTorch, runs the
//! composed default. `remote` sends a call to a server as one operation, `capture` records it as one.
//! `autodiff` adds training.
//! `store` reads `.pt` and `.safetensors` files, writes the latter, and saves a block with its
//! configuration in one file; `npz` reads NumPy's `.npz`, `keras` Keras' `.weights.h5` and `.keras`;
//! `onnx` reads and writes `.onnx` files. `fusion` must be on exactly when Burn's own `fusion` is, as
//! it is by default.
#![deny(missing_docs)]

mod activation;
mod api;
mod args;
#[cfg(feature = "autodiff")]
mod autodiff;
mod backend;
mod call;
pub mod composed;
pub mod convert;
#[doc = include_str!("../CONVENTIONS.md")]
pub mod conventions {}
#[cfg(any(feature = "ndarray", feature = "flex"))]
mod cpu;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "autodiff")]
pub mod gradcheck;
#[cfg(any(feature = "fusion", feature = "router"))]
mod ir;
pub mod mps_graph;
pub mod nn;
mod passes;
mod primitive;
mod raw;
#[cfg(feature = "remote")]
pub mod remote;
mod shape;
mod steps;
pub mod tensorflow;

#[cfg(any(feature = "ndarray", feature = "flex"))]
pub use self::cpu::release_memory;
#[cfg(feature = "store")]
pub use self::nn::GruFileError;
pub use self::{
    api::{GruGates, gru_cell, gru_gates, gru_sequence, gru_sequence_with},
    args::{GruOptions, GruWeights, Steps},
    backend::GruBackend,
    call::{GruForward, GruGradients, GruInputs, OptionalTensor, Wanted},
    nn::{GruBlock, GruBlockConfig, GruInitializer, GruLayer, GruLayerOptions, GruMismatch},
};
pub use gru_cpu::spec;
pub use gru_cpu::spec::{
    Activation, Activations, Direction, GruSpec, Layout, Memory, Reset, Update,
};
