//! The recurrent product inside a cube: a few rows on the left in shared memory, the weight on
//! the right in registers or in global memory.

use super::team::{Product, Team};
use cubecl::prelude::*;

/// Loads a unit's part of the weight, of columns from `j0` on, into registers, if it is to stay
/// there: `[((stage·per_lane + c)·chunk + i)·outs + out]`.
#[cube]
pub(crate) fn load_weight<F: Float>(
    right: &[F],
    j0: usize,
    #[comptime] product: Product,
    #[comptime] team: Team,
) -> Array<f32> {
    let chunk = comptime!(product.chunk(&team));
    let mut registers = Array::<f32>::new(comptime!(product.registers(&team)));
    if comptime!(product.resident) {
        let (lane, start) = (lane(team), split(team) * chunk);
        #[unroll]
        for stage in 0..comptime!(product.stages(&team)) {
            #[unroll]
            for c in 0..comptime!(team.per_lane()) {
                let j = min(
                    j0 + lane + c * comptime!(team.lanes),
                    comptime!(product.columns - 1),
                );
                #[unroll]
                for i in 0..chunk {
                    let term = start + comptime!(stage * product.padded_stage(&team) + i);
                    let k = min(term, comptime!(product.depth - 1));
                    #[unroll]
                    for out in 0..comptime!(product.outs) {
                        let at = comptime!(product.base + out * product.per_out)
                            + k * comptime!(product.per_k)
                            + j * comptime!(product.per_j);
                        let to = comptime!((stage * team.per_lane() + c) * chunk + i);
                        registers[comptime!(to * product.outs + out)] =
                            within_depth(f32::cast_from(right[at]), term, product, team);
                    }
                }
            }
        }
    }
    registers
}

#[cube]
pub(crate) fn lane(#[comptime] team: Team) -> usize {
    UNIT_POS as usize % comptime!(team.lanes)
}

#[cube]
pub(crate) fn split(#[comptime] team: Team) -> usize {
    UNIT_POS as usize / comptime!(team.lanes)
}

/// The weight of a term, or 0 for a term past `depth`: its left side is 0, but 0 times the infinity
/// of another term would be NaN.
#[cube]
fn within_depth(
    weight: f32,
    term: usize,
    #[comptime] product: Product,
    #[comptime] team: Team,
) -> f32 {
    if comptime!(product.is_padded(&team)) {
        select(term < comptime!(product.depth), weight, 0.0f32)
    } else {
        weight
    }
}

/// A product whose left side is in shared memory as a whole:
/// `sums[(owned·outs + out)·vectors + v]` for the columns a unit owns.
///
/// `left[from + k·vectors + v]` must be visible to the whole cube. With several splits there
/// is a barrier inside, after which nobody reads `left` any more; `partial` may be written again
/// after the next barrier.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn multiply<F: Float, R: Size>(
    left: &Shared<[Vector<f32, R>]>,
    from: usize,
    right: &[F],
    registers: &Array<f32>,
    partial: &mut Shared<[Vector<f32, R>]>,
    #[comptime] product: Product,
    #[comptime] team: Team,
) -> Array<Vector<f32, R>> {
    let mut sums = zero_sums::<R>(product, team);
    let zero = 0usize.runtime();
    accumulate::<F, R>(
        &mut sums, left, from, right, registers, zero, zero, 0usize, product, team,
    );
    reduce::<R>(sums, partial, product, team)
}

/// The sums of a unit's lane, before the first stage: `[(c·outs + out)·vectors + v]`.
#[cube]
pub(crate) fn zero_sums<R: Size>(
    #[comptime] product: Product,
    #[comptime] team: Team,
) -> Array<Vector<f32, R>> {
    let len = comptime!(team.per_lane() * product.outs * team.vectors());
    let mut sums = Array::<Vector<f32, R>>::new(len);
    #[unroll]
    for i in 0..len {
        sums[i] = Vector::new(0.0);
    }
    sums
}

