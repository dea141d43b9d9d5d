//! The recurrent product by matrix units (tensor cores, cooperative matrices): the planes of a cube
//! multiply a left side in shared memory by the weight in global memory, sums in float32.

use super::team::{Product, Team};
use cubecl::{
    cmma::{self, MatrixIdent, MatrixLayout},
    prelude::*,
};

/// The sums of a plane before the first stage: `[(across·outs + out)·down + v]`.
#[cube]
pub(crate) fn zero_matrices(
    #[comptime] product: Product,
    #[comptime] team: Team,
) -> Sequence<cmma::Matrix<f32>> {
    let of = comptime!(team.matrices());
    let mut sums = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..comptime!(team.across() * product.outs * team.down()) {
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

/// Adds one stage to the sums of a plane: terms `k0..k0 + stage` of columns from `j0` on. The left side
/// has its rows along memory.
#[cube]
pub(crate) fn accumulate_matrices<F: Float, M: Float>(
    sums: &Sequence<cmma::Matrix<f32>>,
    left: &Shared<[M]>,
    right: &[F],
    k0: usize,
    j0: usize,
    #[comptime] product: Product,
    #[comptime] team: Team,
) {
    let of = comptime!(team.matrices());
    let (down, outs) = comptime!((team.down(), product.outs));
    let (plane, split) = place(team);
    let chunk = comptime!(product.chunk(&team));
    let stride = comptime!(product.left_stride(&team));
    for block in 0..comptime!(chunk / of.k) {
        let in_stage = split * chunk + block * comptime!(of.k);
        let term = k0 + in_stage;
        // The depth is of whole matrices.
        if term < comptime!(product.depth) {
            let mut rows = Sequence::<cmma::Matrix<M>>::new();
            #[unroll]
            for v in 0..down {
                let from = comptime!(v * of.m * stride) + in_stage;
                rows.push(cmma::Matrix::<M>::from_slice(
                    MatrixIdent::A,
                    comptime!(of.m),
                    comptime!(of.n),
                    comptime!(of.k),
                    MatrixLayout::RowMajor,
                    &left[from..comptime!(product.left_numbers(&team))],
                    comptime!(stride as u32),
                ));
            }
            #[unroll]
            for c in 0..comptime!(team.across()) {
                let column = (plane + comptime!(c * team.planes())) * comptime!(of.n);
                // Beyond the last column it is made again, and nobody reads it.
                let j = min(j0 + column, comptime!(product.columns - of.n));
                #[unroll]
                for out in 0..outs {
                    let at = comptime!(product.base + out * product.per_out)
                        + term * comptime!(product.per_k)
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
                        &right[at..right.len()],
                        comptime!(product.per_k as u32),
                    );
                    #[unroll]
                    for v in 0..down {
                        let sum = sums.index(comptime!((c * outs + out) * down + v));
                        cmma::execute(rows.index(v), &weight, sum, sum);
                    }
                }
            }
        }
    }
}

/// Hands a plane's sums on: `[(split·outs + out)·rows·columns + row·columns + column]`.
#[cube]
pub(crate) fn store_matrices(
    sums: &Sequence<cmma::Matrix<f32>>,
    partial: &mut Shared<[f32]>,
    #[comptime] product: Product,
    #[comptime] team: Team,
) {
    let of = comptime!(team.matrices());
    let (down, outs) = comptime!((team.down(), product.outs));
    let (plane, split) = place(team);
    #[unroll]
    for c in 0..comptime!(team.across()) {
        let column = (plane + comptime!(c * team.planes())) * comptime!(of.n);
        #[unroll]
        for out in 0..outs {
            #[unroll]
            for v in 0..down {
                let of_rows = (split * outs + out) * comptime!(team.rows) + comptime!(v * of.m);
                let at = of_rows * comptime!(team.columns) + column;
                cmma::store(
                    &mut partial[at..comptime!(team.splits * outs * team.rows * team.columns)],
                    sums.index(comptime!((c * outs + out) * down + v)),
                    comptime!(team.columns as u32),
                    MatrixLayout::RowMajor,
                );
            }
        }
    }
}

/// A unit's plane, within its split, and the split.
#[cube]
fn place(#[comptime] team: Team) -> (usize, usize) {
    let plane = PLANE_POS as usize;
    (
        plane % comptime!(team.planes()),
        plane / comptime!(team.planes()),
    )
}
