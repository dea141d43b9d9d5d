//! The CPU backends: from tensors to slices for `gru-cpu`, and back.
//!
//! ndarray and Flex share this code, and implement how their tensors become slices. Half precision is a
//! storage type: states and gates are stored in it, and arithmetic is in float32.

#[cfg(feature = "flex")]
mod flex;
mod memory;
#[cfg(feature = "ndarray")]
mod ndarray;

pub(crate) use self::memory::Memory;

use crate::backend::{
    call::{GruCall, GruGradients, GruSaved},
    composed,
};
#[cfg(feature = "flex")]
use burn::backend::Flex;
#[cfg(feature = "ndarray")]
use burn::backend::NdArray;
use burn::backend::{
    Backend, BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind,
    TensorMetadata, tensor::FloatTensor,
};
use burn::tensor::{DType, Shape};
use gru_cpu::{Element, Gru};
use gru_spec::{Inputs, PerInput, Sizes};
use memory::Keep;

/// A backend whose tensors of `E` are slices in this process.
pub(crate) trait CpuBackend<E: Element>: Backend {
    /// A tensor in dense row-major order.
    type Dense: AsRef<[E]>;

    /// Makes a tensor dense and row-major. Copies it only if it is not.
    fn dense(tensor: FloatTensor<Self>) -> Self::Dense;

    /// A tensor that owns `data`.
    fn tensor(data: Vec<E>, shape: Shape) -> FloatTensor<Self>;

    /// The data of a tensor without other handles. Does not copy.
    fn into_data(dense: Self::Dense) -> Option<Vec<E>>;
}

/// A backend with both element types of the kernels.
trait CpuKernels: CpuBackend<f32> + CpuBackend<f64> {}
impl<B: CpuBackend<f32> + CpuBackend<f64>> CpuKernels for B {}

