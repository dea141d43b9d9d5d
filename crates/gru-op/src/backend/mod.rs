//! The operator as a Burn backend extension: the trait, and a call as data.
//!
//! Every method has a default body made of Burn's own primitives, so a backend without kernels needs an empty
//! `impl`. The output is one tensor that holds the state after every step. The final state is a view of it,
//! so autodiff needs one node for a whole sequence. Fusion, a remote device and a capture treat a call as
//! one operation.

// Burn deprecates the ndarray backend as a whole. It is supported until Burn removes it.
#![allow(deprecated)]

#[cfg(feature = "autodiff")]
mod autodiff;
mod call;
pub(crate) mod composed;
#[cfg(any(feature = "ndarray", feature = "flex"))]
pub(crate) mod cpu;
#[cfg(feature = "cube")]
mod cube;
#[cfg(any(feature = "fusion", feature = "router"))]
pub(crate) mod deferred;
mod memory;

pub use self::{
    call::{GruCall, GruGradients, GruSaved},
    memory::LayerMemory,
};
pub use gru_spec::{Inputs, PerInput, Sequence, Sizes, Weights};

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

/// The GRU over a whole sequence, on primitives of a backend.
///
/// Shapes are not checked here: [`gru_sequence`](crate::gru_sequence) does that first.
///
/// # Another backend
///
/// All backends that Burn's `Device` knows have an implementation here. A backend of your own gets one
/// by `impl GruBackend for MyBackend {}`, which is what LibTorch has. The orphan rule asks for the crate
/// that defines `MyBackend`. Its calls are then `MyBackend::gru_states(..)` on primitives, and
/// `Autodiff::<MyBackend>::gru_states(..)` with the hand-written backward. `GruBlock` and the functions
/// over `Tensor` go through Burn's `Device`, whose list is closed: they reach it behind a server
/// (module `remote`).
#[backend_extension(
    NdArray: cfg(feature = "ndarray"),
    Flex: cfg(feature = "flex"),
    Cube: cfg(feature = "cube"),
    LibTorch: cfg(feature = "tch"),
    Remote: cfg(feature = "remote"),
    Capture: cfg(feature = "capture"),
    Autodiff: cfg(feature = "autodiff")
)]
pub trait GruBackend: Backend {
    /// The state after every step, `[N,T,H]` or `[T,N,H]`. Keeps nothing for a backward, unless
    /// autodiff tracks an input.
    ///
    /// Below autodiff, [`Checkpointing::Recompute`](crate::Checkpointing::Recompute) announces that
    /// [`gru_gradients`](Self::gru_gradients) follows: the weights will soon change.
    fn gru_states(#[extension_type] call: GruCall<Self>) -> FloatTensor<Self> {
        composed::states::<Self>(call)
    }

    /// The same states, and the gates that [`gru_gradients`](Self::gru_gradients) requires.
    ///
    /// Under autodiff both results are constants, even where an input is tracked: no gradient flows through
    /// this method. [`gru_states`](Self::gru_states) is the one that is differentiated.
    fn gru_states_and_gates(#[extension_type] call: GruCall<Self>) -> GruSaved<Self> {
        composed::states_and_gates::<Self>(call)
    }

    /// The requested gradients of `Σ states ⊙ d_states`. First order only: under autodiff the results are
    /// constants.
    fn gru_gradients(
        #[extension_type] call: GruCall<Self>,
        #[extension_type] saved: GruSaved<Self>,
        d_states: FloatTensor<Self>,
        wanted: PerInput<bool>,
    ) -> GruGradients<Self> {
        composed::gradients::<Self>(call, saved, d_states, wanted)
    }
}

/// By Burn's own operations.
#[cfg(feature = "tch")]
impl GruBackend for burn::backend::LibTorch {}
