//! ndarray tensors: shared arrays, one variant of an enum per dtype.

use super::CpuBackend;
use burn::backend::NdArray;
use burn::tensor::Shape;
use burn_ndarray::{NdArrayTensor, SharedArray};
use ndarray::{ArrayD, IxDyn};

/// An array in standard (dense row-major) order.
pub(crate) struct Dense<E>(SharedArray<E>);

impl<E: Clone> Dense<E> {
    fn new(array: SharedArray<E>) -> Self {
        if array.is_standard_layout() {
            Self(array)
        } else {
            Self(array.as_standard_layout().into_owned().into_shared())
        }
    }
}

impl<E> AsRef<[E]> for Dense<E> {
    fn as_ref(&self) -> &[E] {
        self.0
            .as_slice()
            .expect("a dense array is in standard order")
    }
}

macro_rules! cpu_backend {
    ($element:ty, $variant:ident) => {
        impl CpuBackend<$element> for NdArray {
            type Dense = Dense<$element>;

            fn dense(tensor: NdArrayTensor) -> Self::Dense {
                match tensor {
                    NdArrayTensor::$variant(storage) => Dense::new(storage.into_shared()),
                    other => panic!("expected {}, got {other:?}", stringify!($variant)),
                }
            }

            fn tensor(data: Vec<$element>, shape: Shape) -> NdArrayTensor {
                let array = ArrayD::from_shape_vec(IxDyn(&shape), data);
                array.expect("the data fits its shape").into_shared().into()
            }

            fn into_data(dense: Self::Dense) -> Option<Vec<$element>> {
                let (data, offset) = dense
                    .0
                    .try_into_owned_nocopy()
                    .ok()?
                    .into_raw_vec_and_offset();
                matches!(offset, None | Some(0)).then_some(data)
            }
        }
    };
}

cpu_backend!(f32, F32);
cpu_backend!(f64, F64);

implement!(cpu: impl crate::backend::GruBackend for NdArray);
