//! Matrix products by the `gemm` crate, behind views whose bounds are checked once.

use gemm::Parallelism;

/// Below this many multiply-adds a product runs on the calling thread: waking a second one costs
/// some microseconds, in which one AVX2 core does about a quarter of a million of them.
const PARALLEL_FROM: usize = 1 << 18;

/// A float type that the kernels run in: `f32` or `f64`.
pub trait Element: num_traits::Float + Send + Sync + 'static + sealed::Kernels {}
impl Element for f32 {}
impl Element for f64 {}

pub(crate) mod sealed {
    use crate::{
        dims::{Dims, Inputs},
        kernel,
        spec::GruSpec,
    };

    /// The walks that have a kernel for this type. Each says whether it ran.
    #[allow(clippy::too_many_arguments)] // The buffers of one pass, each of its own shape.
    pub trait Kernels: Sized {
        #[doc(hidden)]
        fn walk(
            _: &Dims,
            _: &GruSpec,
            _: &Inputs<'_, Self>,
            _gates: &mut [Self],
            _width: usize,
            _states: &mut [Self],
        ) -> bool {
            false
        }

        #[doc(hidden)]
        fn walk_back(
            _: &Dims,
            _: &GruSpec,
            _: &Inputs<'_, Self>,
            _states: &[Self],
            _saved: &mut [Self],
            _d_states: &[Self],
            _dh: &mut [Self],
        ) -> bool {
            false
        }
    }

    impl Kernels for f64 {}

    impl Kernels for f32 {
        fn walk(
            dims: &Dims,
            spec: &GruSpec,
            inputs: &Inputs<'_, f32>,
            gates: &mut [f32],
            width: usize,
            states: &mut [f32],
        ) -> bool {
            let common = kernel::is_common(dims, spec, inputs);
            if common {
                kernel::walk(dims, spec, inputs, gates, width, states);
            }
            common
        }

        fn walk_back(
            dims: &Dims,
            spec: &GruSpec,
            inputs: &Inputs<'_, f32>,
            states: &[f32],
            saved: &mut [f32],
            d_states: &[f32],
            dh: &mut [f32],
        ) -> bool {
            let common = kernel::is_common(dims, spec, inputs);
            if common {
                kernel::walk_back(dims, spec, inputs, states, saved, d_states, dh);
            }
            common
        }
    }
}

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
    let parallelism = if m * n * k < PARALLEL_FROM || rayon::current_num_threads() == 1 {
        Parallelism::None
    } else {
        Parallelism::Rayon(0)
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
