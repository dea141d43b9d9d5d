//! The CPU backends: tensors in, slices through `gru-cpu`, tensors out.
//!
//! One code for ndarray and Flex; a backend says how its tensors become slices and back. Half
//! precision is for storage: states and gates are kept in it, and all arithmetic is in float32.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "ndarray")]
mod ndarray;
mod packed;
mod run;
mod spare;

use crate::{
    GruForward, GruGradients, GruInputs, OptionalTensor, Wanted,
    spec::{GruSpec, Layout, Memory},
};
use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use gru_cpu::{Dims, Element, Gradients, Inputs, PackedWeights, Sequence};
use packed::{Cache, Storage};
use run::run_on_slices;
use spare::Spares;

/// Frees the memory that the CPU backends keep for the next call; its bytes.
///
/// A training step writes its gates where the step before had them. What is kept for that is at
/// most twice the gates that were in use at once, and is freed by itself when 256 calls of the
/// operator have not wanted it. Inference over at most 256 rows (N·T), on Flex, keeps its weights once
/// more, in the order of the kernels; when they are changed or gone, that is freed by the next call
/// with other weights or for training. After training, or before something else that needs the memory,
/// this frees all of it now. Gates in use, and those of other devices, are left alone.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use gru_op::GruBlockConfig;
///
/// let device = Device::flex().autodiff();
/// let gru = GruBlockConfig::new(8, 128).init(&device);
/// let x = Tensor::<3>::ones([16, 64, 8], &device);
/// gru.forward(x, None).0.mean().backward();
///
/// let gates = 4 * 16 * 64 * 128 * size_of::<f32>();
/// assert!(gru_op::release_memory() >= gates);
/// assert_eq!(gru_op::release_memory(), 0);
/// ```
pub fn release_memory() -> usize {
    fn of<E: Keep>() -> usize {
        E::spares().release() + E::packed().release()
    }
    of::<f32>() + of::<f64>()
}

/// A backend whose tensors of `E` are slices in the memory of this process.
trait CpuBackend<E: Element>: Backend {
    /// A tensor in dense row-major order.
    type Dense: AsRef<[E]>;

    /// Brings a tensor into dense row-major order, without a copy where it already is.
    fn dense(tensor: FloatTensor<Self>) -> Self::Dense;

    /// A tensor made of `data`, without a copy.
    fn tensor(data: Vec<E>, shape: Shape) -> FloatTensor<Self>;

    /// The data of a tensor that nobody else holds, without a copy.
    fn into_data(dense: Self::Dense) -> Option<Vec<E>>;

    /// Where the numbers of a tensor are, if others hold it too, and the backend can tell when they
    /// change.
    fn storage(tensor: &FloatTensor<Self>) -> Option<Storage>;
}

/// A float type, and what is kept of it from call to call.
trait Keep: Element {
    /// Memory of gates.
    fn spares() -> &'static Spares<Self>;

    /// Packed weights.
    fn packed() -> &'static Cache<Self>;
}

macro_rules! keep {
    ($t:ty) => {
        impl Keep for $t {
            fn spares() -> &'static Spares<Self> {
                static SPARES: Spares<$t> = Spares::new();
                &SPARES
            }

            fn packed() -> &'static Cache<Self> {
                static PACKED: Cache<$t> = Cache::new();
                &PACKED
            }
        }
    };
}
keep!(f32);
keep!(f64);

/// A backend with both kernel types.
trait CpuKernels: CpuBackend<f32> + CpuBackend<f64> {}
impl<B: CpuBackend<f32> + CpuBackend<f64>> CpuKernels for B {}

fn states<B: CpuKernels>(inputs: GruInputs<B>, spec: GruSpec) -> FloatTensor<B> {
    match inputs.x.dtype() {
        DType::F64 => forward::<B, f64>(inputs, &spec, false).states,
        dtype => {
            let inputs = inputs.map(|tensor| cast::<B>(tensor, DType::F32));
            cast::<B>(forward::<B, f32>(inputs, &spec, false).states, dtype)
        }
    }
}

fn states_and_gates<B: CpuKernels>(inputs: GruInputs<B>, spec: GruSpec) -> GruForward<B> {
    let dtype = inputs.x.dtype();
    let (states, gates) = match dtype {
        DType::F64 => forward::<B, f64>(inputs, &spec, true).parts(),
        _ => {
            let inputs = inputs.map(|tensor| cast::<B>(tensor, DType::F32));
            forward::<B, f32>(inputs, &spec, true).parts()
        }
    };
    GruForward {
        states: cast::<B>(states, dtype),
        gates: cast::<B>(gates, dtype),
    }
}

