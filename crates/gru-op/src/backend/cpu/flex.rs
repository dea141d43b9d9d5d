//! Flex tensors: shared bytes with a layout.

use super::CpuBackend;
use burn::tensor::{Shape, TensorData};
use burn_flex::{Flex, FlexTensor};
use bytemuck::Pod;
use std::marker::PhantomData;

/// A contiguous Flex tensor of `E`.
pub(crate) struct Dense<E> {
    tensor: FlexTensor,
    element: PhantomData<E>,
}

impl<E: burn::tensor::Element + Pod> AsRef<[E]> for Dense<E> {
    fn as_ref(&self) -> &[E] {
        self.tensor
            .as_slice()
            .expect("a dense tensor is contiguous")
    }
}

impl<E: gru_cpu::Element + burn::tensor::Element + Pod> CpuBackend<E> for Flex {
    type Dense = Dense<E>;

    fn dense(tensor: FlexTensor) -> Dense<E> {
        let tensor = if tensor.is_contiguous() {
            tensor
        } else {
            tensor.to_contiguous()
        };
        Dense {
            tensor,
            element: PhantomData,
        }
    }

    fn tensor(data: Vec<E>, shape: Shape) -> FlexTensor {
        FlexTensor::from_data(TensorData::new(data, shape))
    }

    fn into_data(dense: Dense<E>) -> Option<Vec<E>> {
        let data = dense.tensor.is_unique().then(|| dense.tensor.into_data())?;
        data.try_into_vec().ok()
    }
}

implement!(cpu: impl crate::backend::GruBackend for Flex);