macro_rules! floats {
    ($($backend:ident: $feature:literal),+) => {
        /// The numbers of a tensor on Flex or ndarray, in float32 and dense row-major order.
        pub(crate) enum Floats {
            $(#[cfg(feature = $feature)] $backend(<$backend as CpuBackend<f32>>::Dense)),+
        }

        impl Floats {
            /// Copies the numbers only if they are in another type or order.
            pub(crate) fn new(tensor: DispatchTensor) -> Self {
                fn float32<B: CpuBackend<f32>>(tensor: BackendTensor<B>) -> B::Dense {
                    B::dense(cast::<B>(tensor.float(), DType::F32))
                }
                match tensor.kind {
                    $(#[cfg(feature = $feature)]
                    DispatchTensorKind::$backend(tensor) => Self::$backend(float32(tensor)),)+
                    #[allow(unreachable_patterns)] // Without other backends.
                    other => panic!("expected a tensor on flex or ndarray, got {other:?}"),
                }
            }

            /// The numbers of a tensor in float32, of this shape and without autodiff.
            pub(crate) fn plain(tensor: DispatchTensor, shape: &[usize]) -> Option<Self> {
                fn fits(tensor: &impl TensorMetadata, shape: &[usize]) -> bool {
                    tensor.dtype() == DType::F32 && tensor.shape()[..] == *shape
                }
                match tensor.kind {
                    $(#[cfg(feature = $feature)]
                    DispatchTensorKind::$backend(BackendTensor::Float(tensor)) => fits(&tensor, shape)
                        .then(|| Self::$backend(<$backend as CpuBackend<f32>>::dense(tensor))),)+
                    #[allow(unreachable_patterns)] // Without other backends.
                    _ => None,
                }
            }

            /// A tensor on the backend of this one.
            pub(crate) fn tensor(&self, data: Vec<f32>, shape: Shape) -> DispatchTensor {
                let kind = match self {
                    $(#[cfg(feature = $feature)]
                    Self::$backend(_) => {
                        let tensor = <$backend as CpuBackend<f32>>::tensor(data, shape);
                        DispatchTensorKind::$backend(BackendTensor::Float(tensor))
                    })+
                };
                DispatchTensor {
                    kind,
                    autodiff: DispatchAutodiffContext::Disabled,
                }
            }
        }

        impl AsRef<[f32]> for Floats {
            fn as_ref(&self) -> &[f32] {
                match self {
                    $(#[cfg(feature = $feature)] Self::$backend(dense) => dense.as_ref()),+
                }
            }
        }
    };
}
floats!(Flex: "flex", NdArray: "ndarray");

fn forward<B: CpuKernels>(call: GruCall<B>, keep_gates: bool) -> GruSaved<B> {
    if call.has_no_rows() {
        return composed::forward(call, keep_gates);
    }
    match call.inputs.sequence.x.dtype() {
        DType::F64 => run::<B, f64>(call, keep_gates),
        DType::F32 => run::<B, f32>(call, keep_gates),
        dtype => {
            let call = in_float32(call);
            run::<B, f32>(call, keep_gates).map(|tensor| cast::<B>(tensor, dtype))
        }
    }
}

fn gradients<B: CpuKernels>(
    call: GruCall<B>,
    saved: GruSaved<B>,
    d_states: FloatTensor<B>,
    wanted: PerInput<bool>,
) -> GruGradients<B> {
    if call.has_no_rows() {
        return composed::gradients(call, saved, d_states, wanted);
    }
    match call.inputs.sequence.x.dtype() {
        DType::F64 => backward::<B, f64>(call, saved, d_states, wanted),
        DType::F32 => backward::<B, f32>(call, saved, d_states, wanted),
        dtype => {
            let f32 = |tensor| cast::<B>(tensor, DType::F32);
            backward::<B, f32>(in_float32(call), saved.map(f32), f32(d_states), wanted)
                .map(|tensor| cast::<B>(tensor, dtype))
        }
    }
}

/// A call in half precision. It keeps no gate buffer, which would take twice the memory of the gates.
fn in_float32<B: Backend>(call: GruCall<B>) -> GruCall<B> {
    let mut call = call.map(|tensor| cast::<B>(tensor, DType::F32));
    call.memory = None;
    call
}

fn cast<B: Backend>(tensor: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    if tensor.dtype() == dtype {
        return tensor;
    }
    B::float_cast(tensor, dtype.into())
}

fn run<B: CpuBackend<E>, E: Keep>(call: GruCall<B>, keep_gates: bool) -> GruSaved<B> {
    let (gru, memory, lengths) = (gru(&call), call.memory, call.lengths);
    let places = lengths.in_memory(gru.sizes);
    let width = gru.spec.saved_per_unit() * gru.sizes.h;
    let inputs = dense::<B, E>(call.inputs, gru.sizes);
    let mut states = gru_cpu::buffer(places.places() * gru.sizes.h);
    let mut kept = memory.as_deref().map(E::of);
    let mut gates = None;
    if keep_gates {
        let len = places.places() * width;
        let buffer = kept.as_mut().and_then(|kept| kept.take_gates(len));
        gates = Some(buffer.unwrap_or_else(|| gru_cpu::buffer(len)));
    } else if let Some(kept) = &mut kept {
        kept.infer();
    }
    drop(kept);
    let slices = inputs.as_ref().map(AsRef::as_ref);
    gru.forward_ragged(&lengths, &slices, &mut states, gates.as_deref_mut());
    let sequence = |width| shape(places.sequence(gru.order.layout, width));
    GruSaved {
        states: B::tensor(states, sequence(gru.sizes.h)),
        gates: gates.map(|gates| B::tensor(gates, sequence(width))),
    }
}

fn backward<B: CpuBackend<E>, E: Keep>(
    call: GruCall<B>,
    saved: GruSaved<B>,
    d_states: FloatTensor<B>,
    wanted: PerInput<bool>,
) -> GruGradients<B> {
    let (gru, memory, lengths) = (gru(&call), call.memory, call.lengths);
    let inputs = dense::<B, E>(call.inputs, gru.sizes);
    let (states, d_states) = (B::dense(saved.states), B::dense(d_states));
    let gates = saved.gates.map(B::dense);
    let shapes = lengths.shapes(gru.sizes, gru.order.layout);
    let gradients = gru.gradients_ragged(
        &lengths,
        &inputs.as_ref().map(AsRef::as_ref),
        states.as_ref(),
        gates.as_ref().map(AsRef::as_ref),
        d_states.as_ref(),
        wanted,
    );
    if let (Some(gates), Some(memory)) = (gates.and_then(B::into_data), memory) {
        E::of(&memory).give_gates(gates);
    }
    let tensors = gradients.zip(shapes.differentiable()).map(|(data, of)| {
        let (data, of) = data.zip(of)?;
        Some(B::tensor(data, shape(*of)))
    });
    GruGradients(tensors)
}

fn gru<B: Backend>(call: &GruCall<B>) -> Gru {
    Gru {
        sizes: call.sizes(),
        order: call.order,
        spec: call.spec,
    }
}

fn shape(shape: gru_spec::Shape) -> Shape {
    Shape::from(shape.to_vec())
}

/// All inputs, dense.
fn dense<B: CpuBackend<E>, E: Element>(
    mut inputs: Inputs<FloatTensor<B>>,
    sizes: Sizes,
) -> Inputs<B::Dense> {
    let [first, second, _] = inputs.sequence.x.shape().dims();
    // The kernels read one share for each unit.
    let expand = |tensor| B::float_expand(tensor, Shape::new([first, second, sizes.h]));
    inputs.sequence.zoneout = inputs.sequence.zoneout.map(expand);
    inputs.map(B::dense)
}
