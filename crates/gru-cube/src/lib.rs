//! The recurrences of a GRU, forward and backward through time, as CubeCL kernels: one source for
//! Metal, Vulkan, WebGPU, CUDA and ROCm.
//!
//! N rows (batch), T steps, H hidden units; gates packed `r | z | n` in columns; sequences
//! `[N,T,·]` or `[T,N,·]`. The equations are in [`gru_spec`]. The large products over all
//! steps are not made here: [`forward()`] starts from `p = x·w_ih`, [`backward()`] and
//! [`recurrent_inputs()`] end with the operands of the weight gradients, and [`gates()`] joins the
//! products of a forward pass that kept nothing.
//!
//! A pass is cut into launches and cubes (thread blocks) in one of three ways, plain data in a
//! [`Cut`]:
//!
//! - [`Cut::Walk`], a fused recurrent kernel: one launch. A cube takes a few rows of the batch
//!   through all steps, their state in registers and shared memory. It needs nothing from any other
//!   cube, so it is valid wherever there are barriers. Where `w_hh` is small it stays in the registers
//!   of every cube.
//! - [`Cut::Steps`]: one launch per product (one per step, or two with the reset before it), over a
//!   grid of row tiles by column tiles.
//! - [`Cut::Persistent`], a persistent kernel: the same grid in one launch. The cubes of the same rows
//!   together hold the weight in their registers, and wait for each other after each product. Only
//!   where a device promises that they run at the same time and see each other's writes: CUDA and
//!   ROCm, not WebGPU.
//!
//! In f16 and bf16, steps are multiplied by matrix units where the device has them: states and gradients
//! are rounded to the type on their way into the product, sums and what is handed from step to step stay
//! float32. Float32 is left alone; who forces a cut with the word `matrix` upon it gets TF32
//! ([`StepTile::matrix`]).
//!
//! "In registers" is what the kernels ask for, by an array of each unit whose indices are all known. Of
//! CUDA's sources for sm_80 and sm_90 the registers and the stack were read (`src/sources/cuda.rs`); that other
//! drivers' compilers grant it was not looked at.
//!
//! [`Strategy::Inferred`] chooses by what was measured, the sizes and the [`Limits`] of the device, and
//! never the last of the three; [`Settings`] force a cut upon a whole program. Sums run in a fixed order,
//! without atomics: the same inputs by the same cut give the same bits. (Where persistent cuts are asked
//! for, the cut depends on whether another stream has its turn; a tuned one on the clock.) Buffers hold f32, f16 or bf16; sums, and
//! states within a call, are f32.
//!
//! # NaN and infinities
//!
//! A NaN pre-activation makes a NaN gate, and a NaN gate a NaN slope, for every activation, clipped or
//! not; a clip hands NaN on, in the state as in its gradient. So a NaN input shows in the states and
//! gradients that depend on it, and in the loss. An infinity goes where IEEE 754 sends it: into a
//! saturated gate, or as 0·∞ and ∞ − ∞ into NaN. What skipped steps hold reaches nothing, and no row
//! of the batch reaches another's states.
//!
//! How much of this a device promises depends on its language:
//!
//! - CUDA and ROCm: all of it. CubeCL compiles without fast math.
//! - Metal by CubeCL's own runtime: all of it, in its safe math mode. Metal by wgpu, from Metal's source
//!   or from WGSL: its default, fast math, lets the compiler assume that there is neither.
//! - SPIR-V: nothing, because CubeCL does not ask for `SignedZeroInfNanPreserve`.
//! - WGSL: nothing. An implementation may assume that there is neither.
//!
//! Where nothing is promised, it holds all the same on the driver that was tried, Mesa's lavapipe from
//! WGSL: gates, slopes and clips test the bits of a number, which a compiler cannot fold away as it can
//! a comparison with NaN, and sums and products are left as they are. The tests are of whichever device
//! runs them.
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod autotune;
mod kernel;
mod launch;
mod plan;
mod settings;
#[cfg(test)]
mod sources;

pub use api::{backward, forward};
pub use launch::{
    BackwardInputs, BackwardOutputs, Call, ForwardInputs, ForwardOutputs, GatesInputs, Products,
    RecurrentInputs, Zoneout, gates, launches, recurrent_inputs,
};
pub use plan::{
    cut::{Cut, CutError, StepTile, Strategy, WalkTile},
    error::PlanError,
    limits::Limits,
};
pub use settings::{Settings, SettingsError};
