//! Flex: byte storage behind a reference count, with a layout.

use super::{CpuBackend, Storage, run_on_slices};
use burn::tensor::{Shape, TensorData};
use burn_flex::{Flex, FlexTensor};
use bytemuck::Pod;
use std::marker::PhantomData;

/// A contiguous Flex tensor of `E`.
pub(super) struct Dense<E> {
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
        Dense {
            tensor: tensor.to_contiguous(),
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

    fn storage(dense: &Dense<E>) -> Option<Storage> {
        let bytes = dense.tensor.data_arc();
        // Known to this tensor and to this function.
        Storage::of(&bytes, dense.tensor.layout().start_offset(), 2)
    }
}

run_on_slices!(Flex);
