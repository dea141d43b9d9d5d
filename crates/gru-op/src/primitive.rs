//! A backend's float tensor with operators, so that the composed passes read like their equations.

use burn::backend::{
    Backend, BoolDType, TensorMetadata, get_or_init_device_settings,
    tensor::{Device, FloatTensor},
};
use burn::tensor::{DType, Shape, Slice};
use std::ops::{Add, Mul, Range, Sub};

/// A float tensor of backend `B`.
#[derive(Debug)]
pub(crate) struct Prim<B: Backend>(pub(crate) FloatTensor<B>);

impl<B: Backend> Clone for Prim<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> Prim<B> {
    pub(crate) fn zeros(shape: impl Into<Shape>, like: &Self) -> Self {
        let (device, dtype) = (like.0.device(), like.0.dtype());
        Self(B::float_zeros(shape.into(), &device, dtype.into()))
    }

    pub(crate) fn dims<const D: usize>(&self) -> [usize; D] {
        self.0.shape().dims()
    }

    pub(crate) fn dtype(&self) -> DType {
        self.0.dtype()
    }

    pub(crate) fn device(&self) -> Device<B> {
        self.0.device()
    }

    pub(crate) fn reshape(self, shape: impl Into<Shape>) -> Self {
        Self(B::float_reshape(self.0, shape.into()))
    }

    pub(crate) fn transpose(self) -> Self {
        Self(B::float_transpose(self.0))
    }

    pub(crate) fn matmul(self, rhs: Self) -> Self {
        Self(B::float_matmul(self.0, rhs.0))
    }

    /// The given range of one dimension, all of the others.
    pub(crate) fn narrow(&self, dim: usize, range: Range<usize>) -> Self {
        Self(B::float_slice(self.0.clone(), &self.slices(dim, range)))
    }

    /// With the given range of one dimension replaced; in place if nobody else holds the tensor.
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

    /// Sum over the rows of a matrix: `[R,C]` to `[C]`.
    pub(crate) fn sum_rows(self) -> Self {
        let [_, cols] = self.dims();
        Self(B::float_sum_dim(self.0, 0)).reshape([cols])
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

    pub(crate) fn clamp(self, low: f64, high: f64) -> Self {
        Self(B::float_clamp(self.0, low.into(), high.into()))
    }

    pub(crate) fn sigmoid(self) -> Self {
        Self(B::sigmoid(self.0))
    }

    pub(crate) fn tanh(self) -> Self {
        Self(B::float_tanh(self.0))
    }

    pub(crate) fn exp(self) -> Self {
        Self(B::float_exp(self.0))
    }

    pub(crate) fn log1p(self) -> Self {
        Self(B::float_log1p(self.0))
    }

    pub(crate) fn abs(self) -> Self {
        Self(B::float_abs(self.0))
    }

    pub(crate) fn relu(self) -> Self {
        Self(B::relu(self.0))
    }

    pub(crate) fn recip(self) -> Self {
        Self(B::float_recip(self.0))
    }

    /// 1 where `self > value`, else 0.
    pub(crate) fn above(&self, value: f64) -> Self {
        let mask = B::float_greater_elem(self.0.clone(), value.into(), self.bool_dtype());
        Self(B::bool_into_float(mask, self.dtype().into()))
    }

    /// 1 where `self < value`, else 0.
    pub(crate) fn below(&self, value: f64) -> Self {
        let mask = B::float_lower_elem(self.0.clone(), value.into(), self.bool_dtype());
        Self(B::bool_into_float(mask, self.dtype().into()))
    }

    fn bool_dtype(&self) -> BoolDType {
        get_or_init_device_settings::<B>(&self.device()).bool_dtype
    }
}

impl<B: Backend> Add for Prim<B> {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(B::float_add(self.0, rhs.0))
    }
}

impl<B: Backend> Sub for Prim<B> {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(B::float_sub(self.0, rhs.0))
    }
}

impl<B: Backend> Mul for Prim<B> {
    type Output = Self;
    fn mul(self, rhs: Self) -> Self {
        Self(B::float_mul(self.0, rhs.0))
    }
}
