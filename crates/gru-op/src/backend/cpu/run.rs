//! The operator of a backend whose tensors are slices.

/// Implements the operator for a CPU backend by the functions of this module.
macro_rules! run_on_slices {
    ($backend:ty) => {
        impl crate::backend::GruBackend for $backend {
            fn gru_states(
                call: crate::backend::GruCall<Self>,
            ) -> burn::backend::tensor::FloatTensor<Self> {
                crate::backend::cpu::states(call)
            }

            fn gru_states_and_gates(
                call: crate::backend::GruCall<Self>,
            ) -> crate::backend::GruSaved<Self> {
                crate::backend::cpu::states_and_gates(call)
            }

            fn gru_gradients(
                call: crate::backend::GruCall<Self>,
                saved: crate::backend::GruSaved<Self>,
                d_states: burn::backend::tensor::FloatTensor<Self>,
                wanted: gru_spec::PerInput<bool>,
            ) -> crate::backend::GruGradients<Self> {
                crate::backend::cpu::gradients(call, saved, d_states, wanted)
            }
        }
    };
}
pub(super) use run_on_slices;
