//! A call of the operator on a backend's tensors.

use crate::backend::memory::LayerMemory;
use burn::backend::{
    Backend, BackendTensor, Dispatch, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind,
    ExtensionType, tensor::FloatTensor,
};
use gru_spec::{Checkpointing, GruSpec, Inputs, Lengths, Order, PerInput, Sizes};

/// One layer over one sequence, in one direction.
#[derive(Debug, Clone)]
pub struct GruCall<B: Backend> {
    /// The tensors.
    pub inputs: Inputs<FloatTensor<B>>,
    /// What a step computes.
    pub spec: GruSpec,
    /// Memory layout and time direction.
    pub order: Order,
    /// What training keeps. Only autodiff reads it.
    pub checkpointing: Checkpointing,
    /// The length of each row. Past the end of a row nothing is read: not `x`, not the gradient of the states. The
    /// states and the gradient of `x` are zero there, and gates have no meaning.
    pub lengths: Lengths,
    /// What the layer keeps between calls.
    pub(crate) memory: LayerMemory,
}

/// What forward saves for backward.
#[derive(Debug, Clone)]
pub struct GruSaved<B: Backend> {
    /// The state after every step, `[N,T,H]` or `[T,N,H]`.
    pub states: FloatTensor<B>,
    /// The gates in the order of the states: `r | z | n | q_n`, `[…,4H]`, for reset-after, and `r | z | n`,
    /// `[…,3H]`, for reset-before. If absent, backward recomputes them.
    pub gates: Option<FloatTensor<B>>,
}

/// The requested gradients, each in the shape of its input.
#[derive(Debug, Clone)]
pub struct GruGradients<B: Backend>(pub PerInput<Option<FloatTensor<B>>>);

impl<B: Backend> GruCall<B> {
    /// A call in batch-major layout and forward in time.
    pub fn new(inputs: Inputs<FloatTensor<B>>, spec: GruSpec) -> Self {
        Self {
            inputs,
            spec,
            order: Order::default(),
            checkpointing: Checkpointing::default(),
            lengths: Lengths::All,
            memory: None,
        }
    }

    /// The sizes. Without an input weight, I is the number of features of the projected sequence, 3H.
    pub fn sizes(&self) -> Sizes {
        use burn::backend::TensorMetadata;
        let [first, second, i] = self.inputs.sequence.x.shape().dims();
        let [h, _] = self.inputs.weights.w_hh.shape().dims();
        let [n, t] = self.lengths.batch(self.order.layout, [first, second]);
        Sizes { n, t, i, h }
    }

    /// Whether there are no rows. The number of their steps may then be any number.
    pub(crate) fn has_no_rows(&self) -> bool {
        self.sizes().n == 0 && !matches!(self.lengths, Lengths::Packed(_))
    }

    /// Applies a function to each tensor.
    pub fn map<C: Backend>(self, f: impl FnMut(FloatTensor<B>) -> FloatTensor<C>) -> GruCall<C> {
        GruCall {
            inputs: self.inputs.map(f),
            spec: self.spec,
            order: self.order,
            checkpointing: self.checkpointing,
            lengths: self.lengths,
            memory: self.memory,
        }
    }

    fn tensors(&self) -> impl Iterator<Item = &FloatTensor<B>> {
        self.inputs.iter()
    }
}

/// Whether a buffer of these sizes can be addressed, at eight bytes an element. A size of zero does not excuse the
/// others: their products are computed, too.
pub(crate) fn is_addressable(sizes: &[usize]) -> bool {
    let bytes = sizes
        .iter()
        .try_fold(8usize, |all, &size| all.checked_mul(size.max(1)));
    bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok())
}

impl<B: Backend> GruSaved<B> {
    /// Applies a function to each tensor.
    pub fn map<C: Backend>(
        self,
        mut f: impl FnMut(FloatTensor<B>) -> FloatTensor<C>,
    ) -> GruSaved<C> {
        GruSaved {
            states: f(self.states),
            gates: self.gates.map(f),
        }
    }

    fn tensors(&self) -> impl Iterator<Item = &FloatTensor<B>> {
        [&self.states].into_iter().chain(&self.gates)
    }
}

impl<B: Backend> GruGradients<B> {
    /// Applies a function to each tensor.
    pub fn map<C: Backend>(
        self,
        mut f: impl FnMut(FloatTensor<B>) -> FloatTensor<C>,
    ) -> GruGradients<C> {
        GruGradients(self.0.map(|gradient| gradient.map(&mut f)))
    }

    fn tensors(&self) -> impl Iterator<Item = &FloatTensor<B>> {
        self.0.as_ref().into_array().into_iter().flatten()
    }
}

/// Passes a type through Burn's dispatch, tensor by tensor. Burn's derive supports neither generic nor optional
/// tensors.
macro_rules! extension_type {
    ($($name:ident),+) => {$(
        impl<B: Backend> ExtensionType<B> for $name<B> {
            type Target = $name<Dispatch>;

            fn map_to_dispatch<F>(
                self,
                map_kind: F,
                autodiff: DispatchAutodiffContext,
            ) -> Self::Target
            where
                F: Fn(BackendTensor<B>) -> DispatchTensorKind,
            {
                self.map(|tensor| DispatchTensor {
                    kind: map_kind(BackendTensor::Float(tensor)),
                    autodiff,
                })
            }

            fn map_from_dispatch<F>(target: Self::Target, unwrap_kind: F) -> Self
            where
                F: Fn(DispatchTensor) -> BackendTensor<B>,
            {
                target.map(|tensor| unwrap_kind(tensor).float())
            }

            fn routing_tensor(target: &Self::Target) -> Option<&DispatchTensor> {
                target.tensors().next()
            }

            fn routing_float_tensor(target: &Self::Target) -> Option<&DispatchTensor> {
                target.tensors().next()
            }

            fn autodiff_context(target: &Self::Target) -> DispatchAutodiffContext {
                target
                    .tensors()
                    .fold(DispatchAutodiffContext::Disabled, |context, tensor| {
                        context.merge(tensor.autodiff)
                    })
            }
        }
    )+};
}
extension_type!(GruCall, GruSaved, GruGradients);
