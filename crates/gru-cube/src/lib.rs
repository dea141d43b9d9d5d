//! GRU recurrence, forward and backward through time, as CubeCL kernels: one source for Metal, Vulkan,
//! WebGPU, CUDA and ROCm.
//!
//! N is the batch size, T the number of steps, H the number of hidden units. Gates are packed `r | z | n` in
//! columns. Sequences are `[N,T,·]` or `[T,N,·]`. [`gru_spec`] has the equations. The caller computes the
//! large products over all steps: a forward pass starts from `x·w_ih`; a backward pass and [`recurrent_inputs()`] return
//! the operands of the weight gradients; [`gates()`] recomputes gates that the forward pass did not save. [`run()`] runs
//! both passes.
//!
//! ```no_run
//! use cubecl::{client::Client, ir::{ElemType, FloatKind}, prelude::CubeElement};
//! use gru_cube::{Buffers, PlanError, Recurrence, Starts, Strategy, ZoneoutKind, run};
//! use gru_cube::spec::{GruSpec, Inputs, Order, Sequence, Sizes, Weights};
//!
//! /// The states `[N,T,H]`, from `x·w_ih [N,T,3H]` and `w_hh [H,3H]`.
//! fn states(client: &Client, sizes: Sizes, x: &[f32], w_hh: &[f32]) -> Result<Vec<f32>, PlanError> {
//!     let upload = |values| client.create_from_slice(f32::as_bytes(values));
//!     let call = Recurrence {
//!         sizes,
//!         spec: GruSpec::default(),
//!         order: Order::default(),
//!         dtype: ElemType::Float(FloatKind::F32),
//!         inputs: Inputs {
//!             sequence: Sequence::new(upload(x)),
//!             weights: Weights::new(None, upload(w_hh)),
//!         },
//!         starts: Starts::None,
//!         zoneout: ZoneoutKind::None,
//!         lengths: None,
//!     };
//!     let states = client.empty(4 * sizes.places() * sizes.h);
//!     let forward = Buffers::Forward { steps: 0..sizes.t, states: states.clone(), gates: None };
//!     run(client, &call, &forward, Strategy::Inferred)?;
//!     Ok(f32::from_bytes(&client.read_one_unchecked(states)).to_vec())
//! }
//! ```
//!
//! # Launch configurations
//!
//! A [`Schedule`] divides a pass into launches and cubes (thread blocks) of threads:
//!
//! - [`Schedule::Sequence`] is a fused sequence kernel: one launch. Each cube computes all steps of a few rows of
//!   the batch, with their state in registers and shared memory. Cubes are independent, so it runs on
//!   every device with barriers. A small `w_hh` stays in the registers of every cube.
//! - [`Schedule::Steps`] is one launch per product: one per step, or two with the reset before the product.
//!   The grid is row tiles by column tiles.
//! - [`Schedule::Persistent`] is a persistent kernel: the same grid in one launch. The cubes of the same rows
//!   keep the weight in their registers, and synchronize with a grid barrier after each product. Matrix units read a
//!   weight that needs too many registers at every step. The device must run them at the same time and make their writes visible to each
//!   other. CUDA and ROCm do; WebGPU does not.
//!
//! [`Strategy::Inferred`] chooses a schedule from the sizes and the [`Limits`] of the device. It takes the first of
//! these that the device allows:
//!
//! 1. a sequence kernel with a resident weight, up to H 64 with 256 threads per cube (the smallest limit of WebGPU), up
//!    to H 128 with threads that have enough registers, and up to H 32 with 256 threads of Intel, Arm and Qualcomm;
//! 2. with CUDA, a persistent kernel, up to H 1024 with 64 multiprocessors or more, and with matrix units up to H 2048
//!    with 128;
//! 3. up to H 256 a sequence kernel that reads the weight at every step, else step kernels.
//!
//! Step kernels of 16-bit types use matrix units if the device has them, and persistent kernels if that is faster by an
//! estimate.
//!
//! A launch of a sequence kernel or a persistent kernel is bounded in time: by an estimate for a slow device, it takes
//! at most 100 ms. A longer sequence is several launches, so that no watchdog of a driver or a browser ends it.
//!
//! [`Settings`] force a schedule for a whole program. A CPU that runs GPU programs has its own tiles.
//!
//! # Limits and drivers
//!
//! A kernel binds at most 7 buffers, and one in which CubeCL passes sizes: the 8 that WebGPU allows on every device. (A
//! persistent kernel may bind one more.) If the tensors of a call are more, one more launch copies the small ones into
//! one buffer: biases, initial state, masks, and zoneout of a step.
//!
//! A driver may reject a kernel, or compile it wrongly. To find that out before a call relies on the kernel, run its
//! [`Plan`] on a small problem. `gru-op` does that.
//!
//! # Starts
//!
//! A row of the batch may contain several sequences. With [`Starts`], a row forgets its state before some of its
//! steps and continues from zeros or from a state of its own, which then has a gradient. Starts need no further
//! buffer: they are codes in the step mask, and the start state is behind the initial state. They are compiled in:
//! without starts the kernels have no instruction for them.
//!
//! # Precision
//!
//! Buffers are f32, f16 or bf16. Sums are f32, and so are states within a call of step kernels or within a launch. In
//! f16 and bf16, matrix units may compute the products of step kernels and persistent kernels: states and gradients are
//! rounded to the type before the product. Float32 uses matrix units only if a forced schedule has the word `matrix`;
//! they then compute in TF32 ([`StepTile::matrix`]).
//!
//! Sums have a fixed order, without atomics. The same inputs with the same schedule give the same bits.
//!
//! Arrays whose indices are all constant request registers. For CUDA, the registers and the stack of
//! sm_80 and sm_90 were read from the compiled sources (`tests/threads/sources.rs`). Compilers of other drivers
//! were not examined.
//!
//! # NaN and infinities
//!
//! A NaN pre-activation gives a NaN gate, and a NaN gate a NaN slope, for every activation, clipped or not.
//! A clip propagates NaN in the state and in its gradient. So a NaN input shows in the states and gradients
//! that depend on it, and in the loss. Infinities follow IEEE 754: they saturate a gate, or become NaN as
//! 0·∞ or ∞ − ∞. Values at skipped steps have no effect, and no row of the batch affects another row's
//! states.
//!
//! What a device guarantees depends on its shader language:
//!
//! - CUDA and ROCm: all of this. CubeCL compiles without fast math.
//! - Metal with CubeCL's own runtime: all of this, in its safe math mode. Metal with wgpu, from Metal or WGSL
//!   sources, uses fast math by default. The compiler may then assume that there are no NaN and infinities.
//! - SPIR-V: nothing, because CubeCL does not request `SignedZeroInfNanPreserve`.
//! - WGSL: nothing. An implementation may assume that there are no NaN and infinities.
//!
//! Gates, slopes and clips test the bits of a value, because a compiler may remove a comparison with NaN.
//! Mesa's lavapipe from WGSL guarantees nothing but passes the NaN tests. The tests run on the device of the
//! machine.
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod kernel;
mod launch;
mod plan;

/// What a step computes.
pub use gru_spec as spec;

pub use kernel::rule::{Starts, ZoneoutKind};
pub use launch::{
    Buffers, Plan, PlannedPass, Products, Recurrence, gates, launches, recurrent_inputs, run,
};
pub use plan::{
    error::{PlanError, Resource},
    limits::Limits,
    schedule::{Schedule, ScheduleError, SequenceTile, StepTile, Strategy},
    settings::{Settings, SettingsError},
};
