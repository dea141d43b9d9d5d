//! The instruction sets of the kernels.

use super::Lanes;
use crate::tuning;
#[cfg(feature = "std")]
use core::cell::Cell;
use core::marker::PhantomData;
use pulp::{Scalar, Simd, WithSimd};

/// Defines all instruction sets except [`Isa::Scalar`]: names, vectors, and the targets that have them. The best set of
/// each target is last.
macro_rules! instruction_sets {
    ($($(#[$doc:meta])* $name:ident = $text:literal: $simd:path, $target:meta;)+) => {
        /// An instruction set that tests force with [`Isa::run`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Isa {
            /// No vector instructions.
            Scalar,
            $($(#[$doc])* $name,)+
        }

        /// An instruction set that this machine and this build have. A WebAssembly module cannot detect instructions
        /// at run time: an engine rejects a module that contains one unknown instruction, even if it would never run.
        /// So a module has only the sets that it was built for, unlike `pulp::Arch`.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Arch {
            Scalar,
            $(#[cfg($target)] $name($simd),)+
        }

        const COUNT: usize = [Isa::Scalar, $(Isa::$name),+].len();

        impl Isa {
            /// All instruction sets, also those that this machine does not have.
            pub const ALL: [Self; COUNT] = [Self::Scalar, $(Self::$name),+];

            fn arch(self) -> Option<Arch> {
                match self {
                    Self::Scalar => Some(Arch::Scalar),
                    $(#[cfg($target)] Self::$name => <$simd>::try_new().map(Arch::$name),)+
                    #[allow(unreachable_patterns)] // The sets of other targets.
                    _ => None,
                }
            }
        }

        impl Arch {
            pub(crate) fn name(self) -> &'static str {
                match self {
                    Self::Scalar => "scalar",
                    $(#[cfg($target)] Self::$name(_) => $text,)+
                }
            }

            /// Runs `op` with this instruction set.
            #[inline(always)]
            pub(crate) fn dispatch<Op: WithSimd>(self, op: Op) -> Op::Output {
                match self {
                    Self::Scalar => Simd::vectorize(Scalar, op),
                    $(#[cfg($target)] Self::$name(simd) => Simd::vectorize(simd, op),)+
                }
            }
        }
    };
}

instruction_sets! {
    /// AVX2 with FMA.
    V3 = "AVX2 with FMA": pulp::x86::V3, any(target_arch = "x86", target_arch = "x86_64");
    /// AVX-512.
    V4 = "AVX-512": pulp::x86::V4, any(target_arch = "x86", target_arch = "x86_64");
    /// The 128-bit vectors of AArch64.
    Neon = "NEON": pulp::aarch64::Neon, target_arch = "aarch64";
    /// The 128-bit vectors of WebAssembly.
    Simd128 = "simd128": pulp::wasm::Simd128, all(target_family = "wasm", target_feature = "simd128");
    /// [`Simd128`](Self::Simd128) with a multiply-add that the engine may fuse.
    RelaxedSimd = "relaxed-simd": pulp::wasm::RelaxedSimd, all(
        target_family = "wasm", target_feature = "relaxed-simd", feature = "relaxed-simd"
    );
}

#[cfg(feature = "std")]
std::thread_local! {
    static FORCED: Cell<Option<Isa>> = const { Cell::new(None) };
}

impl Isa {
    /// Whether this machine and this build have it.
    pub fn is_available(self) -> bool {
        self.arch().is_some()
    }

    /// Runs `f`. Its calls on this thread use this instruction set.
    ///
    /// # Panics
    /// If it is not available.
    #[cfg(feature = "std")]
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

    /// The one that is forced on this thread.
    #[cfg(feature = "std")]
    fn forced() -> Option<Self> {
        FORCED.get()
    }

    #[cfg(not(feature = "std"))]
    fn forced() -> Option<Self> {
        None
    }

    /// The best instruction set of this machine.
    pub(crate) fn best() -> Arch {
        let best = Self::ALL.into_iter().rev().find_map(Self::arch);
        best.unwrap_or(Arch::Scalar)
    }
}

#[cfg(test)]
impl Isa {
    /// Whether its multiply-add rounds once. It is available.
    pub(crate) fn is_fused(self) -> bool {
        struct Fused;
        impl WithSimd for Fused {
            type Output = bool;

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) -> bool {
                let ulp = f64::from(f32::EPSILON);
                let [a, b, c] = [1.0 + ulp, 1.0 - ulp, -1.0].map(|v| f32::real(simd, v));
                f32::first::<S>(f32::vfma(simd, a, b, c)) != 0.0
            }
        }
        self.arch().is_some_and(|arch| arch.dispatch(Fused))
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
        let arch = match Isa::forced() {
            Some(isa) => isa.arch().expect("it was available when it was forced"),
            None => Isa::best(),
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
