//! The vector operations of the kernels, for both float types.

use pulp::Simd;

/// A float type and its vectors. The operations are `pulp`'s, without the type in their names.
///
/// # Safety
/// `V<S>` consists of `lanes::<S>()` contiguous elements of the type. Zero bits are the number 0.
pub unsafe trait Lanes: num_traits::Float + Default + Send + Sync + 'static {
    /// A vector of the instruction set `S`.
    type V<S: Simd>: Copy;

    /// Elements of a vector.
    fn lanes<S: Simd>() -> usize;
    fn splat<S: Simd>(simd: S, v: Self) -> Self::V<S>;
    /// The constant `v` in every lane.
    fn real<S: Simd>(simd: S, v: f64) -> Self::V<S>;

    /// # Safety
    /// A whole vector can be read at `from`, which needs no alignment.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> Self::V<S>;
    /// # Safety
    /// A whole vector can be written at `to`, which needs no alignment.
    unsafe fn store<S: Simd>(simd: S, to: *mut Self, v: Self::V<S>);
    /// The lanes past the end of `from` are zero.
    fn load_part<S: Simd>(simd: S, from: &[Self]) -> Self::V<S>;
    /// Writes the first lanes, as many as `to` has elements.
    fn store_part<S: Simd>(simd: S, to: &mut [Self], v: Self::V<S>);

    /// A vector of `from`, zero past its end.
    #[inline(always)]
    fn read<S: Simd>(simd: S, from: &[Self]) -> Self::V<S> {
        if from.len() >= Self::lanes::<S>() {
            // SAFETY: `from` is at least a vector long.
            return unsafe { Self::load(simd, from.as_ptr()) };
        }
        Self::load_part(simd, from)
    }

    /// Writes the first elements of a vector, as many as `to` has.
    #[inline(always)]
    fn write<S: Simd>(simd: S, to: &mut [Self], v: Self::V<S>) {
        if to.len() >= Self::lanes::<S>() {
            // SAFETY: `to` is at least a vector long.
            return unsafe { Self::store(simd, to.as_mut_ptr(), v) };
        }
        Self::store_part(simd, to, v);
    }

    /// The first element of a vector.
    #[inline(always)]
    fn first<S: Simd>(v: Self::V<S>) -> Self {
        // SAFETY: by the promise of this trait a vector begins with its first element.
        unsafe { (&raw const v).cast::<Self>().read_unaligned() }
    }

    /// The sum of all lanes.
    fn sum<S: Simd>(simd: S, v: Self::V<S>) -> Self;
    fn vadd<S: Simd>(simd: S, a: Self::V<S>, b: Self::V<S>) -> Self::V<S>;
    fn vsub<S: Simd>(simd: S, a: Self::V<S>, b: Self::V<S>) -> Self::V<S>;
    fn vmul<S: Simd>(simd: S, a: Self::V<S>, b: Self::V<S>) -> Self::V<S>;
    fn vdiv<S: Simd>(simd: S, a: Self::V<S>, b: Self::V<S>) -> Self::V<S>;
    /// `a·b + c`, with one rounding if the machine has such an instruction.
    fn vfma<S: Simd>(simd: S, a: Self::V<S>, b: Self::V<S>, c: Self::V<S>) -> Self::V<S>;
    /// The larger of `v` and `bound`; NaN if `v` is NaN.
    fn at_least<S: Simd>(simd: S, v: Self::V<S>, bound: Self::V<S>) -> Self::V<S>;
    /// The smaller of `v` and `bound`; NaN if `v` is NaN.
    fn at_most<S: Simd>(simd: S, v: Self::V<S>, bound: Self::V<S>) -> Self::V<S>;
    fn vabs<S: Simd>(simd: S, a: Self::V<S>) -> Self::V<S>;
    fn vneg<S: Simd>(simd: S, a: Self::V<S>) -> Self::V<S>;
    /// `then` where the first of the pair is less than the second, else `otherwise`.
    fn if_less<S: Simd>(
        simd: S,
        pair: (Self::V<S>, Self::V<S>),
        then: Self::V<S>,
        otherwise: Self::V<S>,
    ) -> Self::V<S>;

    /// `v`, or 0 where `v` is subnormal. It is used for what a step passes to the next: a number that decays would
    /// stay subnormal, and many processors are much slower with subnormals.
    #[inline(always)]
    fn without_subnormals<S: Simd>(simd: S, v: Self::V<S>) -> Self::V<S> {
        let least = Self::splat(simd, Self::min_positive_value());
        let zero = Self::real(simd, 0.0);
        Self::if_less(simd, (Self::vabs(simd, v), least), zero, v)
    }

    /// `v` where it is NaN, else `otherwise`.
    fn nan_or<S: Simd>(simd: S, v: Self::V<S>, otherwise: Self::V<S>) -> Self::V<S>;

    /// `e^x` for `x ≤ 0`.
    fn exp_negative<S: Simd>(simd: S, x: Self::V<S>) -> Self::V<S>;
    /// `e^x − 1` for `x ≤ 0`.
    fn exp_m1_negative<S: Simd>(simd: S, x: Self::V<S>) -> Self::V<S>;
    /// `σ(a)` and `1 − σ(a)`. The second is more accurate than a difference of 1 and the rounded first.
    fn vsigmoid<S: Simd>(simd: S, a: Self::V<S>) -> (Self::V<S>, Self::V<S>);
    /// `tanh a`.
    fn vtanh<S: Simd>(simd: S, a: Self::V<S>) -> Self::V<S>;
}

