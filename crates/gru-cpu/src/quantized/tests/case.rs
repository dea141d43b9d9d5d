//! Matrices of different sizes, and the definition of their products.

use crate::quantized::matrix::{Columns, Matrix};

/// Numbers in (−1, 1) with a normal-like distribution.
pub fn noise(len: usize, mut seed: u64) -> Vec<f32> {
    let mut next = || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| (next() + next() + next()) / 3.0).collect()
}

/// A matrix `[K, columns]` within a wider one, and rows `[rows, K]`.
pub struct Case {
    pub k: usize,
    pub columns: usize,
    pub rows: usize,
    pub wide: Vec<f32>,
    pub x: Vec<f32>,
}

/// Columns before and after the matrix in the wider one.
pub const BEFORE: usize = 2;

pub const AFTER: usize = 1;

impl Case {
    pub fn new((k, columns, rows): (usize, usize, usize)) -> Self {
        let seed = (k * 31 + columns) as u64;
        let stride = BEFORE + columns + AFTER;
        let mut wide = noise(k * stride, seed);
        // Groups and columns of different sizes.
        for (at, w) in wide.iter_mut().enumerate() {
            *w *= [1.0, 0.01, 30.0][at / 64 % 3];
        }
        let mut x = noise(rows * k, seed + 1);
        for (row, x) in x.chunks_exact_mut(k).enumerate() {
            let scale = [1.0, 100.0, 1e-3][row % 3];
            x.iter_mut().for_each(|x| *x *= scale);
        }
        Self {
            k,
            columns,
            rows,
            wide,
            x,
        }
    }

    pub fn from(&self) -> Columns<'_> {
        Columns {
            elements: &self.wide,
            stride: BEFORE + self.columns + AFTER,
            first: BEFORE,
            count: self.columns,
            k: self.k,
        }
    }

    pub fn w(&self, k: usize, column: usize) -> f32 {
        self.wide[k * (BEFORE + self.columns + AFTER) + BEFORE + column]
    }

    pub fn row(&self, row: usize) -> &[f32] {
        &self.x[row * self.k..][..self.k]
    }

    /// The products of a packed matrix, `[rows, columns]`.
    pub fn products(&self, matrix: &Matrix) -> Vec<f32> {
        let words = matrix.row_words();
        // Old contents of the memory have no effect.
        let mut encoded = vec![u32::MAX; self.rows * words];
        for (row, to) in encoded.chunks_exact_mut(words).enumerate() {
            matrix.encode(self.row(row), to);
        }
        let width = matrix.columns();
        let mut products = vec![f32::NAN; self.rows * width];
        matrix.product(&encoded, &mut products);
        let rows = products.chunks_exact(width);
        rows.flat_map(|row| &row[..self.columns]).copied().collect()
    }

    /// The same from a function of row and column.
    pub fn by(&self, f: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        let places = (0..self.rows).flat_map(|row| (0..self.columns).map(move |c| (row, c)));
        places.map(|(row, column)| f(row, column)).collect()
    }
}

/// Integers and their step: the largest is 127 steps.
fn quantize(values: &[f32]) -> (Vec<i32>, f32) {
    let largest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    if largest == 0.0 {
        return (vec![0; values.len()], 0.0);
    }
    let per_unit = 127.0 / largest;
    let round = |v: &f32| (v * per_unit).round_ties_even() as i32;
    (values.iter().map(round).collect(), largest / 127.0)
}

/// The weights of a column in groups of 64, as integers with a step.
fn groups(case: &Case, column: usize) -> Vec<(Vec<i32>, f32)> {
    let weights: Vec<f32> = (0..case.k).map(|k| case.w(k, column)).collect();
    weights.chunks(64).map(quantize).collect()
}

/// The definition of an int8 product: exact sums of a group, then one multiplication and one addition.
pub fn int8_reference(case: &Case, row: usize, column: usize) -> f32 {
    let (x, step) = quantize(case.row(row));
    let mut sum = 0.0f32;
    for ((w, scale), x) in groups(case, column).iter().zip(x.chunks(64)) {
        let dot: i32 = w.iter().zip(x).map(|(w, x)| w * x).sum();
        sum += dot as f32 * scale;
    }
    sum * step
}
