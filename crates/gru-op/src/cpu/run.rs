//! The operator of a backend whose tensors are slices.

/// Implements the operator for a CPU backend by the functions of this module.
macro_rules! run_on_slices {
    ($backend:ty) => {
        impl crate::GruBackend for $backend {
            fn gru_states(
                inputs: crate::GruInputs<Self>,
                spec: crate::GruSpec,
            ) -> burn::backend::tensor::FloatTensor<Self> {
                crate::cpu::states(inputs, spec)
            }

            fn gru_states_and_gates(
                inputs: crate::GruInputs<Self>,
                spec: crate::GruSpec,
            ) -> crate::GruForward<Self> {
                crate::cpu::states_and_gates(inputs, spec)
            }

            fn gru_gradients(
                inputs: crate::GruInputs<Self>,
                states: burn::backend::tensor::FloatTensor<Self>,
                gates: crate::OptionalTensor<Self>,
                d_states: burn::backend::tensor::FloatTensor<Self>,
                spec: crate::GruSpec,
                wanted: crate::Wanted,
            ) -> crate::GruGradients<Self> {
                crate::cpu::gradients(inputs, states, gates, d_states, spec, wanted)
            }
        }
    };
}
pub(super) use run_on_slices;
