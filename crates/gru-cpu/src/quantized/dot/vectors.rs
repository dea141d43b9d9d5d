//! [`Dot`](super::Dot) with the intrinsics of an instruction set.

/// Implements [`Dot`](super::Dot) for vectors of integers and of floats, each with the names of its intrinsics. The
/// last two arguments are `lhs` and `dot`.
#[allow(unused_macros)] // WebAssembly without vectors.
macro_rules! vectors {
    (
        $name:ty: $lanes:literal,
        $ints:ty { $set:ident, $load:ident },
        $floats:ty { $set_f:ident, $add_f:ident, $mul_f:ident, $load_f:ident, $store_f:ident, $convert:ident },
        |$word:ident| -> $lhs:ty { $($to_lhs:tt)* },
        |$sums:ident, $w:ident, $x:ident| { $($dot:tt)* }
    ) => {
        // SAFETY of every block: the caller promises the instruction set, and a vector at each pointer.
        #[allow(clippy::undocumented_unsafe_blocks)]
        #[allow(unused_unsafe)] // Some intrinsics of some targets are safe.
        impl Dot for $name {
            const LANES: usize = $lanes;
            type Ints = $ints;
            type Floats = $floats;
            type Lhs = $lhs;

            #[inline(always)]
            unsafe fn ints(self, v: i32) -> $ints {
                unsafe { $set(v) }
            }

            #[inline(always)]
            unsafe fn load(self, from: *const u32) -> $ints {
                unsafe { $load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn lhs(self, $word: u32) -> $lhs {
                unsafe { $($to_lhs)* }
            }

            #[inline(always)]
            unsafe fn dot(self, $sums: $ints, $w: $ints, $x: $lhs) -> $ints {
                unsafe { $($dot)* }
            }

            #[inline(always)]
            unsafe fn floats(self, v: f32) -> $floats {
                unsafe { $set_f(v) }
            }

            #[inline(always)]
            unsafe fn add_scaled(self, sums: $floats, ints: $ints, scales: *const u32) -> $floats {
                unsafe { $add_f(sums, $mul_f($convert(ints), $load_f(scales.cast()))) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32, sums: $floats, scale: f32) {
                unsafe { $store_f(to.cast(), $mul_f(sums, $set_f(scale))) }
            }
        }
    };
}
