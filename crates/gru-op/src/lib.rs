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
//! # A program that trains
//!
//! ```
//! # #[cfg(all(feature = "autodiff", feature = "flex"))] {
//! use burn::{
//!     optim::{AdamConfig, GradientsParams, Optimizer},
//!     tensor::{Device, Distribution, Tensor},
//! };
//! use gru_op::GruBlockConfig;
//!
//! let device = Device::flex().autodiff();
//! let mut gru = GruBlockConfig::new(3, 16).init(&device);
//! let mut adam = AdamConfig::new().init();
//! let x = Tensor::<3>::random([8, 20, 3], Distribution::Default, &device); // [N,T,I]
//! let mut losses = Vec::new();
//! for _ in 0..30 {
//!     // The sum of what was seen so far, by the first unit.
//!     let (y, _state) = gru.forward(x.clone(), None); // [N,T,H], [L,N,H]
//!     let loss = (y.narrow(2, 0, 1) - x.clone().narrow(2, 0, 1)).powf_scalar(2.0).mean();
//!     let gradients = GradientsParams::from_grads(loss.backward(), &gru);
//!     gru = adam.step(0.01, gru, gradients);
//!     losses.push(loss.into_scalar::<f32>());
//! }
//! assert!(losses[29] < losses[0]);
//! # }
//! ```
//!
//! # From Burn's own `Gru`
//!
//! | `burn::nn::gru` | here |
//! |---|---|
//! | `GruConfig::new(i, h, bias)` | `GruBlockConfig::new(i, h).with_bias(bias)`; the other methods have the same names |
//! | a configuration, a module | `GruBlockConfig::try_from(&config)?`, `GruBlock::try_from(gru)?`, with the weights |
//! | `gru.forward(x, state)`, `[N,T,H]` with a state of `[N,H]` | `gru.forward(x, state)`, `([N,T,H], [L,N,H])` with states of `[L,N,H]` |
//! | `BiGru` | `.with_bidirectional(true)`, same arguments, same results |
//! | a loop over `forward` with one step each | [`GruBlock::step`] |
//!
//! # From other systems
//!
//! The crate [`gru-convert`](https://docs.rs/gru-convert) reads and writes the weights of PyTorch, Keras,
//! ONNX, TensorFlow, MPSGraph, oneDNN and cuDNN.
//!
//! # Numbers at the edge
//!
//! A NaN in any input shows in the states, the loss and the gradients; an infinity becomes a NaN or a
//! saturated gate, as IEEE 754 has it. None is clamped away, and steps that do not count hide theirs. On
//! the CPU that is as in PyTorch; on a GPU as far as its language goes (the front page of `gru-cube`
//! says where it stands; WGSL lets a compiler assume that there are none). On the CPU, too, saturated gates are exactly 0, 1 and −1, equal calls
//! give equal bits whatever the number of threads, and a subnormal state becomes zero. N and T may be
//! zero.
//!
//! # The map
//!
//! - [`GruBlock`], [`GruBlockConfig`]: layers, directions, dropout, state; what most users want.
//! - [`gru_sequence`], [`gru_cell`]: the operator over [`Tensor`](burn::tensor::Tensor).
//! - [`GruSpec`]: which GRU is meant.
//! - [`backend`]: the operator over primitives of a backend, and how a backend joins.
//! - [`composed`]: the specification, made of Burn's own operations.
//! - [`conventions`]: where GRUs differ, what each system does, and what proves it.
//! - `remote`: the operator on devices of other machines; with `remote`.
//! - [`tensorflow`], [`mps_graph`]: two operators of other systems under their own signatures.
//! - [`GateOrder`]: the order in which another system packs its gates.
//!
//! # Features
//!
//! `flex` and `ndarray` run on the CPU by the same kernels. `wgpu`, `vulkan`, `metal`, `webgpu`,
//! `cuda`, `rocm`, `cpu` are CubeCL backends, on the kernels of `gru-cube`. `tch`, LibTorch, runs the
//! composed default. `remote` sends a call to a server as one operation, `capture` records it as one.
//! `autodiff` adds training.
//! `store` saves a block with its configuration in one file. `fusion` must be on exactly when Burn's own
//! `fusion` is, as it is by default.
#![deny(missing_docs)]
// What one set of features leaves unused, another uses: dead code is looked for where all of these are on, as in
// this project's own tests.
#![cfg_attr(
    not(all(
        feature = "autodiff",
        feature = "capture",
        feature = "cube",
        feature = "flex",
        feature = "fusion",
        feature = "ndarray",
        feature = "remote"
    )),
    allow(dead_code, unused_variables, irrefutable_let_patterns)
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod backend;
mod block;
#[doc = include_str!("../CONVENTIONS.md")]
pub mod conventions {}
/// Launch configurations of the CubeCL backends: inferred from sizes and device, or set for a whole program
/// by [`Settings`](gpu::Settings).
///
/// ```
/// use gru_op::gpu::{Settings, Strategy};
///
/// // Measures several schedules at the first call of a size, as Burn tunes its own kernels.
/// let settings = Settings { forward: Strategy::Tuned, backward: Strategy::Tuned };
/// settings.set();
/// ```
///
/// Environment variables do the same: `GRU_CUBE_STRATEGY=tuned`, or one schedule for all calls,
/// `GRU_CUBE_FORWARD='walk rows=4 width=4 n_threads=64 k_splits=2'`.
#[cfg(feature = "cube")]
pub mod gpu {
    pub use gru_cube::{
        Schedule, ScheduleError, Settings, SettingsError, StepTile, Strategy, WalkTile,
    };
}
mod foreign;
mod op;

#[cfg(all(doctest, feature = "autodiff", feature = "flex"))]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(feature = "remote")]
pub use self::backend::deferred::remote;
#[cfg(feature = "store")]
pub use self::block::GruFileError;
pub use self::{
    block::{
        GruBlock, GruBlockConfig, GruError, GruInitializer, GruLayer, GruLayerOptions, GruMismatch,
    },
    foreign::{gate_order::GateOrder, mps_graph, tensorflow},
    op::{
        composed,
        options::{GruWeights, SequenceOptions},
        sequence::{GruGates, gru_cell, gru_gates, gru_sequence, gru_sequence_with},
    },
};
/// Which GRU is meant.
pub use gru_spec as spec;
pub use gru_spec::{
    Activation, Activations, Checkpointing, Direction, GruSpec, Layout, Order, Reset, Update,
};
