//! The small operator of the guide: a linear recurrence with its own backward.

use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::{
    AutodiffBackend, Backend, Dispatch, DispatchTensor, ExtensionType, Flex, TensorMetadata,
    backend_extension, flex::FlexTensor, tensor::FloatTensor,
};
use burn::tensor::{DType, Element, Shape, Tensor, TensorData};
use bytemuck::Pod;
use std::ops::{Add, Mul};

// 1. The operator over primitives.

/// A tensor that may be left out.
#[derive(ExtensionType, Debug, Clone)]
pub enum Given<B: Backend> {
    /// The tensor.
    Yes(FloatTensor<B>),
    /// None.
    No,
}

impl<B: Backend> Given<B> {
    fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Yes(tensor) => Some(tensor),
            Self::No => None,
        }
    }
}

/// Both passes over primitives of a backend: x `[N,T,H]`, a `[H]`, h0 `[N,H]`.
#[backend_extension(Flex, Autodiff)]
pub trait RecurrenceBackend: Backend {
    /// The states, `[N,T,H]`.
    fn recurrence(
        x: FloatTensor<Self>,
        a: FloatTensor<Self>,
        #[extension_type] h0: Given<Self>,
    ) -> FloatTensor<Self> {
        states::<Self>(x, a, h0)
    }

    /// The gradients of `Σ states ⊙ d` with respect to x, a and h0.
    fn recurrence_gradients(
        a: FloatTensor<Self>,
        #[extension_type] h0: Given<Self>,
        states: FloatTensor<Self>,
        d: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        gradients::<Self>(a, h0, states, d)
    }
}

// 2. The specification: both passes made of Burn's operations, for any backend.

/// Step `t` of a sequence, `[N,1,H]`.
fn at<B: Backend>(sequence: &FloatTensor<B>, t: usize) -> FloatTensor<B> {
    B::float_slice(
        sequence.clone(),
        &[(..).into(), (t..t + 1).into(), (..).into()],
    )
}

/// The state before step 0, `[N,1,H]`.
fn initial<B: Backend>(h0: Given<B>, like: &FloatTensor<B>) -> FloatTensor<B> {
    let [n, _, h] = like.shape().dims();
    let shape = Shape::new([n, 1, h]);
    match h0.into_option() {
        Some(h0) => B::float_reshape(h0, shape),
        None => B::float_zeros(shape, &like.device(), like.dtype().into()),
    }
}

fn states<B: Backend>(x: FloatTensor<B>, a: FloatTensor<B>, h0: Given<B>) -> FloatTensor<B> {
    let [n, t, h] = x.shape().dims();
    if n * t * h == 0 {
        return x;
    }
    let a = B::float_reshape(a, Shape::new([1, 1, h]));
    let mut state = initial::<B>(h0, &x);
    let step = |t| {
        state = B::float_add(B::float_mul(a.clone(), state.clone()), at::<B>(&x, t));
        state.clone()
    };
    B::float_cat((0..t).map(step).collect(), 1)
}

fn gradients<B: Backend>(
    a: FloatTensor<B>,
    h0: Given<B>,
    states: FloatTensor<B>,
    d: FloatTensor<B>,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let [n, t, h] = states.shape().dims();
    let zeros = |shape| B::float_zeros(shape, &states.device(), states.dtype().into());
    if n * t * h == 0 {
        return (d, zeros(Shape::new([h])), zeros(Shape::new([n, h])));
    }
    let a = B::float_reshape(a, Shape::new([1, 1, h]));
    let (mut da, mut carry) = (zeros(Shape::new([n, 1, h])), zeros(Shape::new([n, 1, h])));
    let first = initial::<B>(h0, &states);
    let mut dx = vec![carry.clone(); t];
    for t in (0..t).rev() {
        let before = if t == 0 {
            first.clone()
        } else {
            at::<B>(&states, t - 1)
        };
        let dh = B::float_add(at::<B>(&d, t), carry);
        da = B::float_add(da, B::float_mul(dh.clone(), before));
        carry = B::float_mul(a.clone(), dh.clone());
        dx[t] = dh;
    }
    let da = B::float_reshape(B::float_sum_dim(da, 0), Shape::new([h]));
    (
        B::float_cat(dx, 1),
        da,
        B::float_reshape(carry, Shape::new([n, h])),
    )
}

