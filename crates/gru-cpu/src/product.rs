//! Matrix products by the `gemm` crate, behind views whose bounds are checked once.

use crate::{
    kernel::{Walks, lanes::Lanes},
    settings,
};
use gemm::Parallelism;

/// Below this many multiply-adds a product runs on the calling thread: waking a second one costs
/// some microseconds, in which one AVX2 core does about a quarter of a million of them.
const PARALLEL_FROM: usize = 1 << 18;

/// A float type that the kernels run in: `f32` or `f64`.
pub trait Element: num_traits::Float + Default + Send + Sync + 'static + Lanes + Walks {}
impl Element for f32 {}
impl Element for f64 {}

/// A constant in the element type.
pub(crate) fn real<E: Element>(value: f64) -> E {
    E::from(value).expect("f64 converts to every float type")
}

/// A strided view of a matrix.
#[derive(Clone, Copy)]
pub(crate) struct Mat<'a, E> {
    data: &'a [E],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a, E> Mat<'a, E> {
    /// `rows × cols` of a row-major matrix whose rows lie `stride` apart.
    pub(crate) fn new(data: &'a [E], rows: usize, cols: usize, stride: usize) -> Self {
        check(data.len(), rows, cols, stride);
        Self {
            data,
            rows,
            cols,
            row_stride: stride,
            col_stride: 1,
        }
    }

    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }
}

/// A view that a product writes: `rows × cols`, rows `stride` apart.
pub(crate) struct MatMut<'a, E> {
    data: &'a mut [E],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a, E> MatMut<'a, E> {
    pub(crate) fn new(data: &'a mut [E], rows: usize, cols: usize, stride: usize) -> Self {
        check(data.len(), rows, cols, stride);
        Self {
            data,
            rows,
            cols,
            stride,
        }
    }
}

fn check(len: usize, rows: usize, cols: usize, stride: usize) {
    assert!(
        rows == 0 || cols == 0 || (cols <= stride && (rows - 1) * stride + cols <= len),
        "a {rows}x{cols} view with stride {stride} leaves a buffer of {len}"
    );
}

/// Whether a product overwrites its destination or adds to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Set,
    Add,
}

/// `dst = a·b` or `dst += a·b`.
pub(crate) fn product<E: Element>(dst: MatMut<'_, E>, write: Write, a: Mat<'_, E>, b: Mat<'_, E>) {
    let (m, n, k) = (dst.rows, dst.cols, a.cols);
    assert!(
        a.rows == m && b.rows == k && b.cols == n,
        "product of {}x{} and {}x{} into {m}x{n}",
        a.rows,
        a.cols,
        b.rows,
        b.cols
    );
    if k == 0 && write == Write::Set {
        for row in dst.data.chunks_mut(dst.stride.max(1)).take(m) {
            row[..n].fill(E::zero());
        }
    }
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    // `gemm` asks the processor what it is, which miri is not.
    if cfg!(miri) {
        return plain(dst, write, a, b);
    }
    let parallelism = match settings::threads() {
        threads if threads > 1 && m * n * k >= PARALLEL_FROM => Parallelism::Rayon(threads),
        _ => Parallelism::None,
    };
    // SAFETY: every view was checked to lie within its slice when it was made, the three sizes
    // agree, and `dst` is borrowed mutably, so it overlaps neither operand. `E` is f32 or f64,
    // which `gemm` accepts.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst.data.as_mut_ptr(),
            1,
            dst.stride as isize,
            write == Write::Add,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            E::one(),
            E::one(),
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// The definition.
fn plain<E: Element>(dst: MatMut<'_, E>, write: Write, a: Mat<'_, E>, b: Mat<'_, E>) {
    for i in 0..a.rows {
        for j in 0..b.cols {
            let at = |k: usize| {
                let a = a.data[i * a.row_stride + k * a.col_stride];
                a * b.data[k * b.row_stride + j * b.col_stride]
            };
            let sum = (0..a.cols).fold(E::zero(), |sum, k| sum + at(k));
            let to = &mut dst.data[i * dst.stride + j];
            *to = if write == Write::Add { *to + sum } else { sum };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_the_definition() {
        let data: Vec<f64> = (0..300).map(|k| f64::from(k * 37 % 101) - 50.0).collect();
        for (m, n, k) in [(3, 4, 5), (1, 7, 9), (10, 1, 6), (4, 4, 0)] {
            for write in [Write::Set, Write::Add] {
                let a = Mat::new(&data, k, m, 12).transposed();
                let b = Mat::new(&data[40..], k, n, 11);
                let (mut got, mut expected) = (vec![1.0; m * 9], vec![1.0; m * 9]);
                product(MatMut::new(&mut got, m, n, 9), write, a, b);
                plain(MatMut::new(&mut expected, m, n, 9), write, a, b);
                assert_eq!(got, expected, "{m}x{n}x{k}");
            }
        }
    }
}
