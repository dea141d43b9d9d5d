//! The product of encoded rows and a packed matrix, for every instruction set.

use super::{
    super::shape::{Addresses, MatrixShape, Multiplication, VECTORS},
    Dot,
};

/// All rows times all panels. A panel stays in the first-level cache while the rows read it. A single row reads two
/// panels at a time: a word of the row is broadcast once for both, and six sums hide the latency of an addition.
///
/// # Safety
/// The instruction set is available, and `operands` were checked for its number of lanes.
#[inline(always)]
pub(super) unsafe fn product<D: Dot>(dot: D, mut operands: Multiplication<'_>) {
    let (shape, count) = (operands.shape, operands.count);
    let mut panel = 0;
    while panel < shape.panels {
        if count == 1 && shape.panels - panel >= 2 {
            // SAFETY: by the check of the operands, these panels, this row and its results exist.
            unsafe { tile::<D, 1, 2, 4>(dot, &shape, operands.at(panel, 0)) };
            panel += 2;
            continue;
        }
        let mut row = 0;
        while row < count {
            let at = operands.at(panel, row);
            // SAFETY: by the check of the operands, this panel, these rows and their results exist.
            unsafe {
                row += match count - row {
                    4.. => tile::<D, 4, 1, 1>(dot, &shape, at),
                    2.. => tile::<D, 2, 1, 1>(dot, &shape, at),
                    _ => tile::<D, 1, 1, 1>(dot, &shape, at),
                };
            }
        }
        panel += 1;
    }
}

/// `R` rows times `P` panels, `W` words at a time. Returns `R`.
///
/// # Safety
/// The instruction set is available. `P` panels, `R` rows and their results exist from `tile` on.
#[inline(always)]
unsafe fn tile<D: Dot, const R: usize, const P: usize, const W: usize>(
    dot: D,
    shape: &MatrixShape,
    tile: Addresses,
) -> usize {
    let mut w = tile.weights;
    // The scale of the row and the first sums of its groups come first.
    let mut at = 1 + shape.groups;
    let row = |r: usize, at: usize| tile.row.wrapping_add(r * shape.row_words() + at);
    // SAFETY: the loops read `shape.words` words with their scales from each panel, and as many words with the
    // first sum of each group from each row. The caller promises that they exist.
    unsafe {
        let vector = |w: *const u32, p: usize, v: usize| {
            w.wrapping_add(p * shape.panel_words() + v * D::LANES)
        };
        let mut sums = [[[dot.floats(0.0); VECTORS]; P]; R];
        for group in 0..shape.groups {
            let words = shape
                .group_words
                .min(shape.words - group * shape.group_words);
            let mut ints = [[[dot.ints(0); VECTORS]; P]; R];
            for (r, ints) in ints.iter_mut().enumerate() {
                let of_row = dot.ints(row(r, 1 + group).read() as i32);
                for (p, ints) in ints.iter_mut().enumerate() {
                    for (v, first) in ints.iter_mut().enumerate() {
                        *first = if shape.has_first_sums {
                            dot.load(vector(w, p, v))
                        } else {
                            of_row
                        };
                    }
                }
            }
            if shape.has_first_sums {
                w = w.add(VECTORS * D::LANES);
            }
            let end = at + words;
            while at + W <= end {
                add_words::<D, R, P, W>(
                    dot,
                    (w, shape.panel_words()),
                    (row(0, at), shape.row_words()),
                    &mut ints,
                );
                w = w.add(W * VECTORS * D::LANES);
                at += W;
            }
            while at < end {
                add_words::<D, R, P, 1>(
                    dot,
                    (w, shape.panel_words()),
                    (row(0, at), shape.row_words()),
                    &mut ints,
                );
                w = w.add(VECTORS * D::LANES);
                at += 1;
            }
            for (sums, ints) in sums.iter_mut().zip(&ints) {
                for (p, (sums, ints)) in sums.iter_mut().zip(ints).enumerate() {
                    for (v, (sum, &all)) in sums.iter_mut().zip(ints).enumerate() {
                        *sum = dot.add_scaled(*sum, all, vector(w, p, v));
                    }
                }
            }
            w = w.add(VECTORS * D::LANES);
        }
        for (r, sums) in sums.iter().enumerate() {
            let scale = f32::from_bits(row(r, 0).read());
            for (p, sums) in sums.iter().enumerate() {
                for (v, &sum) in sums.iter().enumerate() {
                    let column = (p * VECTORS + v) * D::LANES;
                    dot.store(tile.to.add(r * tile.stride + column), sum, scale);
                }
            }
        }
    }
    R
}

/// Adds the products of `W` words of `R` rows and `P` panels. The panels and the rows are so many words apart.
///
/// # Safety
/// The instruction set is available. The words exist.
#[inline(always)]
unsafe fn add_words<D: Dot, const R: usize, const P: usize, const W: usize>(
    dot: D,
    (w, panel_words): (*const u32, usize),
    (x, row_words): (*const u32, usize),
    sums: &mut [[[D::Ints; VECTORS]; P]; R],
) {
    // SAFETY: the caller promises that these words exist.
    unsafe {
        for word in 0..W {
            let mut vectors = [[dot.ints(0); VECTORS]; P];
            for (p, vectors) in vectors.iter_mut().enumerate() {
                for (v, to) in vectors.iter_mut().enumerate() {
                    *to = dot.load(w.add(p * panel_words + (word * VECTORS + v) * D::LANES));
                }
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = dot.lhs(x.add(r * row_words + word).read());
                for (sums, vectors) in sums.iter_mut().zip(&vectors) {
                    for (sum, &w) in sums.iter_mut().zip(vectors) {
                        *sum = dot.dot(*sum, w, x);
                    }
                }
            }
        }
    }
}
