//! Float tensors of a backend with operators, so that the passes read like their equations.

use burn::backend::{
    Backend, BoolDType, TensorMetadata, get_or_init_device_settings,
    tensor::{BoolTensor, FloatTensor},
};
use burn::tensor::{DType, Shape, Slice};
#[cfg(feature = "cube")]
use burn::{backend::tensor::Device, tensor::TensorData};
use std::ops::{Add, Div, Mul, Range, Sub};

/// A float tensor of backend `B`.
#[derive(Debug, Clone)]
pub(crate) struct Prim<B: Backend>(pub(crate) FloatTensor<B>);

/// The largest number of rows in one sum.
const BLOCK: usize = 64;

impl<B: Backend> Prim<B> {
    pub(crate) fn zeros(shape: impl Into<Shape>, like: &Self) -> Self {
        let (device, dtype) = (like.0.device(), like.0.dtype());
        Self(B::float_zeros(shape.into(), &device, dtype.into()))
    }

    #[cfg(feature = "cube")]
    pub(crate) fn of_data(data: TensorData, device: &Device<B>) -> Self {
        Self(B::float_from_data(data, device))
    }

    /// The same number everywhere.
    pub(crate) fn filled(value: f64, like: &Self) -> Self {
        Self::zeros(like.0.shape(), like).plus(value)
    }

    pub(crate) fn dims<const D: usize>(&self) -> [usize; D] {
        self.0.shape().dims()
    }

    pub(crate) fn dtype(&self) -> DType {
        self.0.dtype()
    }

    #[cfg(feature = "cube")]
    pub(crate) fn cast(self, dtype: DType) -> Self {
        if self.dtype() == dtype {
            return self;
        }
        Self(B::float_cast(self.0, dtype.into()))
    }

    pub(crate) fn reshape(self, shape: impl Into<Shape>) -> Self {
        Self(B::float_reshape(self.0, shape.into()))
    }

    pub(crate) fn expand(self, shape: impl Into<Shape>) -> Self {
        Self(B::float_expand(self.0, shape.into()))
    }

    pub(crate) fn matmul(self, rhs: Self) -> Self {
        Self(B::float_matmul(self.0, rhs.0))
    }

    /// A range of one dimension.
    pub(crate) fn narrow(&self, dim: usize, range: Range<usize>) -> Self {
        Self(B::float_slice(self.0.clone(), &self.slices(dim, range)))
    }

    /// Replaces a range of one dimension. In place if this is the only handle on the tensor.
    #[cfg(feature = "cube")]
    pub(crate) fn with(self, dim: usize, range: Range<usize>, part: Self) -> Self {
        let slices = self.slices(dim, range);
        Self(B::float_slice_assign(self.0, &slices, part.0))
    }

    fn slices(&self, dim: usize, range: Range<usize>) -> Vec<Slice> {
        let mut slices: Vec<Slice> = self.0.shape().iter().map(|&d| (0..d).into()).collect();
        slices[dim] = range.into();
        slices
    }

    pub(crate) fn cat(parts: Vec<Self>, dim: usize) -> Self {
        let parts = parts.into_iter().map(|p| p.0).collect();
        Self(B::float_cat(parts, dim))
    }

    /// `other` where the mask is set.
    pub(crate) fn replaced(self, mask: Mask<B>, other: Self) -> Self {
        Self(B::float_mask_where(self.0, mask.0, other.0))
    }

    /// 0 where the mask is set, even in place of NaN.
    pub(crate) fn zeroed(self, mask: Mask<B>) -> Self {
        self.with_value(mask, 0.0)
    }

    /// One number where the mask is set.
    pub(crate) fn with_value(self, mask: Mask<B>, value: f64) -> Self {
        Self(B::float_mask_fill(self.0, mask.0, value.into()))
    }

    /// Sum over a dimension, whose size becomes 1.
    pub(crate) fn sum_dim(self, dim: usize) -> Self {
        Self(B::float_sum_dim(self.0, dim))
    }

