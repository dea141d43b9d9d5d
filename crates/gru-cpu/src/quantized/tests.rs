//! Products of every instruction set, compared bit by bit with a reference that is written from the definition.

use super::{Columns, Matrix, RowProduct, bf16, dot::Dots, integers::Integers};
use crate::{
    simd::{Isa, Machine},
    spec::Precision,
};
use gru_testkit::random::SplitMix64;

/// K, columns and rows. All sizes of a last group, a last panel and a last tile occur.
const SHAPES: [(usize, usize, usize); 12] = [
    (1, 1, 1),
    (3, 5, 2),
    (7, 12, 3),
    (8, 23, 4),
    (9, 24, 5),
    (63, 25, 6),
    (64, 47, 7),
    (65, 48, 1),
    (71, 49, 9),
    (128, 96, 1),
    (130, 100, 3),
    (200, 3, 13),
];

/// Columns before the matrix in a wider one.
const BEFORE: usize = 2;

/// A matrix `[K, columns]` within a wider one, and rows `[rows, K]`.
struct Factors {
    k: usize,
    columns: usize,
    wide: Vec<f32>,
    x: Vec<f32>,
}

impl Factors {
    fn new((k, columns, rows): (usize, usize, usize)) -> Self {
        let mut random = SplitMix64((k * 31 + columns) as u64);
        let mut draw = |at: usize, sizes: [f64; 3]| (random.uniform(1.0) * sizes[at % 3]) as f32;
        // Groups and columns of different sizes, and rows of different sizes.
        let wide = (0..k * (BEFORE + columns + 1)).map(|at| draw(at / 64, [1.0, 0.01, 30.0]));
        let wide = wide.collect();
        let x = (0..rows * k).map(|at| draw(at / k, [1.0, 100.0, 1e-3]));
        Self {
            k,
            columns,
            x: x.collect(),
            wide,
        }
    }

    fn w(&mut self, k: usize, column: usize) -> &mut f32 {
        &mut self.wide[k * (BEFORE + self.columns + 1) + BEFORE + column]
    }

    fn from(&self) -> Columns<'_> {
        Columns {
            elements: &self.wide,
            stride: BEFORE + self.columns + 1,
            first: BEFORE,
            count: self.columns,
            k: self.k,
        }
    }

    /// The products of a packed matrix, with some space between the rows of results, by row and column.
    fn products(&self, pack: impl Fn(Columns<'_>) -> Matrix) -> Vec<(usize, usize, f32)> {
        let matrix = pack(self.from());
        let (count, to_row) = (self.x.len() / self.k, |row: usize| {
            self.x[row * self.k..].as_ptr()
        });
        let stride = matrix.columns() + 5;
        // Old contents of the memory have no effect.
        let mut encoded = vec![u32::MAX; count * matrix.row_words()];
        let mut products = vec![f32::NAN; count * stride];
        // SAFETY: these are rows of K elements, and as many rows of results.
        unsafe { matrix.multiply(count, &to_row, &mut encoded, products.as_mut_ptr(), stride) };
        let rows = products.chunks_exact(stride).enumerate();
        let of_row = |(row, of): (usize, &[f32])| {
            let columns = of[..self.columns].iter().enumerate();
            let columns = columns.map(|(column, &v)| (row, column, v));
            columns.collect::<Vec<_>>()
        };
        rows.flat_map(of_row).collect()
    }

    fn int8(&self, machine: Machine, dots: Dots) -> Vec<(usize, usize, f32)> {
        self.products(|columns| Matrix::int8(machine, dots, columns))
    }

    fn column(&mut self, column: usize) -> Vec<f32> {
        (0..self.k).map(|k| *self.w(k, column)).collect()
    }

    /// Weights that share a scale: 64, or all if all columns are integers times a scale.
    fn group(&mut self) -> usize {
        let mut columns = (0..self.columns).map(|column| self.column(column));
        if columns.all(|column| exact_steps(&column).is_some()) {
            self.k
        } else {
            64
        }
    }

    /// The definition of an int8 product: exact sums of a group, then one multiplication and one addition.
    fn int8_reference(&mut self, group: usize, row: usize, column: usize) -> f32 {
        let weights = self.column(column);
        let (x, step) = quantize(&self.x[row * self.k..][..self.k], 127.0);
        let mut sum = 0.0f32;
        for (w, x) in weights.chunks(group).zip(x.chunks(group)) {
            let (w, scale) = quantize(w, exact_steps(w).unwrap_or(127.0));
            let dot: i32 = w.iter().zip(x).map(|(w, x)| w * x).sum();
            sum += dot as f32 * scale;
        }
        sum * step
    }
}

