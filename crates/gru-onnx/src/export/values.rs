//! The inputs and outputs of a forward pass.

use super::{ExportError, boundary};
use burn::{
    backend::capture::{CaptureBackend, TensorId},
    tensor::{Bool, DType, Device, Float, Int, Tensor},
};

/// An input or output on the capture device.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Value {
    pub(super) id: TensorId,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
}

/// Tensors of every rank and kind, and vectors and tuples of them.
pub trait Values: Sized {
    /// Moves the tensors to the capture device.
    #[doc(hidden)]
    fn to(self, device: &Device) -> Self;

    /// Appends each tensor.
    #[doc(hidden)]
    fn collect(&self, values: &mut Vec<Value>) -> Result<(), ExportError>;

    /// Appends the device of each tensor.
    #[doc(hidden)]
    fn devices(&self, devices: &mut Vec<Device>);
}

macro_rules! tensors {
    ($($kind:ty),+) => {$(
        impl<const D: usize> Values for Tensor<D, $kind> {
            fn to(self, device: &Device) -> Self {
                self.to_device(device)
            }

            fn collect(&self, values: &mut Vec<Value>) -> Result<(), ExportError> {
                let tensor = self.clone().try_into_primitive::<CaptureBackend>();
                let tensor = tensor.map_err(|_| {
                    let device = self.device();
                    let reason = format!("expected a tensor on the capture device, got one on {device:?}");
                    boundary("output", reason)
                })?;
                values.push(Value {
                    id: tensor.id(),
                    shape: self.dims().to_vec(),
                    dtype: self.dtype(),
                });
                Ok(())
            }

            fn devices(&self, devices: &mut Vec<Device>) {
                devices.push(self.device());
            }
        }
    )+};
}

tensors!(Float, Int, Bool);

impl<V: Values> Values for Vec<V> {
    fn to(self, device: &Device) -> Self {
        self.into_iter().map(|value| value.to(device)).collect()
    }

    fn collect(&self, values: &mut Vec<Value>) -> Result<(), ExportError> {
        self.iter().try_for_each(|value| value.collect(values))
    }

    fn devices(&self, devices: &mut Vec<Device>) {
        self.iter().for_each(|value| value.devices(devices));
    }
}

macro_rules! tuples {
    ($($($name:ident)+,)+) => {$(
        #[allow(non_snake_case)] // Variables with the names of types.
        impl<$($name: Values),+> Values for ($($name,)+) {
            fn to(self, device: &Device) -> Self {
                let ($($name,)+) = self;
                ($($name.to(device),)+)
            }

            fn collect(&self, values: &mut Vec<Value>) -> Result<(), ExportError> {
                let ($($name,)+) = self;
                $($name.collect(values)?;)+
                Ok(())
            }

            fn devices(&self, devices: &mut Vec<Device>) {
                let ($($name,)+) = self;
                $($name.devices(devices);)+
            }
        }
    )+};
}

tuples!(A, A B, A B C, A B C D, A B C D E, A B C D E F,);