    /// Sum over the rows of a matrix, `[R,C]` to `[C]`.
    ///
    /// A backend may add thousands of rows one by one, and their rounding errors add up. So this sums blocks
    /// of rows first. Block sizes that divide R need no copy. Without one, the last row is added at the end.
    pub(crate) fn sum_rows(self) -> Self {
        let [rows, columns] = self.dims();
        if rows <= BLOCK {
            return self.sum_dim(0).reshape([columns]);
        }
        match (2..=BLOCK).rev().find(|&block| rows.is_multiple_of(block)) {
            Some(block) => {
                let blocks = self.reshape([rows / block, block, columns]);
                let sums = blocks.sum_dim(1).reshape([rows / block, columns]);
                sums.sum_rows()
            }
            None => {
                let last = self.narrow(0, rows - 1..rows).reshape([columns]);
                self.narrow(0, 0..rows - 1).sum_rows() + last
            }
        }
    }

    pub(crate) fn plus(self, value: f64) -> Self {
        Self(B::float_add_scalar(self.0, value.into()))
    }

    pub(crate) fn times(self, value: f64) -> Self {
        Self(B::float_mul_scalar(self.0, value.into()))
    }

    /// `1 − self`.
    pub(crate) fn complement(self) -> Self {
        self.times(-1.0).plus(1.0)
    }

    /// NaN stays NaN.
    pub(crate) fn clamp(self, low: f64, high: f64) -> Self {
        Self(B::float_clamp(self.0, low.into(), high.into()))
    }

    pub(crate) fn is_nan(&self) -> Mask<B> {
        Mask(B::float_is_nan(self.0.clone(), self.bool_dtype()))
    }

    fn bool_dtype(&self) -> BoolDType {
        get_or_init_device_settings::<B>(&self.0.device()).bool_dtype
    }
}

/// Burn's functions of one tensor. `relu` keeps NaN.
macro_rules! functions {
    ($($name:ident => $burn:ident),+) => {
        impl<B: Backend> Prim<B> {$(
            pub(crate) fn $name(self) -> Self {
                Self(B::$burn(self.0))
            }
        )+}
    };
}
functions!(
    abs => float_abs, exp => float_exp, log1p => float_log1p, relu => relu, sigmoid => sigmoid,
    tanh => float_tanh, transpose => float_transpose
);

/// Comparisons with a number. They are false at NaN, except `differs`.
macro_rules! comparisons {
    ($($name:ident => $burn:ident),+) => {
        impl<B: Backend> Prim<B> {$(
            pub(crate) fn $name(&self, value: f64) -> Mask<B> {
                let dtype = self.bool_dtype();
                Mask(B::$burn(self.0.clone(), value.into(), dtype))
            }
        )+}
    };
}
comparisons!(
    above => float_greater_elem, at_least => float_greater_equal_elem, equals => float_equal_elem,
    below => float_lower_elem, at_most => float_lower_equal_elem, differs => float_not_equal_elem
);

macro_rules! operators {
    ($($trait:ident, $method:ident => $burn:ident;)+) => {$(
        impl<B: Backend> $trait for Prim<B> {
            type Output = Self;
            fn $method(self, rhs: Self) -> Self {
                Self(B::$burn(self.0, rhs.0))
            }
        }
    )+};
}
operators! {
    Add, add => float_add;
    Sub, sub => float_sub;
    Mul, mul => float_mul;
    Div, div => float_div;
}

/// Marked elements of a tensor.
#[derive(Debug, Clone)]
pub(crate) struct Mask<B: Backend>(BoolTensor<B>);

impl<B: Backend> Mask<B> {
    pub(crate) fn or(self, other: Self) -> Self {
        Self(B::bool_or(self.0, other.0))
    }

    pub(crate) fn expand(self, shape: impl Into<Shape>) -> Self {
        Self(B::bool_expand(self.0, shape.into()))
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::tensor::TensorData;
    use burn_flex::Flex;

    /// Powers of two, a prime, twice a prime. Each term uses all bits of a float32.
    #[test]
    fn sums_of_many_equal_rows_do_not_drift() {
        for rows in [0, 1, 64, 65, 127, 128, 32_768, 32_771, 65_542] {
            let data = TensorData::new(vec![1.0f32 / 3.0; rows * 2], [rows, 2]);
            let matrix = Prim::<Flex>(burn_flex::FlexTensor::from_data(data));
            let sums = matrix.sum_rows().0.into_data();
            let expected = rows as f64 * f64::from(1.0f32 / 3.0);
            for sum in sums.try_into_vec::<f32>().unwrap() {
                let off = (f64::from(sum) - expected).abs();
                assert!(
                    off <= 32.0 * f64::from(f32::EPSILON) * expected,
                    "{rows} rows: {sum}"
                );
            }
        }
    }
}
