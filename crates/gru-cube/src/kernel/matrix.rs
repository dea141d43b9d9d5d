//! The recurrent product by matrix units (tensor cores, cooperative matrices). The planes of a cube
//! multiply the lhs in shared memory by the weight in registers or in global memory. Sums are float32.

use super::{
    product::Block,
    threads::{Product, Threads},
};
use cubecl::{
    cmma::{self, MatrixIdent, MatrixLayout},
    prelude::*,
};

/// The sums of a plane before the first block: `[(across·outputs + out)·down + v]`. Empty without matrix
/// threads.
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

/// A plane's part of the weight for the columns from `j0` on, if it is resident: for each block
/// `[(i·across + c)·outputs + out]`, where `i` counts matrices along K.
#[cube]
pub(crate) fn load_matrices<F: Float, M: Float>(
    rhs: &[F],
    j0: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Sequence<Sequence<cmma::Matrix<M>>> {
    let mut weight = Sequence::<Sequence<cmma::Matrix<M>>>::new();
    let blocks = comptime!(match threads.matrices {
        Some(_) if product.resident => product.blocks(&threads),
        _ => 0,
    });
    #[unroll]
    for block in 0..blocks {
        let of = comptime!(threads.matrices());
        let (_, split) = place(threads);
        let k_per_split = comptime!(product.k_per_split(&threads));
        let first = comptime!(block * product.padded_block(&threads)) + split * k_per_split;
        let mut of_block = Sequence::<cmma::Matrix<M>>::new();
        #[unroll]
        for i in 0..comptime!(k_per_split / of.k) {
            // The terms from K on are not multiplied.
            let term = min(first + comptime!(i * of.k), comptime!(product.k - of.k));
            #[unroll]
            for c in 0..comptime!(threads.across()) {
                #[unroll]
                for out in 0..comptime!(product.outputs) {
                    of_block.push(load_matrix::<F, M>(rhs, term, j0, c, out, product, threads));
                }
            }
        }
        weight.push(of_block);
    }
    weight
}

/// The weight of the terms from `term` on for column `c` of a plane.
#[cube]
fn load_matrix<F: Float, M: Float>(
    rhs: &[F],
    term: usize,
    j0: usize,
    #[comptime] c: usize,
    #[comptime] out: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> cmma::Matrix<M> {
    let of = comptime!(threads.matrices());
    let (plane, _) = place(threads);
    let column = (plane + comptime!(c * threads.planes())) * comptime!(of.n);
    // Columns beyond the last one repeat it. Their results are not used.
    let j = min(j0 + column, comptime!(product.columns - of.n));
    let at =
        comptime!(product.base + out * product.out_stride) + term * comptime!(product.k_stride) + j;
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
    weight
}

/// Adds block `index`, if the weight is resident, or else the terms from `k0` on, to the sums of a plane.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn accumulate_matrices<F: Float, M: Float>(
    sums: &Sequence<cmma::Matrix<f32>>,
    lhs: &Shared<[M]>,
    rhs: &[F],
    weight: &Sequence<Sequence<cmma::Matrix<M>>>,
    block: Block,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) {
    let of = comptime!(threads.matrices());
    let (_, split) = place(threads);
    let k_per_split = comptime!(product.k_per_split(&threads));
    let outputs = comptime!(product.outputs);
    if comptime!(product.resident) {
        let weight = weight.index(block.index);
        #[unroll]
        for i in 0..comptime!(k_per_split / of.k) {
            let in_block = split * k_per_split + comptime!(i * of.k);
            // K is a multiple of the matrix.
            if block.k0 + in_block < comptime!(product.k) {
                let rows = load_rows::<M>(lhs, in_block, product, threads);
                #[unroll]
                for c in 0..comptime!(threads.across()) {
                    #[unroll]
                    for out in 0..outputs {
                        let of_weight =
                            weight.index(comptime!((i * threads.across() + c) * outputs + out));
                        execute_rows::<M>(&rows, of_weight, sums, c, out, product, threads);
                    }
                }
            }
        }
    } else {
        for i in 0..comptime!(k_per_split / of.k) {
            let in_block = split * k_per_split + i * comptime!(of.k);
            let term = block.k0 + in_block;
            if term < comptime!(product.k) {
                let rows = load_rows::<M>(lhs, in_block, product, threads);
                #[unroll]
                for c in 0..comptime!(threads.across()) {
                    #[unroll]
                    for out in 0..outputs {
                        let of_weight =
                            load_matrix::<F, M>(rhs, term, block.j0, c, out, product, threads);
                        execute_rows::<M>(&rows, &of_weight, sums, c, out, product, threads);
                    }
                }
            }
        }
    }
}

/// The lhs of all rows of a tile, from this term of the block on.
#[cube]
fn load_rows<M: Float>(
    lhs: &Shared<[M]>,
    in_block: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) -> Sequence<cmma::Matrix<M>> {
    let of = comptime!(threads.matrices());
    let stride = comptime!(product.lhs_stride(&threads));
    let mut rows = Sequence::<cmma::Matrix<M>>::new();
    #[unroll]
    for v in 0..comptime!(threads.down()) {
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
    rows
}

/// Adds the product of all rows of a tile and one matrix of the weight.
#[cube]
fn execute_rows<M: Float>(
    rows: &Sequence<cmma::Matrix<M>>,
    weight: &cmma::Matrix<M>,
    sums: &Sequence<cmma::Matrix<f32>>,
    #[comptime] c: usize,
    #[comptime] out: usize,
    #[comptime] product: Product,
    #[comptime] threads: Threads,
) {
    let down = comptime!(threads.down());
    #[unroll]
    for v in 0..down {
        let sum = sums.index(comptime!((c * product.outputs + out) * down + v));
        cmma::execute(rows.index(v), weight, sum, sum);
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

/// The plane of a thread within its k-split, and the k-split. A plane is consecutive threads, as in Burn's own products by
/// matrix units. With `PLANE_POS`, CubeCL 0.11.3 would make SPIR-V that is not valid.
#[cube]
fn place(#[comptime] threads: Threads) -> (usize, usize) {
    let plane = UNIT_POS as usize / comptime!(threads.matrices().plane);
    (
        plane % comptime!(threads.planes()),
        plane / comptime!(threads.planes()),
    )
}
