//! The instruction sets of a WebAssembly module, in place of `pulp::Arch`.
//!
//! A module cannot ask: an engine refuses it for one instruction that it does not know, whether that
//! would ever run or not. So a module has those that it was built for
//! (`-C target-feature=+simd128`) and no code for others, as `pulp`'s choice would bring along.

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
    /// The best.
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

    /// Runs `op` on it.
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