/// The size of the largest value in steps, if all are multiples of a step.
fn exact_steps(values: &[f32]) -> Option<f32> {
    let largest = values
        .iter()
        .fold(0.0f64, |m, &v| m.max(f64::from(v).abs()));
    let is_exact = |steps: &i16| {
        let per_unit = f64::from(*steps) / largest;
        let mut all = values.iter().map(|&v| f64::from(v) * per_unit);
        all.all(|v| (v - v.round()).abs() < 6.1e-5)
    };
    (1..=127).find(is_exact).map(f32::from)
}

/// Integers and their step: the largest is this number of steps.
fn quantize(values: &[f32], steps: f32) -> (Vec<i32>, f32) {
    let largest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    if largest == 0.0 {
        return (vec![0; values.len()], 0.0);
    }
    let per_unit = steps / largest;
    let round = |v: &f32| (v * per_unit).round_ties_even() as i32;
    (values.iter().map(round).collect(), largest / steps)
}

/// `a·b + c`, rounded once. `f32::mul_add` is the C library's `fmaf` on some targets, and mingw's is often wrong.
fn fused(a: f32, b: f32, c: f32) -> f32 {
    // The product is exact, and `lost` is what the sum loses.
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let of_c = sum - product;
    let lost = (product - (sum - of_c)) + (c - of_c);
    // Of the two neighbours, the odd one. No float32 and no middle of two is odd, so the next rounding is right.
    let odd = if lost == 0.0 || sum.to_bits() % 2 == 1 {
        sum
    } else if lost > 0.0 {
        sum.next_up()
    } else {
        sum.next_down()
    };
    odd as f32
}

fn dots() -> impl Iterator<Item = Dots> {
    Dots::ALL.into_iter().filter(|dots| dots.is_available())
}

fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

#[test]
fn int8_products_have_the_same_bits_on_every_instruction_set() {
    for shape in SHAPES {
        equals_its_definition(Factors::new(shape), &format!("{shape:?}"));
    }
}

/// The products of every instruction set.
fn equals_its_definition(mut factors: Factors, id: &str) {
    let group = factors.group();
    for dots in dots() {
        for isa in isas() {
            let got = isa.run(|| factors.int8(Machine::here::<f32>(), dots));
            for (row, column, v) in got {
                let expected = factors.int8_reference(group, row, column);
                let id = format!("{id}, {dots:?}, {isa:?}: {v}, expected {expected}");
                assert_eq!(v.to_bits(), expected.to_bits(), "{id}");
            }
        }
    }
}

/// Weights of another program that are integers times a scale for each output. With the smaller ones, pairs are small.
#[test]
fn weights_of_8_bits_keep_their_integers() {
    for (shape, largest) in SHAPES
        .into_iter()
        .flat_map(|shape| [(shape, 127.0), (shape, 64.0)])
    {
        let mut factors = Factors::new(shape);
        let mut random = SplitMix64(7);
        for column in 0..factors.columns {
            let scale = (0.01 + random.uniform(1.0).abs()) as f32;
            for at in 0..factors.k {
                *factors.w(at, column) = (random.uniform(1.0) * largest).round() as f32 * scale;
            }
        }
        let all = Integers::of(&factors.from());
        assert!(all.group >= factors.k, "{shape:?}");
        if largest == 64.0 {
            assert_eq!(Dots::Avx2.of_weights(&all), Dots::Avx2Small, "{shape:?}");
        }
        let matrix = Matrix::int8(Machine::here::<f32>(), Dots::Scalar, factors.from());
        let db = matrix.energy().db();
        assert!(db.is_none_or(|db| db > 120.0), "{shape:?}: {db:?} dB");
        equals_its_definition(factors, &format!("{shape:?}, {largest}"));
    }
}

/// ±3 and the weights of even inputs are 127 steps each. The others are as many, or as many as in small pairs.
#[test]
fn the_largest_integers_do_not_overflow() {
    for (sign, steps) in [(1.0f32, 127u8), (-1.0, 127), (1.0, 2), (-1.0, 2)] {
        for k in [64, 200] {
            let mut factors = Factors::new((k, 30, 5));
            for (at, column) in (0..k).flat_map(|at| (0..30).map(move |column| (at, column))) {
                let steps = if at % 2 == 0 { 127 } else { steps };
                *factors.w(at, column) = 0.75 * f32::from(steps) / 127.0;
            }
            factors.x.fill(sign * 3.0);
            let pair = 0.75 * (1.0 + f64::from(steps) / 127.0);
            let expected = f64::from(sign) * 3.0 * pair * k as f64 / 2.0;
            let got = factors.int8_reference(k, 0, 0);
            assert!((f64::from(got) - expected).abs() < 1e-3);
            equals_its_definition(factors, &format!("{sign}, {steps}, {k}"));
        }
    }
}

