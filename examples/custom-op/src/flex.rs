//! The kernels for Flex, Burn's CPU backend.

use burn::backend::{Flex, TensorMetadata, flex::FlexTensor};
use burn::tensor::{DType, Element, Shape, TensorData};
use bytemuck::Pod;
use std::ops::{Add, Mul};

use crate::backend::RecurrenceBackend;
use crate::composed::{gradients, states};

// Calls of the kernels in this thread.
#[cfg(test)]
thread_local!(pub static CALLS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });

trait Number: Element + Pod + Add<Output = Self> + Mul<Output = Self> {}
impl Number for f32 {}
impl Number for f64 {}

impl RecurrenceBackend for Flex {
    fn recurrence(x: FlexTensor, a: FlexTensor, h0: FlexTensor) -> FlexTensor {
        match x.dtype() {
            DType::F32 => flex_states::<f32>(x, a, h0),
            DType::F64 => flex_states::<f64>(x, a, h0),
            _ => states::<Self>(x, a, h0),
        }
    }

    fn recurrence_gradients(
        a: FlexTensor,
        h0: FlexTensor,
        states: FlexTensor,
        d: FlexTensor,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        match states.dtype() {
            DType::F32 => flex_gradients::<f32>(a, h0, states, d),
            DType::F64 => flex_gradients::<f64>(a, h0, states, d),
            _ => gradients::<Self>(a, h0, states, d),
        }
    }
}

/// The values of a tensor in row-major order. They are copied only if they are in another order.
fn dense<E: Number>(tensor: &mut FlexTensor) -> &[E] {
    if !tensor.is_contiguous() {
        *tensor = tensor.to_contiguous();
    }
    tensor
        .as_slice()
        .expect("the tensor is dense and has this dtype")
}

fn flex_states<E: Number>(mut x: FlexTensor, mut a: FlexTensor, mut h0: FlexTensor) -> FlexTensor {
    #[cfg(test)]
    CALLS.set(CALLS.get() + 1);
    let shape = x.shape();
    let [_, t, h] = shape.dims();
    let (a, h0) = (dense::<E>(&mut a), dense::<E>(&mut h0));
    let mut states = dense::<E>(&mut x).to_vec();
    for (n, row) in states.chunks_exact_mut((t * h).max(1)).enumerate() {
        for k in 0..t * h {
            let previous = if k < h { h0[n * h + k] } else { row[k - h] };
            row[k] = a[k % h] * previous + row[k];
        }
    }
    FlexTensor::from_data(TensorData::new(states, shape))
}

fn flex_gradients<E: Number>(
    mut a: FlexTensor,
    mut h0: FlexTensor,
    mut states: FlexTensor,
    mut d: FlexTensor,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    #[cfg(test)]
    CALLS.set(CALLS.get() + 1);
    let shape = states.shape();
    let [n, t, h] = shape.dims();
    let (a, h0) = (dense::<E>(&mut a), dense::<E>(&mut h0));
    let states = dense::<E>(&mut states);
    let mut dx = dense::<E>(&mut d).to_vec();
    let (mut da, mut carry) = (vec![E::zeroed(); h], vec![E::zeroed(); n * h]);
    for n in 0..n {
        for k in (0..t * h).rev() {
            let (at, j) = (n * t * h + k, k % h);
            let previous = if k < h { h0[n * h + j] } else { states[at - h] };
            dx[at] = dx[at] + carry[n * h + j];
            da[j] = da[j] + dx[at] * previous;
            carry[n * h + j] = a[j] * dx[at];
        }
    }
    let tensor = |data, shape| FlexTensor::from_data(TensorData::new(data, shape));
    (
        tensor(dx, shape),
        tensor(da, Shape::new([h])),
        tensor(carry, Shape::new([n, h])),
    )
}