fn gradients<B: CpuKernels>(
    inputs: GruInputs<B>,
    states: FloatTensor<B>,
    gates: OptionalTensor<B>,
    d_states: FloatTensor<B>,
    spec: GruSpec,
    wanted: Wanted,
) -> GruGradients<B> {
    match inputs.x.dtype() {
        DType::F64 => backward::<B, f64>(inputs, states, gates, d_states, &spec, wanted),
        dtype => {
            let f32 = |tensor| cast::<B>(tensor, DType::F32);
            let (inputs, gates) = (inputs.map(f32), gates.map(f32));
            backward::<B, f32>(inputs, f32(states), gates, f32(d_states), &spec, wanted)
                .map(|tensor| cast::<B>(tensor, dtype))
        }
    }
}

/// The tensor in a dtype; itself where it has that already.
fn cast<B: Backend>(tensor: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    if tensor.dtype() == dtype {
        return tensor;
    }
    B::float_cast(tensor, dtype.into())
}

struct Forward<B: Backend> {
    states: FloatTensor<B>,
    gates: Option<FloatTensor<B>>,
}

impl<B: Backend> Forward<B> {
    fn parts(self) -> (FloatTensor<B>, FloatTensor<B>) {
        let gates = self.gates.expect("gates were asked for");
        (self.states, gates)
    }
}

fn forward<B: CpuBackend<E>, E: Keep>(
    inputs: GruInputs<B>,
    spec: &GruSpec,
    keep: bool,
) -> Forward<B> {
    if !keep {
        E::spares().pass();
    }
    // In training each step has other weights.
    if keep || spec.memory == Memory::Lean {
        E::packed().tidy();
    } else if let Some(weights) = E::packed().weights::<B>(&inputs, spec) {
        return forward_packed(inputs, spec, &weights);
    }
    let call = Call::<B, E>::new(inputs, spec);
    let Dims { h, .. } = call.rows.dims;
    let units = call.rows.dims.rows() * h;
    let mut states = gru_cpu::buffer(units);
    let mut gates = keep.then(|| E::spares().take(units * spec.saved_per_unit()));
    gru_cpu::forward(
        &call.rows.dims,
        spec,
        &call.inputs(),
        &mut states,
        gates.as_deref_mut(),
    );
    let gates = gates.map(|gates| B::tensor(gates, call.rows.shape(h * spec.saved_per_unit())));
    Forward {
        states: B::tensor(states, call.rows.shape(h)),
        gates,
    }
}

/// The same with weights that are packed already; those of `inputs` are not looked at.
fn forward_packed<B: CpuBackend<E>, E: Keep>(
    inputs: GruInputs<B>,
    spec: &GruSpec,
    weights: &PackedWeights<E>,
) -> Forward<B> {
    let rows = Rows::<B, E>::new(inputs, spec).0;
    let Dims { n, t, h, .. } = rows.dims;
    let mut states = gru_cpu::buffer(rows.dims.rows() * h);
    let (layout, direction) = (spec.layout, spec.direction);
    weights.forward_in(layout, direction, n, t, rows.sequence(), &mut states);
    Forward {
        states: B::tensor(states, rows.shape(h)),
        gates: None,
    }
}

fn backward<B: CpuBackend<E>, E: Keep>(
    inputs: GruInputs<B>,
    states: FloatTensor<B>,
    gates: OptionalTensor<B>,
    d_states: FloatTensor<B>,
    spec: &GruSpec,
    wanted: Wanted,
) -> GruGradients<B> {
    let call = Call::<B, E>::new(inputs, spec);
    let Dims { n, i, h, .. } = call.rows.dims;
    let (states, d_states) = (B::dense(states), B::dense(d_states));
    let buffer = |wanted: bool, len: usize| wanted.then(|| gru_cpu::buffer(len));
    let mut x = buffer(wanted.x, call.rows.x.as_ref().len());
    let mut h0 = buffer(wanted.h0, n * h);
    let mut w_ih = buffer(wanted.w_ih, i * 3 * h);
    let mut w_hh = buffer(wanted.w_hh, h * 3 * h);
    let mut b_ih = buffer(wanted.b_ih, 3 * h);
    let mut b_hh = buffer(wanted.b_hh, 3 * h);
    let gates = gates.into_option().map(B::dense);
    gru_cpu::backward(
        &call.rows.dims,
        spec,
        &call.inputs(),
        states.as_ref(),
        gates.as_ref().map(AsRef::as_ref),
        d_states.as_ref(),
        Gradients::none()
            .with_x(x.as_deref_mut())
            .with_h0(h0.as_deref_mut())
            .with_w_ih(w_ih.as_deref_mut())
            .with_w_hh(w_hh.as_deref_mut())
            .with_b_ih(b_ih.as_deref_mut())
            .with_b_hh(b_hh.as_deref_mut()),
    );
    if let Some(gates) = gates.and_then(B::into_data) {
        E::spares().give(gates);
    }
    let out = |data: Option<Vec<E>>, shape: &[usize]| {
        OptionalTensor::from(data.map(|data| B::tensor(data, Shape::from(shape.to_vec()))))
    };
    GruGradients {
        x: OptionalTensor::from(x.map(|x| B::tensor(x, call.rows.x_shape.clone()))),
        h0: out(h0, &[n, h]),
        w_ih: out(w_ih, &[i, 3 * h]),
        w_hh: out(w_hh, &[h, 3 * h]),
        b_ih: out(b_ih, &[3 * h]),
        b_hh: out(b_hh, &[3 * h]),
    }
}