#[test]
fn bf16_products_have_the_bits_of_their_definition() {
    for isa in isas() {
        let is_fused = isa.is_fused();
        if isa == Isa::RelaxedSimd {
            // The engine decides whether it fuses.
            continue;
        }
        for shape in SHAPES {
            let mut factors = Factors::new(shape);
            let machine = isa.run(Machine::here::<f32>);
            let got = factors.products(|from| Matrix::new(machine, Precision::Bf16, from));
            for (row, column, v) in got {
                let mut sums = [0.0f32; 2];
                for k in 0..factors.k {
                    let w = f32::from_bits(u32::from(bf16::round(*factors.w(k, column))) << 16);
                    let (x, sum) = (factors.x[row * factors.k + k], &mut sums[k % 2]);
                    *sum = if is_fused {
                        fused(w, x, *sum)
                    } else {
                        w * x + *sum
                    };
                }
                let expected = sums[0] + sums[1];
                assert_eq!(v.to_bits(), expected.to_bits(), "{shape:?}, {isa:?}");
            }
        }
    }
}

/// All bfloat16 and their middles, in float64.
#[test]
fn bf16_is_the_nearest_half_to_even() {
    let of = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    for bits in 0..0x7f7fu16 {
        let (low, high) = (of(bits), of(bits + 1));
        let middle = ((f64::from(low) + f64::from(high)) / 2.0) as f32;
        let even = if bits % 2 == 0 { bits } else { bits + 1 };
        for (v, expected) in [
            (low, bits),
            (middle.next_down(), bits),
            (middle, even),
            (middle.next_up(), bits + 1),
        ] {
            assert_eq!(bf16::round(v), expected, "{v}");
            assert_eq!(bf16::round(-v), expected | 0x8000, "{v}");
        }
    }
    assert_eq!(of(bf16::round(f32::INFINITY)), f32::INFINITY);
    assert!(of(bf16::round(f32::from_bits(0x7f80_0001))).is_nan());
    assert!(of(bf16::round(f32::NAN)).is_nan());
}

/// Only products of row 1, and of column 7, have this property, after `change` has changed these two.
fn row_and_column(
    is: impl Fn(f32) -> bool,
    change: impl Fn(&mut [f32], &mut dyn FnMut(usize, f32)),
) {
    let mut factors = Factors::new((70, 30, 3));
    let mut weights = Vec::new();
    change(&mut factors.x[70..140], &mut |k, v| weights.push((k, v)));
    for &(k, v) in &weights {
        *factors.w(k, 7) = v;
    }
    for dots in dots() {
        for (row, column, v) in factors.int8(Machine::here::<f32>(), dots) {
            assert_eq!(
                is(v),
                row == 1 || column == 7,
                "{dots:?}, {row}, {column}: {v}"
            );
        }
    }
}

#[test]
fn a_value_that_is_not_finite_makes_its_row_or_its_output_nan() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        row_and_column(f32::is_nan, |x, w| {
            x[69] = bad;
            w(65, bad);
        });
    }
    // In 8 bits this NaN is −128, so a sum of two products exceeds 16 bits.
    let nan = f32::from_bits(0x7fc0_0080);
    row_and_column(f32::is_nan, |x, w| {
        x[64..66].fill(nan);
        w(64, nan);
        w(65, nan);
    });
}

#[test]
fn negligible_rows_and_weights_are_zero() {
    for largest in [0.0, 1e-40, 7.8e-31] {
        row_and_column(
            |v| v == 0.0,
            |x, w| {
                x.fill(largest);
                (0..70).for_each(|k| w(k, -largest));
            },
        );
    }
}

/// The vectors that this processor has are used.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn the_best_products_of_this_processor_are_used() {
    let narrow = if is_x86_feature_detected!("avxvnni") {
        Dots::AvxVnni
    } else {
        Dots::Avx2
    };
    let wide = if is_x86_feature_detected!("avx512vnni") {
        Dots::Avx512Vnni
    } else {
        narrow
    };
    let all = [
        (Isa::Scalar, Dots::Scalar),
        (Isa::V3, narrow),
        (Isa::V4, wide),
    ];
    for (isa, expected) in all {
        if isa.is_available() {
            let machine = isa.run(Machine::here::<f32>);
            assert_eq!(Dots::of(&machine), expected);
        }
    }
}
