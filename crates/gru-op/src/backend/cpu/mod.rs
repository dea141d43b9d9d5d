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
use burn::backend::{
    Backend, BackendTensor, DispatchTensor, DispatchTensorKind, TensorMetadata, tensor::FloatTensor,
};
use burn::tensor::{DType, Shape};
use gru_cpu::{Element, Gru};
use gru_spec::{Inputs, PerInput, Sizes};
use memory::Keep;

/// A backend whose tensors of `E` are slices in this process.
trait CpuBackend<E: Element>: Backend {
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

/// The numbers of a tensor on Flex or ndarray, in float32 and dense row-major order. Copies them only if they are in
/// another type or order.
pub(crate) fn floats(tensor: DispatchTensor) -> Box<dyn AsRef<[f32]>> {
    fn float32<B: CpuBackend<f32>>(tensor: BackendTensor<B>) -> B::Dense {
        B::dense(cast::<B>(tensor.float(), DType::F32))
    }
    match tensor.kind {
        #[cfg(feature = "flex")]
        DispatchTensorKind::Flex(tensor) => Box::new(float32(tensor)),
        #[cfg(feature = "ndarray")]
        DispatchTensorKind::NdArray(tensor) => Box::new(float32(tensor)),
        #[allow(unreachable_patterns)] // Without other backends.
        other => panic!("expected a tensor on flex or ndarray, got {other:?}"),
    }
}

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
    let mut states = gru_cpu::buffer(places.rows() * gru.sizes.h);
    let mut kept = memory.as_deref().map(E::of);
    let mut gates = None;
    if keep_gates {
        let len = places.rows() * width;
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
    let shapes = wanted.zip(shapes.differentiable()).map(|(wanted, shape)| {
        let shape = shape.copied();
        shape.filter(|_| wanted)
    });
    let mut gradients = shapes.map(|shape| shape.map(|shape| gru_cpu::buffer(shape.elements())));
    gru.backward_ragged(
        &lengths,
        &inputs.as_ref().map(AsRef::as_ref),
        states.as_ref(),
        gates.as_ref().map(AsRef::as_ref),
        d_states.as_ref(),
        gradients.as_mut().map(Option::as_deref_mut),
    );
    if let (Some(gates), Some(memory)) = (gates.and_then(B::into_data), memory) {
        E::of(&memory).give_gates(gates);
    }
    let tensors = gradients.zip(shapes).map(|(data, of)| {
        let (data, of) = data.zip(of)?;
        Some(B::tensor(data, shape(of)))
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