/// What a call reads beside the weights, in dense order, and all sizes.
struct Rows<B: CpuBackend<E>, E: Element> {
    dims: Dims,
    layout: Layout,
    x_shape: Shape,
    x: B::Dense,
    h0: Option<B::Dense>,
    mask: Option<B::Dense>,
    valid: Option<B::Dense>,
    take: Option<B::Dense>,
}

/// The weights of a call, in whatever order.
struct Weights<B: Backend> {
    w_ih: OptionalTensor<B>,
    w_hh: FloatTensor<B>,
    b_ih: OptionalTensor<B>,
    b_hh: OptionalTensor<B>,
}

impl<B: CpuBackend<E>, E: Element> Rows<B, E> {
    fn new(inputs: GruInputs<B>, spec: &GruSpec) -> (Self, Weights<B>) {
        let x_shape = inputs.x.shape();
        let [first, second, _] = x_shape.dims();
        let dims = dims(&inputs, spec);
        let dense = |tensor: OptionalTensor<B>| tensor.into_option().map(B::dense);
        let rows = Self {
            dims,
            layout: spec.layout,
            x_shape,
            x: B::dense(inputs.x),
            h0: dense(inputs.h0),
            mask: dense(inputs.mask),
            valid: dense(inputs.valid),
            // One share for all units of a row is written out.
            take: dense(
                inputs
                    .take
                    .map(|take| B::float_expand(take, Shape::new([first, second, dims.h]))),
            ),
        };
        let weights = Weights {
            w_ih: inputs.w_ih,
            w_hh: inputs.w_hh,
            b_ih: inputs.b_ih,
            b_hh: inputs.b_hh,
        };
        (rows, weights)
    }

    fn sequence(&self) -> Sequence<'_, E> {
        Sequence::new(self.x.as_ref())
            .with_h0(self.h0.as_ref().map(AsRef::as_ref))
            .with_mask(self.mask.as_ref().map(AsRef::as_ref))
            .with_valid(self.valid.as_ref().map(AsRef::as_ref))
            .with_take(self.take.as_ref().map(AsRef::as_ref))
    }

    /// The shape of a sequence with so many features.
    fn shape(&self, features: usize) -> Shape {
        let Dims { n, t, .. } = self.dims;
        let [first, second] = self.layout.split([n, t]);
        Shape::new([first, second, features])
    }
}

/// The sizes of a call.
fn dims<B: Backend>(inputs: &GruInputs<B>, spec: &GruSpec) -> Dims {
    let [first, second, i] = inputs.x.shape().dims();
    let [h, _] = inputs.w_hh.shape().dims();
    let [n, t] = spec.layout.split([first, second]);
    Dims { n, t, i, h }
}

/// The weights of a call in dense order.
struct DenseWeights<B: CpuBackend<E>, E: Element> {
    w_ih: Option<B::Dense>,
    w_hh: B::Dense,
    b_ih: Option<B::Dense>,
    b_hh: Option<B::Dense>,
}

impl<B: CpuBackend<E>, E: Element> DenseWeights<B, E> {
    fn new(weights: Weights<B>) -> Self {
        let dense = |tensor: OptionalTensor<B>| tensor.into_option().map(B::dense);
        Self {
            w_ih: dense(weights.w_ih),
            w_hh: B::dense(weights.w_hh),
            b_ih: dense(weights.b_ih),
            b_hh: dense(weights.b_hh),
        }
    }

    fn slices(&self) -> gru_cpu::Weights<'_, E> {
        let w_ih = self.w_ih.as_ref().map(AsRef::as_ref);
        gru_cpu::Weights::new(w_ih, self.w_hh.as_ref())
            .with_b_ih(self.b_ih.as_ref().map(AsRef::as_ref))
            .with_b_hh(self.b_hh.as_ref().map(AsRef::as_ref))
    }
}

/// All that a call reads, in dense order.
struct Call<B: CpuBackend<E>, E: Element> {
    rows: Rows<B, E>,
    weights: DenseWeights<B, E>,
}

impl<B: CpuBackend<E>, E: Element> Call<B, E> {
    fn new(inputs: GruInputs<B>, spec: &GruSpec) -> Self {
        let (rows, weights) = Rows::new(inputs, spec);
        Self {
            rows,
            weights: DenseWeights::new(weights),
        }
    }

    fn inputs(&self) -> Inputs<'_, E> {
        Inputs {
            sequence: self.rows.sequence(),
            weights: self.weights.slices(),
        }
    }
}
