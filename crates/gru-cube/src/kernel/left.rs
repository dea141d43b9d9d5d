//! The left side of a step's product on its way from global to shared memory, a stage at a time: a unit fetches
//! its numbers of the next stage, or of the next tile of rows, before it multiplies the one that is there, so
//! that the product hides the way.

use super::team::{ALIGNMENT, Product, Team};
use cubecl::prelude::*;

impl Product {
    /// Numbers of a stage that a unit fetches.
    pub(crate) fn fetched(&self, team: &Team) -> usize {
        let stage = self.padded_stage(team);
        match team.matrices {
            Some(_) => (team.rows * stage).div_ceil(team.units()),
            None => team.rows * stage.div_ceil(team.units()),
        }
    }
}

/// A stage of the left side in vectors of rows, `[k·vectors + v]`; none for matrix units.
#[cube]
pub(crate) fn shared_vectors<R: Size>(
    #[comptime] len: usize,
) -> ComptimeOption<Shared<[Vector<f32, R>]>> {
    if comptime!(len > 0) {
        ComptimeOption::new_Some(Shared::<[Vector<f32, R>]>::new_slice(len))
    } else {
        ComptimeOption::new_None()
    }
}

/// A stage of the left side row after row, for matrix units; none without them.
#[cube]
pub(crate) fn shared_rows<M: Float>(#[comptime] len: usize) -> ComptimeOption<Shared<[M]>> {
    if comptime!(len > 0) {
        ComptimeOption::new_Some(Shared::<[M]>::new_aligned_slice(len, ALIGNMENT))
    } else {
        ComptimeOption::new_None()
    }
}

/// Partial sums, to which matrix units may write.
#[cube]
pub(crate) fn shared_partial(#[comptime] len: usize, #[comptime] team: Team) -> Shared<[f32]> {
    if comptime!(team.matrices.is_some()) {
        Shared::<[f32]>::new_aligned_slice(len, ALIGNMENT)
    } else {
        Shared::<[f32]>::new_slice(len)
    }
}

/// Row of the tile and term of the stage of the number that a unit fetches as `i`. Rows past the tile's and
/// terms past the stage are nobody's.
///
/// Matrix units want the terms of a row side by side, lanes the rows of a term.
#[cube]
pub(crate) fn fetched_place(
    #[comptime] i: usize,
    #[comptime] product: Product,
    #[comptime] team: Team,
) -> (usize, usize) {
    if comptime!(team.matrices.is_some()) {
        let stage = comptime!(product.padded_stage(&team));
        let item = UNIT_POS as usize + comptime!(i * team.units());
        (item / stage, item % stage)
    } else {
        let turn = comptime!(i / team.rows * team.units());
        (comptime!(i % team.rows).runtime(), UNIT_POS as usize + turn)
    }
}

/// Term and first row of what comes after the stage from `k0` on of the tile from `row0` on: the next stage, or
/// the first one of the next tile.
#[cube]
pub(crate) fn next_stage(
    k0: usize,
    row0: usize,
    next_row0: usize,
    #[comptime] product: Product,
    #[comptime] team: Team,
) -> (usize, usize) {
    let next = k0 + comptime!(product.padded_stage(&team));
    let is_there = next < comptime!(product.depth);
    (
        select(is_there, next, 0usize),
        select(is_there, row0, next_row0),
    )
}

/// Puts what was fetched into shared memory: in vectors of rows, `left[k·vectors + v]`, or for matrix units
/// row after row.
#[cube]
pub(crate) fn put<M: Float, R: Size>(
    fetched: &Array<f32>,
    left: &mut ComptimeOption<Shared<[Vector<f32, R>]>>,
    left_rows: &mut ComptimeOption<Shared<[M]>>,
    #[comptime] product: Product,
    #[comptime] team: Team,
) {
    let stage = comptime!(product.padded_stage(&team));
    #[comptime]
    if let ComptimeOption::Some(left_rows) = left_rows.as_mut() {
        #[unroll]
        for i in 0..comptime!(product.fetched(&team)) {
            let (row, k) = fetched_place(i, product, team);
            if row < comptime!(team.rows) {
                left_rows[row * comptime!(product.left_stride(&team)) + k] =
                    M::cast_from(fetched[i]);
            }
        }
    }
    #[comptime]
    if let ComptimeOption::Some(left) = left.as_mut() {
        let (width, vectors) = comptime!((team.width, team.vectors()));
        #[unroll]
        for i in 0..comptime!(product.fetched(&team) / width) {
            let (_, k) = fetched_place(comptime!(i * width), product, team);
            if k < stage {
                let mut rows = Vector::<f32, R>::new(0.0);
                #[unroll]
                for w in 0..width {
                    rows.insert(w, fetched[comptime!(i * width + w)]);
                }
                left[k * vectors + comptime!(i % vectors)] = rows;
            }
        }
    }
}
