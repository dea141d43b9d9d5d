//! The operator as a Burn backend extension.
//!
//! Every method has a default body in Burn's operations, so a backend without kernels needs an empty `impl`.
//! The output is one tensor, the state after every step. The final state is a view of it, so autodiff needs
//! one node for a whole sequence. Fusion, a remote device and a capture treat a call as one operation.

// Burn deprecates the ndarray backend. It is supported until Burn removes it.
#![allow(deprecated)]
// Without a backend, Burn's dispatch does not use the arguments.
#![cfg_attr(
    not(any(feature = "cpu-kernels", feature = "cube", feature = "router")),
    allow(unused_variables)
)]

/// Implements the operator for a backend by two functions of a module. Textual scope: the modules below use it.
#[cfg(any(feature = "cpu-kernels", feature = "fusion", feature = "router"))]
macro_rules! implement {
    ($($module:ident)::+: $($header:tt)+) => {
        $($header)+ {
            fn gru_forward(
                call: crate::backend::GruCall<Self>,
                keep_gates: bool,
            ) -> crate::backend::GruSaved<Self> {
                crate::backend::$($module)::+::forward(call, keep_gates)
            }

            fn gru_gradients(
                call: crate::backend::GruCall<Self>,
                saved: crate::backend::GruSaved<Self>,
                d_states: burn::backend::tensor::FloatTensor<Self>,
                wanted: gru_spec::PerInput<bool>,
            ) -> crate::backend::GruGradients<Self> {
                crate::backend::$($module)::+::gradients(call, saved, d_states, wanted)
            }
        }
    };
}

#[cfg(feature = "autodiff")]
mod autodiff;
mod call;
#[cfg(all(test, feature = "flex"))]
mod cases;
pub(crate) mod composed;
#[cfg(feature = "cpu-kernels")]
pub(crate) mod cpu;
#[cfg(feature = "cube")]
mod cube;
#[cfg(any(feature = "fusion", feature = "router"))]
pub(crate) mod deferred;
mod memory;
pub(crate) mod padded;

pub use self::call::{GruCall, GruGradients, GruSaved};
#[cfg(feature = "capture")]
#[doc(hidden)]
pub use self::deferred::RecordedCall;
pub(crate) use self::{call::is_addressable, memory::LayerMemory};
pub use gru_spec::{Inputs, Lengths, PerInput, Sequence, Sizes, Weights};

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

/// The GRU over a whole sequence, on a backend's tensors.
///
/// Shapes are not checked here. [`gru_sequence`](crate::gru_sequence) checks them first.
///
/// # Other backends
///
/// All backends of Burn's `Device` except LibTorch implement this trait here. For another one, write
/// `impl GruBackend for MyBackend {}` in the crate that defines `MyBackend`. Then call
/// `MyBackend::gru_forward(..)`, or `Autodiff::<MyBackend>::gru_forward(..)` for the hand-written backward.
/// [`GruBlock`](crate::GruBlock) and the functions on `Tensor` use Burn's `Device`, whose list is closed. They
/// run on `MyBackend` behind a server (module `remote`).
#[backend_extension(
    NdArray: cfg(feature = "ndarray"),
    Flex: cfg(feature = "flex"),
    Cube: cfg(feature = "cube"),
    Remote: cfg(feature = "remote"),
    Capture: cfg(feature = "capture"),
    Autodiff: cfg(feature = "autodiff")
)]
pub trait GruBackend: Backend {
    /// The state after every step, and with `keep_gates` the gates that [`gru_gradients`](Self::gru_gradients)
    /// requires. Under autodiff the gates are constants.
    fn gru_forward(#[extension_type] call: GruCall<Self>, keep_gates: bool) -> GruSaved<Self> {
        padded::forward(call, |call| composed::forward::<Self>(call, keep_gates))
    }

    /// The requested gradients of `Σ states ⊙ d_states`. They are constants under autodiff: there are no
    /// second derivatives.
    fn gru_gradients(
        #[extension_type] call: GruCall<Self>,
        #[extension_type] saved: GruSaved<Self>,
        d_states: FloatTensor<Self>,
        wanted: PerInput<bool>,
    ) -> GruGradients<Self> {
        padded::gradients(call, saved, d_states, wanted, composed::gradients::<Self>)
    }
}
