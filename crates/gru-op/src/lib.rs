//! GRU (gated recurrent unit) for [Burn](https://burn.dev): an operator with a hand-written backward and its own
//! kernels for CPUs and GPUs, and the [`GruBlock`] module.
//!
//! ```
//! # #[cfg(all(feature = "autodiff", feature = "flex"))] {
//! use burn::{
//!     optim::{AdamConfig, GradientsParams},
//!     tensor::{Device, Distribution, Tensor},
//! };
//! use gru_op::GruBlockConfig;
//!
//! let device = Device::flex().autodiff();
//! let mut gru = GruBlockConfig::new(3, 16).init(&device);
//! let mut adam = AdamConfig::new().init();
//! let x = Tensor::<3>::random([8, 20, 3], Distribution::Default, &device); // [N,T,I]
//! # let mut losses = Vec::new();
//! for _ in 0..30 {
//!     let (y, _state) = gru.forward(x.clone(), None); // [N,T,H], [L,N,H]
//!     let loss = (y.narrow(2, 0, 3) - x.clone()).powf_scalar(2.0).mean();
//!     let gradients = GradientsParams::from_grads(loss.backward(), &gru);
//!     gru = adam.step(0.01, gru, gradients);
//! #   losses.push(loss.into_scalar::<f32>());
//! }
//! # assert!(losses[29] < losses[0]);
//! # }
//! ```
//!
//! # Equations
//!
//! N rows (batch), T steps, I inputs, H hidden units. The columns of the weights are the gates `r | z | n` (reset,
//! update, candidate): `w_ih [I,3H]`, `w_hh [H,3H]`, biases `[3H]`. ⊙ is element-wise.
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
//! Source: Cho et al. 2014, <https://arxiv.org/abs/1406.1078> (v3 resets before the product, v1 after it).
//!
//! # Items
//!
//! - [`GruBlock`], [`GruBlockConfig`]: layers, directions, dropout, state. Start here.
//! - [`gru_sequence`], [`gru_cell`]: the operator on [`Tensor`](burn::tensor::Tensor).
//! - [`SequenceOptions`]: lengths, masks, starts and other options of a call. [`starts_after`] and [`restart`] are for
//!   several sequences in a row.
//! - [`gru_packed`], [`pack`], [`unpack`]: rows of different lengths without padding.
//! - [`PreparedGru`]: a block prepared for inference, with weights of 32, 16 or 8 bits.
//! - [`GruSpec`]: what a step computes.
//! - [`backend`]: the operator on a backend's tensors, and how to add a backend.
//! - [`composed`]: the operator in Burn's operations, for comparison.
//! - [`conventions`]: how GRUs of different systems differ, and which tests prove each convention.
//! - `remote`: the operator on devices of other machines, with the feature `remote`.
//! - [`tensorflow`], [`mps_graph`], [`GateOrder`]: operators of other systems with their own signatures.
//!
//! # Features
//!
//! - `flex`, `ndarray`: CPU backends, with the kernels of `gru-cpu`.
//! - `wgpu`, `vulkan`, `metal`, `webgpu`, `cuda`, `rocm`: GPU backends, with the kernels of `gru-cube`. `cpu` is CubeCL's
//!   CPU runtime, as in Burn: for tests of GPU kernels, and slower than `flex`.
//! - `autodiff`: training.
//! - `store`: a block and its configuration in one file.
//! - `remote`, `capture`: a call is one operation on a server, or in a recorded graph.
//! - `fusion`. If you turn default features off, a GPU backend with Burn's default features still needs it.
//!
//! # More
//!
//! The book in `docs/src` of the repository has chapters on these subjects: `getting-started.md`, `migrating.md`
//! (from Burn's `Gru` and other systems), `cookbook.md`, `inference.md`, `onnx.md`, `export.md`, `backends.md`,
//! `status.md`, `compatibility.md`, `numerics.md`, `performance.md`, `troubleshooting.md`. The crate [`gru-convert`](https://docs.rs/gru-convert) reads
//! and writes the weights of PyTorch, Keras, ONNX, TensorFlow, MPSGraph, oneDNN and cuDNN.
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod backend;
mod block;
#[doc = include_str!("../CONVENTIONS.md")]
pub mod conventions {}
/// The schedules (launch configurations) of the CubeCL backends: inferred from sizes and device, or set by
/// [`Settings`](gpu::Settings) for the whole program.
///
/// ```
/// use gru_op::gpu::{Settings, Strategy};
///
/// let schedule = "sequence rows=4 width=4 n_threads=64 k_splits=2".parse().unwrap();
/// Settings::default().with_forward(Strategy::Forced(schedule)).set();
/// ```
///
/// Environment variables do the same: `GRU_CUBE_FORWARD='sequence rows=4 width=4 n_threads=64 k_splits=2'`. If one is
/// malformed, the first call on a GPU panics.
///
/// Before a kernel runs for the first time on a device, gru-op runs it on a small problem and compares the results
/// with the CPU kernels. If the driver rejects the kernel, or results are wrong, Burn's operations run instead, and the log
/// has a warning. `GRU_CUBE_SELF_TEST=off` skips the test.
#[cfg(feature = "cube")]
pub mod gpu {
    pub use gru_cube::{
        Schedule, ScheduleError, SequenceTile, Settings, SettingsError, StepTile, Strategy,
    };
}
#[doc(hidden)]
pub mod files;
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
        PreparedGru,
    },
    foreign::{gate_order::GateOrder, mps_graph, tensorflow},
    op::{
        composed,
        options::{GruWeights, SequenceOptions},
        packed::{gru_packed, pack, unpack},
        sequence::{GruGates, gru_cell, gru_gates, gru_sequence, gru_sequence_with},
        starts::{restart, starts_after},
    },
};
/// A stream of a [`PreparedGru`], its weights without Burn, and their rounding.
#[cfg(feature = "cpu-kernels")]
pub use gru_cpu::{CallError, Rounding, Stack, StackInputs, StackStream, instruction_set};
/// What a step computes, and in which order.
pub use gru_spec as spec;
pub use gru_spec::{
    Activation, Activations, Checkpointing, Direction, GruSpec, Layout, Order, Precision, Reset,
    Update,
};
