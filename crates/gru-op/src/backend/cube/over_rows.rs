//! Products over all steps of all rows: the weight gradients.

use crate::backend::composed::prim::Prim;
use burn::backend::Backend;
use std::ops::Range;

/// The side of the square of results that Burn's products compute in one cube.
const SIDE: usize = 64;

/// Cubes of a product that run on a multiprocessor at the same time.
const CUBES_PER_MULTIPROCESSOR: usize = 2;

/// The least rows of a part.
const MIN_ROWS: usize = 128;

/// `lhsᵀ · rhs` of `[R,M]` and `[R,C]`, on a device that runs so many cubes at the same time.
///
/// Burn computes each element of a product in one cube. A product with few elements would use a small part of a GPU, so
/// the rows are divided into parts, whose products are added at the end.
pub(super) fn product<B: Backend>(lhs: &Prim<B>, rhs: &Prim<B>, cubes: usize) -> Prim<B> {
    let ([rows, m], [_, n]) = (lhs.dims(), rhs.dims());
    in_parts(lhs, rhs, parts(rows, m, n, cubes))
}

/// How many parts fill the device. A number that divides the rows, if one is near.
fn parts(rows: usize, m: usize, n: usize, cubes: usize) -> usize {
    let of_product = m.div_ceil(SIDE) * n.div_ceil(SIDE);
    let wanted = cubes.saturating_mul(CUBES_PER_MULTIPROCESSOR) / of_product.max(1);
    let most = wanted.min(rows / MIN_ROWS).max(1);
    let mut near = (most / 2 + 1..=most).rev();
    near.find(|&parts| rows.is_multiple_of(parts))
        .unwrap_or(most)
}

fn in_parts<B: Backend>(lhs: &Prim<B>, rhs: &Prim<B>, parts: usize) -> Prim<B> {
    let whole = |rows: Range<usize>| {
        let [lhs, rhs] = [lhs, rhs].map(|matrix| matrix.narrow(0, rows.clone()));
        lhs.transpose().matmul(rhs)
    };
    let ([rows, m], [_, n]) = (lhs.dims(), rhs.dims());
    if parts == 1 {
        return whole(0..rows);
    }
    let in_part = rows / parts;
    let split = |matrix: &Prim<B>, columns: usize| {
        let rows = matrix.narrow(0, 0..parts * in_part);
        rows.reshape([parts, in_part, columns])
    };
    let products = split(lhs, m).transpose().matmul(split(rhs, n));
    let sum = products.sum_dim(0).reshape([m, n]);
    match rows - parts * in_part {
        0 => sum,
        rest => sum + whole(rows - rest..rows),
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::tensor::TensorData;
    use burn_flex::{Flex, FlexTensor};

    /// Small integers, whose sums are exact in every order.
    fn matrix(rows: usize, columns: usize, step: usize) -> Prim<Flex> {
        let values = (0..rows * columns).map(|k| (k * step % 13) as f32 - 6.0);
        let data = TensorData::new(values.collect(), [rows, columns]);
        Prim(FlexTensor::from_data(data))
    }

    #[test]
    fn parts_have_the_sum_of_the_whole() {
        let (rows, m, width) = (23, 3, 8);
        let (lhs, rhs) = (matrix(rows, m, 5), matrix(rows, width, 7));
        let values = |product: Prim<Flex>| {
            assert_eq!(product.dims(), [m, 4]);
            product.0.into_data().try_into_vec::<f32>().unwrap()
        };
        let [a, b] = [&lhs, &rhs].map(|matrix| {
            let data = matrix.0.clone().into_data();
            data.try_into_vec::<f32>().unwrap()
        });
        let expected: Vec<f32> = (0..m)
            .flat_map(|i| (2..6).map(move |j| (i, j)))
            .map(|(i, j)| (0..rows).map(|k| a[k * m + i] * b[k * width + j]).sum())
            .collect();
        for parts in [1, 2, 4, 23] {
            let product = in_parts(&lhs, &rhs.narrow(1, 2..6), parts);
            assert_eq!(values(product), expected, "{parts} parts");
        }
    }

    #[test]
    fn parts_fill_a_device_and_have_enough_rows() {
        // char-s on a GPU with 132 multiprocessors: 24 cubes in a part.
        assert_eq!(parts(2048, 128, 768, 132), 8);
        assert_eq!(parts(6400, 256, 1536, 132), 2);
        // Nothing near 11 divides a prime.
        assert_eq!(parts(2053, 128, 768, 132), 11);
        // A large product, few rows, no rows, and a small device.
        assert_eq!(parts(3200, 1024, 3072, 132), 1);
        assert_eq!(parts(200, 8, 24, 132), 1);
        assert_eq!(parts(0, 8, 24, 132), 1);
        assert_eq!(parts(2048, 128, 768, 2), 1);
    }
}
