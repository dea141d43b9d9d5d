//! The instruction sets of the kernels.

use super::Lanes;
#[cfg(target_family = "wasm")]
use super::wasm::Arch;
use crate::tuning;
#[cfg(not(target_family = "wasm"))]
use pulp::Arch;
use pulp::{Simd, WithSimd};
use std::{cell::Cell, marker::PhantomData};

/// An instruction set that tests force with [`Isa::run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// No vector instructions.
    Scalar,
    /// AVX2 with FMA.
    V3,
    /// AVX-512.
    V4,
    /// The 128-bit vectors of AArch64.
    Neon,
    /// The 128-bit vectors of WebAssembly.
    Simd128,
    /// [`Simd128`](Self::Simd128) with a multiply-add that the engine may fuse.
    RelaxedSimd,
}

thread_local! {
    static FORCED: Cell<Option<Isa>> = const { Cell::new(None) };
}

impl Isa {
    /// All instruction sets, also those that this machine does not have.
    pub const ALL: [Self; 6] = [
        Self::Scalar,
        Self::V3,
        Self::V4,
        Self::Neon,
        Self::Simd128,
        Self::RelaxedSimd,
    ];

    /// Whether this machine and this build have it.
    pub fn is_available(self) -> bool {
        self.arch().is_some()
    }

    /// Runs `f`. Its calls on this thread use this instruction set.
    ///
    /// # Panics
    /// If it is not available.
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        assert!(self.is_available(), "{self:?} is not available");
        struct Restore(Option<Isa>);
        impl Drop for Restore {
            fn drop(&mut self) {
                FORCED.set(self.0);
            }
        }
        let _restore = Restore(FORCED.replace(Some(self)));
        f()
    }

    fn arch(self) -> Option<Arch> {
        match self {
            Self::Scalar => Some(Arch::Scalar),
            #[cfg(target_arch = "x86_64")]
            Self::V3 => pulp::x86::V3::try_new().map(Arch::V3),
            #[cfg(target_arch = "x86_64")]
            Self::V4 => pulp::x86::V4::try_new().map(Arch::V4),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => pulp::aarch64::Neon::try_new().map(Arch::Neon),
            #[cfg(all(target_family = "wasm", target_feature = "simd128"))]
            Self::Simd128 => pulp::wasm::Simd128::try_new().map(Arch::Simd128),
            #[cfg(all(
                target_family = "wasm",
                target_feature = "relaxed-simd",
                feature = "relaxed-simd"
            ))]
            Self::RelaxedSimd => pulp::wasm::RelaxedSimd::try_new().map(Arch::RelaxedSimd),
            #[cfg(not(target_arch = "x86_64"))]
            Self::V3 | Self::V4 => None,
            #[cfg(not(target_arch = "aarch64"))]
            Self::Neon => None,
            #[cfg(not(all(target_family = "wasm", target_feature = "simd128")))]
            Self::Simd128 => None,
            #[cfg(not(all(
                target_family = "wasm",
                target_feature = "relaxed-simd",
                feature = "relaxed-simd"
            )))]
            Self::RelaxedSimd => None,
        }
    }
}

/// The instruction set of a call, and the sizes that depend on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) arch: Arch,
    /// Elements of a vector.
    pub(crate) lanes: usize,
    /// Rows of a full tile.
    pub(crate) tile_rows: usize,
}

impl Machine {
    /// The best instruction set, or the one that is forced on this thread.
    pub(crate) fn here<E: Lanes>() -> Self {
        let arch = match FORCED.get() {
            Some(isa) => isa.arch().expect("it was available when it was forced"),
            None => Arch::new(),
        };
        let (lanes, registers) = arch.dispatch(Sizes::<E>(PhantomData));
        Self {
            arch,
            lanes,
            tile_rows: tuning::tile_rows(registers),
        }
    }
}

/// Elements of a vector, and vector registers.
struct Sizes<E>(PhantomData<E>);

impl<E: Lanes> WithSimd for Sizes<E> {
    type Output = (usize, usize);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (usize, usize) {
        (E::lanes::<S>(), tuning::registers::<S>())
    }
}

#[cfg(test)]
mod tests;