// 3. A backend with kernels.

trait Number: Element + Pod + Add<Output = Self> + Mul<Output = Self> {}
impl Number for f32 {}
impl Number for f64 {}

impl RecurrenceBackend for Flex {
    fn recurrence(x: FlexTensor, a: FlexTensor, h0: Given<Self>) -> FlexTensor {
        match x.dtype() {
            DType::F32 => flex_states::<f32>(x, a, h0),
            DType::F64 => flex_states::<f64>(x, a, h0),
            _ => states::<Self>(x, a, h0),
        }
    }

    fn recurrence_gradients(
        a: FlexTensor,
        h0: Given<Self>,
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

/// The numbers of a tensor in row-major order; copied only where they do not lie so.
fn dense<E: Number>(tensor: &mut FlexTensor) -> &[E] {
    if !tensor.is_contiguous() {
        *tensor = tensor.to_contiguous();
    }
    tensor.as_slice().expect("it is dense, and of this dtype")
}

fn flex_states<E: Number>(mut x: FlexTensor, mut a: FlexTensor, h0: Given<Flex>) -> FlexTensor {
    let shape = x.shape();
    let [_, t, h] = shape.dims();
    let mut first = h0.into_option();
    let (a, first) = (dense::<E>(&mut a), first.as_mut().map(dense::<E>));
    let mut states = dense::<E>(&mut x).to_vec();
    for (n, row) in states.chunks_exact_mut((t * h).max(1)).enumerate() {
        for k in 0..t * h {
            let before = match (k < h, first) {
                (false, _) => row[k - h],
                (true, Some(first)) => first[n * h + k],
                (true, None) => E::zeroed(),
            };
            row[k] = a[k % h] * before + row[k];
        }
    }
    FlexTensor::from_data(TensorData::new(states, shape))
}

fn flex_gradients<E: Number>(
    mut a: FlexTensor,
    h0: Given<Flex>,
    mut states: FlexTensor,
    mut d: FlexTensor,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    let shape = states.shape();
    let [n, t, h] = shape.dims();
    let mut first = h0.into_option();
    let (a, first) = (dense::<E>(&mut a), first.as_mut().map(dense::<E>));
    let states = dense::<E>(&mut states);
    let mut dx = dense::<E>(&mut d).to_vec();
    let (mut da, mut carry) = (vec![E::zeroed(); h], vec![E::zeroed(); n * h]);
    for n in 0..n {
        for k in (0..t * h).rev() {
            let (at, j) = (n * t * h + k, k % h);
            let before = match (k < h, first) {
                (false, _) => states[at - h],
                (true, Some(first)) => first[n * h + j],
                (true, None) => E::zeroed(),
            };
            dx[at] = dx[at] + carry[n * h + j];
            da[j] = da[j] + dx[at] * before;
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

// 4. The backward.

#[derive(Debug)]
struct RecurrenceBackward;

/// What the backward reads; the tensors are shared with the graph, not copied.
#[derive(Debug, Clone)]
struct Saved<B: Backend> {
    a: FloatTensor<B>,
    h0: Given<B>,
    states: FloatTensor<B>,
}

impl<B: RecurrenceBackend> Backward<B, 3> for RecurrenceBackward {
    type State = Saved<B>;

    fn backward(self, ops: Ops<Saved<B>, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d = grads.consume::<B>(&ops.node);
        let Saved { a, h0, states } = ops.state;
        let (dx, da, dh0) = B::recurrence_gradients(a, h0, states, d);
        for (parent, gradient) in ops.parents.into_iter().zip([dx, da, dh0]) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

impl<B: RecurrenceBackend, C: CheckpointStrategy> RecurrenceBackend for Autodiff<B, C> {
    fn recurrence(
        x: FloatTensor<Self>,
        a: FloatTensor<Self>,
        h0: Given<Self>,
    ) -> FloatTensor<Self> {
        let (h0_node, h0) = match h0 {
            Given::Yes(h0) => (h0.node(), Given::Yes(h0.into_primitive())),
            // A constant has a node too; it asks for no gradient.
            Given::No => (Self::from_inner(a.primitive().clone()).node(), Given::No),
        };
        let parents = [x.node(), a.node(), h0_node];
        let a = a.into_primitive();
        let states = B::recurrence(x.into_primitive(), a.clone(), h0.clone());
        let prep = RecurrenceBackward.prepare::<C>(parents);
        match prep.compute_bound().stateful() {
            OpsKind::UnTracked(prep) => prep.finish(states),
            OpsKind::Tracked(prep) => {
                let output = states.clone();
                prep.finish(Saved { a, h0, states }, output)
            }
        }
    }
}

// 5. The function that users call.

/// `h_t = a ⊙ h_{t−1} + x_t`: x `[N,T,H]`, a `[H]` and h0 `[N,H]` to the states `[N,T,H]`.
///
/// # Panics
/// If the shapes do not fit together.
pub fn linear_recurrence(x: Tensor<3>, a: Tensor<1>, h0: Option<Tensor<2>>) -> Tensor<3> {
    let [n, _, h] = x.dims();
    assert_eq!(a.dims(), [h], "linear_recurrence: a must be [H]");
    if let Some(h0) = &h0 {
        assert_eq!(h0.dims(), [n, h], "linear_recurrence: h0 must be [N, H]");
    }
    let h0 = h0.map_or(Given::No, |h0| Given::Yes(h0.into_dispatch()));
    let states = Dispatch::recurrence(x.into_dispatch(), a.into_dispatch(), h0);
    Tensor::from_dispatch(states)
}

// 6. The check.

use burn::tensor::{Device, Distribution, Tolerance};
use gru_op::gradcheck::{Finding, GradCheck};

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &Device::flex())
}

fn assert_same<const D: usize>(actual: DispatchTensor, expected: DispatchTensor) {
    let [actual, expected] =
        [actual, expected].map(|raw| Tensor::<D>::from_dispatch(raw).into_data());
    // Sums of ten numbers of a size near 1, in float32.
    actual.assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
}

fn main() {
    // The kernels against the specification, both passes, on views: none of the inputs is in
    // row-major order.
    let x = random([4, 3, 5]).swap_dims(0, 2).narrow(1, 1, 2);
    let a = random([4, 2]).narrow(1, 1, 1).squeeze_dim::<1>(1);
    let h0 = random([4, 5]).transpose();
    let d = random([2, 5, 4]).swap_dims(0, 1);
    let raw = |tensor: &Tensor<3>| tensor.clone().into_dispatch();
    let raw_a = || a.clone().into_dispatch();
    let raw_h0 = || Given::Yes(h0.clone().into_dispatch());
    let expected = states::<Dispatch>(raw(&x), raw_a(), raw_h0());
    let actual = Dispatch::recurrence(raw(&x), raw_a(), raw_h0());
    assert_same::<3>(actual, expected.clone());
    let of_default = gradients::<Dispatch>(raw_a(), raw_h0(), expected.clone(), raw(&d));
    let of_kernel = Dispatch::recurrence_gradients(raw_a(), raw_h0(), expected, raw(&d));
    assert_same::<3>(of_kernel.0, of_default.0);
    assert_same::<1>(of_kernel.1, of_default.1);
    assert_same::<2>(of_kernel.2, of_default.2);

    // Every number of every gradient against central differences, in float64.
    GradCheck::new()
        .input("x", x.clone())
        .input("a", a.clone())
        .input("h0", h0.clone())
        .check(|at| linear_recurrence(at.get("x"), at.get("a"), Some(at.get("h0"))))
        .assert();

    // Without h0, and with an input that asks for no gradient: it must get none.
    let report = GradCheck::new()
        .input("x", x.clone())
        .constant("a", a.clone())
        .check(|at| linear_recurrence(at.get("x"), at.get("a"), None));
    report.assert();
    assert_eq!(report.input("a").unwrap().finding, Finding::Constant);

    // Nothing to do is no reason to panic.
    for shape in [[0, 4, 3], [2, 0, 3], [2, 4, 0]] {
        let y = linear_recurrence(random(shape), random([shape[2]]), None);
        assert_eq!(y.dims(), shape);
    }
}