macro_rules! lanes {
    ($t:ty, $v:ident, $count:ident, $partial_load:ident, $partial_store:ident, $splat:ident,
     $sum:ident, $min:ident, $max:ident, $less:ident, $equal:ident, $select:ident, $math:ident,
     $($name:ident = $function:ident($($operand:ident),+);)+) => {
        // SAFETY: `pulp` promises this layout of its vectors, and IEEE 754 the bits of zero.
        unsafe impl Lanes for $t {
            type V<S: Simd> = S::$v;

            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::$count
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, v: Self) -> S::$v {
                simd.$splat(v)
            }
            #[inline(always)]
            fn real<S: Simd>(simd: S, v: f64) -> S::$v {
                simd.$splat(v as $t)
            }
            #[inline(always)]
            unsafe fn load<S: Simd>(_: S, from: *const Self) -> S::$v {
                // SAFETY: a vector can be read there, and every bit pattern is valid.
                unsafe { from.cast::<S::$v>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(_: S, to: *mut Self, v: S::$v) {
                // SAFETY: a vector can be written there.
                unsafe { to.cast::<S::$v>().write_unaligned(v) }
            }
            #[inline(always)]
            fn load_part<S: Simd>(simd: S, from: &[Self]) -> S::$v {
                simd.$partial_load(from)
            }
            #[inline(always)]
            fn store_part<S: Simd>(simd: S, to: &mut [Self], v: S::$v) {
                simd.$partial_store(to, v);
            }
            #[inline(always)]
            fn sum<S: Simd>(simd: S, v: S::$v) -> $t {
                simd.$sum(v)
            }
            $(
                #[inline(always)]
                fn $name<S: Simd>(simd: S, $($operand: S::$v),+) -> S::$v {
                    simd.$function($($operand),+)
                }
            )+
            // If an operand is NaN, x86 vectors return the second operand and other vectors NaN. Scalar minimum and
            // maximum return the operand that is not NaN. On WebAssembly the selection is `pmin` and `pmax`, one
            // instruction on x86. `min` and `max` are eight.
            #[inline(always)]
            fn at_least<S: Simd>(simd: S, v: S::$v, bound: S::$v) -> S::$v {
                if S::IS_SCALAR || cfg!(target_family = "wasm") {
                    simd.$select(simd.$less(v, bound), bound, v)
                } else {
                    simd.$max(bound, v)
                }
            }
            #[inline(always)]
            fn at_most<S: Simd>(simd: S, v: S::$v, bound: S::$v) -> S::$v {
                if S::IS_SCALAR || cfg!(target_family = "wasm") {
                    simd.$select(simd.$less(bound, v), bound, v)
                } else {
                    simd.$min(bound, v)
                }
            }
            #[inline(always)]
            fn if_less<S: Simd>(
                simd: S,
                (a, b): (S::$v, S::$v),
                then: S::$v,
                otherwise: S::$v,
            ) -> S::$v {
                simd.$select(simd.$less(a, b), then, otherwise)
            }
            #[inline(always)]
            fn nan_or<S: Simd>(simd: S, v: S::$v, otherwise: S::$v) -> S::$v {
                simd.$select(simd.$equal(v, v), otherwise, v)
            }
            #[inline(always)]
            fn exp_negative<S: Simd>(simd: S, x: S::$v) -> S::$v {
                crate::simd::math::$math::exp_negative(simd, x)
            }
            #[inline(always)]
            fn exp_m1_negative<S: Simd>(simd: S, x: S::$v) -> S::$v {
                crate::simd::math::$math::exp_m1_negative(simd, x)
            }
            #[inline(always)]
            fn vsigmoid<S: Simd>(simd: S, a: S::$v) -> (S::$v, S::$v) {
                crate::simd::math::$math::sigmoid(simd, a)
            }
            #[inline(always)]
            fn vtanh<S: Simd>(simd: S, a: S::$v) -> S::$v {
                crate::simd::math::$math::tanh(simd, a)
            }
        }
    };
}

lanes!(
    f32, f32s, F32_LANES, partial_load_f32s, partial_store_f32s, splat_f32s,
    reduce_sum_f32s, min_f32s, max_f32s, less_than_f32s, equal_f32s, select_f32s, single,
    vadd = add_f32s(a, b);
    vsub = sub_f32s(a, b);
    vmul = mul_f32s(a, b);
    vdiv = div_f32s(a, b);
    vfma = mul_add_e_f32s(a, b, c);
    vabs = abs_f32s(a);
    vneg = neg_f32s(a);
);

lanes!(
    f64, f64s, F64_LANES, partial_load_f64s, partial_store_f64s, splat_f64s,
    reduce_sum_f64s, min_f64s, max_f64s, less_than_f64s, equal_f64s, select_f64s, double,
    vadd = add_f64s(a, b);
    vsub = sub_f64s(a, b);
    vmul = mul_f64s(a, b);
    vdiv = div_f64s(a, b);
    vfma = mul_add_e_f64s(a, b, c);
    vabs = abs_f64s(a);
    vneg = neg_f64s(a);
);
