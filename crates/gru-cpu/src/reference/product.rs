//! Matrix products of the plain passes, behind views whose bounds are checked once.

use num_traits::Float;

/// A strided view of a matrix.
#[derive(Clone, Copy)]
pub(super) struct Mat<'a, E> {
    data: &'a [E],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a, E> Mat<'a, E> {
    /// `rows × cols` of a row-major matrix whose rows lie `stride` apart.
    pub(super) fn new(data: &'a [E], rows: usize, cols: usize, stride: usize) -> Self {
        check(data.len(), rows, cols, stride);
        Self {
            data,
            rows,
            cols,
            row_stride: stride,
            col_stride: 1,
        }
    }

    pub(super) fn transposed(self) -> Self {
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
pub(super) struct MatMut<'a, E> {
    data: &'a mut [E],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a, E> MatMut<'a, E> {
    pub(super) fn new(data: &'a mut [E], rows: usize, cols: usize, stride: usize) -> Self {
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
pub(super) enum Write {
    Set,
    Add,
}

/// `dst = a·b` or `dst += a·b`, by the definition.
pub(super) fn product<E: Float>(dst: MatMut<'_, E>, write: Write, a: Mat<'_, E>, b: Mat<'_, E>) {
    let (m, n, k) = (dst.rows, dst.cols, a.cols);
    assert!(
        a.rows == m && b.rows == k && b.cols == n,
        "product of {}x{} and {}x{} into {m}x{n}",
        a.rows,
        a.cols,
        b.rows,
        b.cols
    );
    if n == 0 {
        return;
    }
    for i in 0..m {
        let to = &mut dst.data[i * dst.stride..][..n];
        if write == Write::Set {
            to.fill(E::zero());
        }
        for k in 0..k {
            let a = a.data[i * a.row_stride + k * a.col_stride];
            let b = b.data[k * b.row_stride..].iter().step_by(b.col_stride);
            to.iter_mut().zip(b).for_each(|(to, &b)| *to = *to + a * b);
        }
    }
}
