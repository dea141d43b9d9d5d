//! The instruction sets of a WebAssembly module, in place of `pulp::Arch`.
//!
//! A module cannot detect instructions at run time: an engine rejects a module that contains one unknown
//! instruction, even if it would never run. So a module uses the instruction set that it was built for
//! (`-C target-feature=+simd128`), and contains no code for others. `pulp::Arch` would contain all of them.

use pulp::{Scalar, Simd, WithSimd};

/// An instruction set that this module was built for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arch {
    Scalar,
    #[cfg(target_feature = "simd128")]
    Simd128(pulp::wasm::Simd128),
    #[cfg(all(target_feature = "relaxed-simd", feature = "relaxed-simd"))]
    RelaxedSimd(pulp::wasm::RelaxedSimd),
}

impl Arch {
    /// The best instruction set of this build.
    pub(crate) fn new() -> Self {
        #[cfg(all(target_feature = "relaxed-simd", feature = "relaxed-simd"))]
        if let Some(simd) = pulp::wasm::RelaxedSimd::try_new() {
            return Self::RelaxedSimd(simd);
        }
        #[cfg(target_feature = "simd128")]
        if let Some(simd) = pulp::wasm::Simd128::try_new() {
            return Self::Simd128(simd);
        }
        Self::Scalar
    }

    /// Runs `op` with this instruction set.
    #[inline(always)]
    pub(crate) fn dispatch<Op: WithSimd>(self, op: Op) -> Op::Output {
        match self {
            Self::Scalar => Simd::vectorize(Scalar, op),
            #[cfg(target_feature = "simd128")]
            Self::Simd128(simd) => Simd::vectorize(simd, op),
            #[cfg(all(target_feature = "relaxed-simd", feature = "relaxed-simd"))]
            Self::RelaxedSimd(simd) => Simd::vectorize(simd, op),
        }
    }
}