/// Adds one stage to the sums of a unit's lane: terms `k0..k0 + stage` of columns from `j0` on.
/// `stage` says which, for a weight in registers.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn accumulate<F: Float, R: Size>(
    sums: &mut Array<Vector<f32, R>>,
    left: &Shared<[Vector<f32, R>]>,
    from: usize,
    right: &[F],
    registers: &Array<f32>,
    k0: usize,
    j0: usize,
    #[comptime] stage: usize,
    #[comptime] product: Product,
    #[comptime] team: Team,
) {
    let vectors = comptime!(team.vectors());
    let (outs, per_lane) = comptime!((product.outs, team.per_lane()));
    let chunk = comptime!(product.chunk(&team));
    let lane = lane(team);
    let start = split(team) * chunk;
    if comptime!(product.resident) {
        #[unroll]
        for i in 0..chunk {
            #[unroll]
            for v in 0..vectors {
                let l = left[from + (start + i) * vectors + v];
                #[unroll]
                for c in 0..per_lane {
                    #[unroll]
                    for out in 0..outs {
                        let term = comptime!((stage * per_lane + c) * chunk + i);
                        let w = registers[comptime!(term * outs + out)];
                        let at = comptime!((c * outs + out) * vectors + v);
                        sums[at] = fma(l, Vector::new(w), sums[at]);
                    }
                }
            }
        }
    } else {
        let unroll = comptime!(product.unroll(&team));
        for block in 0..comptime!(chunk / unroll) {
            #[unroll]
            for i in 0..unroll {
                let in_stage = start + block * unroll + i;
                let k = if comptime!(product.is_padded(&team)) {
                    min(k0 + in_stage, comptime!(product.depth - 1))
                } else {
                    k0 + in_stage
                };
                let mut w = Array::<f32>::new(comptime!(per_lane * outs));
                #[unroll]
                for c in 0..per_lane {
                    let j = min(
                        j0 + lane + c * comptime!(team.lanes),
                        comptime!(product.columns - 1),
                    );
                    let row = k * comptime!(product.per_k) + j * comptime!(product.per_j);
                    #[unroll]
                    for out in 0..outs {
                        let at = comptime!(product.base + out * product.per_out) + row;
                        w[comptime!(c * outs + out)] =
                            within_depth(f32::cast_from(right[at]), k0 + in_stage, product, team);
                    }
                }
                #[unroll]
                for v in 0..vectors {
                    let l = left[from + in_stage * vectors + v];
                    #[unroll]
                    for out in 0..comptime!(per_lane * outs) {
                        let at = comptime!(out * vectors + v);
                        sums[at] = fma(l, Vector::new(w[out]), sums[at]);
                    }
                }
            }
        }
    }
}

/// Adds up the splits' parts: from the sums of a unit's lane to those of the columns it owns.
///
/// With several splits there is one barrier inside.
#[cube]
pub(crate) fn reduce<R: Size>(
    sums: Array<Vector<f32, R>>,
    partial: &mut Shared<[Vector<f32, R>]>,
    #[comptime] product: Product,
    #[comptime] team: Team,
) -> Array<Vector<f32, R>> {
    if comptime!(team.splits == 1) {
        sums
    } else {
        let per_column = comptime!(product.outs * team.vectors());
        let stride = comptime!(team.per_lane() * team.lanes);
        let (lane, split) = (lane(team), split(team));
        #[unroll]
        for c in 0..comptime!(team.per_lane()) {
            let j = lane + c * comptime!(team.lanes);
            #[unroll]
            for i in 0..per_column {
                partial[(split * per_column + i) * stride + j] =
                    sums[comptime!(c * per_column + i)];
            }
        }
        sync_cube();
        let unit = UNIT_POS as usize;
        let mut owned = Array::<Vector<f32, R>>::new(comptime!(team.owned() * per_column));
        #[unroll]
        for c in 0..comptime!(team.owned()) {
            let j = min(unit + c * comptime!(team.units()), comptime!(stride - 1));
            #[unroll]
            for i in 0..per_column {
                let mut sum = partial[i * stride + j];
                #[unroll]
                for s in 1..comptime!(team.splits) {
                    sum += partial[(s * per_column + i) * stride + j];
                }
                owned[comptime!(c * per_column + i)] = sum;
            }
        }
        owned
    }
}

