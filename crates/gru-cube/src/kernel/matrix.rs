//! The recurrent product by matrix units (tensor cores, cooperative matrices). The planes of a cube
//! multiply the lhs in shared memory by the weight in global memory. Sums are float32.

use super::threads::{Product, Threads};
use cubecl::{
    cmma::{self, MatrixIdent, MatrixLayout},
    prelude::*,
};

/// The sums of a plane before the first block: `[(across·outputs + out)·down + v]`. Empty without matrix
/// units.
#[cube]
pub(crate) fn zero_matrices(
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Sequence<cmma::Matrix<f32>> {
    let count = comptime!(match threads.matrices {
        Some(_) => threads.across() * product.outputs * threads.down(),
        None => 0,
    });
    let mut sums = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..count {
        let of = comptime!(threads.matrices());
        sums.push(cmma::Matrix::<f32>::from_value(
            MatrixIdent::Accumulator,
            comptime!(of.m),
            comptime!(of.n),
            comptime!(of.k),
            MatrixLayout::Undefined,
            0.0,
        ));
    }
    sums
}

/// Adds one block to the sums of a plane: the terms from `k0` on of the columns from `j0` on.
#[cube]
pub(crate) fn accumulate_matrices<F: Float, M: Float>(
    sums: &Sequence<cmma::Matrix<f32>>,
    lhs: &Shared<[M]>,
    rhs: &[F],
    k0: usize,
    j0: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) {
    let of = comptime!(threads.matrices());
    let (down, outputs) = comptime!((threads.down(), product.outputs));
    let (plane, split) = place(threads);
    let k_per_split = comptime!(product.k_per_split(&threads));
    let stride = comptime!(product.lhs_stride(&threads));
    for block in 0..comptime!(k_per_split / of.k) {
        let in_block = split * k_per_split + block * comptime!(of.k);
        let term = k0 + in_block;
        // K is a multiple of the matrix.
        if term < comptime!(product.k) {
            let mut rows = Sequence::<cmma::Matrix<M>>::new();
            #[unroll]
            for v in 0..down {
                let from = comptime!(v * of.m * stride) + in_block;
                rows.push(cmma::Matrix::<M>::from_slice(
                    MatrixIdent::A,
                    comptime!(of.m),
                    comptime!(of.n),
                    comptime!(of.k),
                    MatrixLayout::RowMajor,
                    &lhs[from..comptime!(product.lhs_len(&threads))],
                    comptime!(stride as u32),
                ));
            }
            #[unroll]
            for c in 0..comptime!(threads.across()) {
                let column = (plane + comptime!(c * threads.planes())) * comptime!(of.n);
                // Columns beyond the last one repeat it. Their results are not used.
                let j = min(j0 + column, comptime!(product.columns - of.n));
                #[unroll]
                for out in 0..outputs {
                    let at = comptime!(product.base + out * product.out_stride)
                        + term * comptime!(product.k_stride)
                        + j;
                    // SAFETY: the next line loads it.
                    let mut weight = unsafe {
                        cmma::Matrix::<M>::uninitialized(
                            MatrixIdent::B,
                            comptime!(of.m),
                            comptime!(of.n),
                            comptime!(of.k),
                            MatrixLayout::RowMajor,
                        )
                    };
                    cmma::load(
                        &mut weight,
                        &rhs[at..rhs.len()],
                        comptime!(product.k_stride as u32),
                    );
                    #[unroll]
                    for v in 0..down {
                        let sum = sums.index(comptime!((c * outputs + out) * down + v));
                        cmma::execute(rows.index(v), &weight, sum, sum);
                    }
                }
            }
        }
    }
}

/// Stores the sums of a plane: `[(split·outputs + out)·rows·columns + row·columns + column]`.
#[cube]
pub(crate) fn store_matrices(
    sums: &Sequence<cmma::Matrix<f32>>,
    partial: &mut Shared<[f32]>,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) {
    let of = comptime!(threads.matrices());
    let (down, outputs) = comptime!((threads.down(), product.outputs));
    let (plane, split) = place(threads);
    #[unroll]
    for c in 0..comptime!(threads.across()) {
        let column = (plane + comptime!(c * threads.planes())) * comptime!(of.n);
        #[unroll]
        for out in 0..outputs {
            #[unroll]
            for v in 0..down {
                let of_rows =
                    (split * outputs + out) * comptime!(threads.rows) + comptime!(v * of.m);
                let at = of_rows * comptime!(threads.columns) + column;
                cmma::store(
                    &mut partial[at..comptime!(
                        threads.k_splits * outputs * threads.rows * threads.columns
                    )],
                    sums.index(comptime!((c * outputs + out) * down + v)),
                    comptime!(threads.columns as u32),
                    MatrixLayout::RowMajor,
                );
            }
        }
    }
}

/// The plane of a unit within its k-split, and the k-split. A plane is consecutive units, as in Burn's own products by
/// matrix units. With `PLANE_POS`, CubeCL 0.11.3 would make SPIR-V that is not valid.
#[cube]
fn place(#[comptime] threads: Threads) -> (usize, usize) {
    let plane = UNIT_POS as usize / comptime!(threads.matrices().plane);
    (
        plane % comptime!(threads.planes()),
        plane / comptime!(threads.planes()),
    )
}
