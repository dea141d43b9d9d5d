//! The bias gradients.

use super::{Pass, gate_of_d::PACKED};
use crate::{
    product::{Buffer, Rows, WIDTH},
    simd::Lanes,
};
use core::{mem::MaybeUninit, ops::Range};
use pulp::Simd;

/// For each gate of `d`, in the order r, z, n: the sum over rows and steps, and its rounding error.
#[derive(Clone, Copy)]
pub(super) struct Bias<'a, E> {
    sums: Rows<'a, E>,
    errors: Rows<'a, E>,
}

impl<'a, E: Lanes> Bias<'a, E> {
    /// The memory is empty if no bias gradient is requested.
    pub(super) fn new([sums, errors]: [&'a mut Buffer<E>; 2], h: usize) -> Option<Self> {
        let (sums, errors) = (sums.as_mut(), errors.as_mut());
        (!sums.is_empty()).then(|| Self {
            sums: Rows::new(sums, h),
            errors: Rows::new(errors, h),
        })
    }
}

impl<E: Lanes> Pass<'_, E> {
    /// The vectors of the bias gradients.
    pub(super) fn bias_vectors(&self) -> usize {
        self.call.spec.saved_per_unit() * self.call.sizes.h.div_ceil(self.machine.lanes)
    }

    /// Adds some vectors of `d`, which belong to this thread, over the first `rows` rows of a round. Rows are added in pairs
    /// within a block. Blocks are added with their rounding errors, so that the error does not grow with the length of the
    /// sequence.
    #[inline(always)]
    pub(super) fn add_biases<S: Simd>(&self, simd: S, rows: usize, vectors: Range<usize>) {
        let Some(bias) = self.bias else { return };
        let (h, lanes) = (self.call.sizes.h, E::lanes::<S>());
        let per_gate = h.div_ceil(lanes);
        for vector in vectors {
            let (gate, unit) = (vector / per_gate, vector % per_gate * lanes);
            let units = unit..(unit + lanes).min(h);
            let from = self.d.at(PACKED[gate], unit, 0).cast_const();
            // SAFETY: these units of both belong to this thread.
            let (sums, errors) = unsafe {
                let errors = bias.errors.cells_mut(gate, units.clone());
                (bias.sums.cells_mut(gate, units), errors)
            };
            let mut sum = E::read(simd, sums);
            let mut total_error = E::read(simd, errors);
            let mut first = 0;
            while first < rows {
                // SAFETY: a block of `d` is at least a vector wide and has so many rows, all written before the
                // last barrier.
                let block = unsafe {
                    let from = from.add(first * WIDTH);
                    // A constant size is unrolled.
                    match rows - first {
                        BLOCK.. => sum_of_rows(simd, from, BLOCK),
                        rest => sum_of_rows(simd, from, rest),
                    }
                };
                let (new, error) = add_exactly::<E, S>(simd, sum, block);
                sum = new;
                total_error = E::vadd(simd, total_error, error);
                first += BLOCK;
            }
            E::write(simd, sums, sum);
            E::write(simd, errors, total_error);
        }
    }
}

/// Rows whose sum is added at once.
const BLOCK: usize = 8;

/// The sum of a vector of `rows` rows of a block, at most [`BLOCK`].
///
/// # Safety
/// The vectors can be read.
#[inline(always)]
unsafe fn sum_of_rows<E: Lanes, S: Simd>(simd: S, from: *const E, rows: usize) -> E::V<S> {
    let mut block = [E::real(simd, 0.0); BLOCK];
    for (row, v) in block[..rows].iter_mut().enumerate() {
        // SAFETY: the caller promised this vector.
        *v = unsafe { E::load(simd, from.add(row * WIDTH)) };
    }
    for half in [4, 2, 1] {
        for k in 0..half {
            block[k] = E::vadd(simd, block[k], block[k + half]);
        }
    }
    block[0]
}

/// `a + b` rounded, and the rounding error: Knuth's two-sum.
#[inline(always)]
fn add_exactly<E: Lanes, S: Simd>(simd: S, a: E::V<S>, b: E::V<S>) -> (E::V<S>, E::V<S>) {
    let sum = E::vadd(simd, a, b);
    let of_b = E::vsub(simd, sum, a);
    let of_a = E::vsub(simd, sum, of_b);
    let error = E::vadd(simd, E::vsub(simd, a, of_a), E::vsub(simd, b, of_b));
    (sum, error)
}

/// The gradients of both biases from the sums of the pre-activation gradients, `dr̄ | dz̄ | dn̄`, and their rounding errors.
/// With reset-after, `dn̄ ⊙ r` is a fourth block, and the last block of the recurrent bias gradient.
pub(super) fn write<E: Lanes>(
    sums: &mut [E],
    errors: &[E],
    h: usize,
    d_b_ih: Option<&mut [MaybeUninit<E>]>,
    d_b_hh: Option<&mut [MaybeUninit<E>]>,
) {
    for (sum, &error) in sums.iter_mut().zip(errors) {
        // An infinite sum has no finite error.
        if error.is_finite() {
            *sum = *sum + error;
        }
    }
    if let Some(d_b_ih) = d_b_ih {
        d_b_ih.write_copy_of_slice(&sums[..3 * h]);
    }
    if let Some(d_b_hh) = d_b_hh {
        d_b_hh[..2 * h].write_copy_of_slice(&sums[..2 * h]);
        d_b_hh[2 * h..].write_copy_of_slice(&sums[sums.len() - h..]);
    }
}