/// Row and column in the tile of pair `i` of a unit. Rows past the tile's are nobody's.
///
/// Where units do not finish their own sums, pairs are dealt out to all of them, neighbours to neighbours,
/// because few columns would keep few units at work.
#[cube]
pub(crate) fn pair(#[comptime] i: usize, #[comptime] team: Team) -> (usize, usize) {
    let unit = UNIT_POS as usize;
    if comptime!(team.finishes_its_sums()) {
        let row = comptime!(i % team.rows).runtime();
        (row, unit + comptime!(i / team.rows * team.lanes))
    } else {
        let item = unit + comptime!(i * team.units());
        (
            item / comptime!(team.columns),
            item % comptime!(team.columns),
        )
    }
}

/// Adds up the splits' parts: from the sums of a unit's lane to `[i·outs + out]` of its pairs.
///
/// With several splits there is one barrier inside; `partial` may be written again after the next.
#[cube]
pub(crate) fn reduce_to_pairs<R: Size>(
    sums: &Array<Vector<f32, R>>,
    partial: &mut Shared<[f32]>,
    #[comptime] product: Product,
    #[comptime] team: Team,
) -> Array<f32> {
    let (rows, width, vectors) = comptime!((team.rows, team.width, team.vectors()));
    let outs = comptime!(product.outs);
    if comptime!(team.finishes_its_sums()) {
        let mut results = Array::<f32>::new(comptime!(team.pairs() * outs));
        #[unroll]
        for i in 0..comptime!(team.pairs()) {
            let (c, v, w) = comptime!((i / rows, i % rows / width, i % rows % width));
            #[unroll]
            for out in 0..outs {
                let at = comptime!((c * outs + out) * vectors + v);
                results[comptime!(i * outs + out)] = sums[at].extract(w);
            }
        }
        results
    } else {
        let (lane, split) = (lane(team), split(team));
        #[unroll]
        for c in 0..comptime!(team.per_lane()) {
            #[unroll]
            for out in 0..outs {
                #[unroll]
                for b in 0..rows {
                    let column = lane + c * comptime!(team.lanes);
                    let row = (split * outs + out) * rows + b;
                    let sum = sums[comptime!((c * outs + out) * vectors + b / width)];
                    partial[row * comptime!(team.columns) + column] =
                        sum.extract(comptime!(b % width));
                }
            }
        }
        sync_cube();
        pairs_of_partials(partial, product, team)
    }
}

/// `[i·outs + out]` of a unit's pairs, from the parts of all splits:
/// `[(split·outs + out)·rows·columns + row·columns + column]`.
///
/// Where there are several units to a pair, they first add up the parts of some splits each; then there is one
/// barrier inside.
#[cube]
pub(crate) fn pairs_of_partials(
    partial: &mut Shared<[f32]>,
    #[comptime] product: Product,
    #[comptime] team: Team,
) -> Array<f32> {
    let (outs, per_out) = comptime!((product.outs, team.rows * team.columns));
    let helpers = comptime!(team.sums_per_pair());
    if comptime!(helpers < team.splits) {
        let (helper, item) = (UNIT_POS as usize / per_out, UNIT_POS as usize % per_out);
        if helper < helpers {
            // A helper writes to no place that another one reads.
            #[unroll]
            for out in 0..outs {
                let to = (helper * outs + out) * per_out + item;
                let mut sum = partial[to];
                #[unroll]
                for turn in 1..comptime!(team.splits / helpers) {
                    let split = helper + comptime!(turn * helpers);
                    sum += partial[(split * outs + out) * per_out + item];
                }
                if comptime!(!team.splits.is_multiple_of(helpers)) {
                    let split = helper + comptime!(team.splits / helpers * helpers);
                    if split < comptime!(team.splits) {
                        sum += partial[(split * outs + out) * per_out + item];
                    }
                }
                partial[to] = sum;
            }
        }
        sync_cube();
    }
    let mut results = Array::<f32>::new(comptime!(team.pairs() * outs));
    #[unroll]
    for i in 0..comptime!(team.pairs()) {
        let item = UNIT_POS as usize + comptime!(i * team.units());
        let item = min(item, comptime!(per_out - 1));
        #[unroll]
        for out in 0..outs {
            results[comptime!(i * outs + out)] = partial[out * per_out + item];
        }
        // Not unrolled: a compiler would load everything first, and drive the weight from its
        // registers.
        for s in 1..comptime!(helpers as u32) {
            #[unroll]
            for out in 0..outs {
                let at = (s as usize * outs + out) * per_out + item;
                results[comptime!(i * outs + out)] += partial[at];
            }
        }
    }
    results
}
