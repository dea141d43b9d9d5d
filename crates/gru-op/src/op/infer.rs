//! Inference on Flex and ndarray: all layers in one call of `gru-cpu`, from tensors to slices and back. The weights stay
//! where they are. Everything unusual takes the general path, which also has the texts of all errors.

use crate::{
    backend::cpu::Floats,
    backend::is_addressable,
    op::options::{GruWeights, Padding, SequenceOptions},
    op::padding::{before_the_first, zeroed},
    op::sequence::optional,
    op::shape,
};
use burn::{
    backend::DispatchDevice,
    tensor::{Bool, DType, Device, Tensor},
};
use gru_cpu::{Layers, StackInputs, StackLayer};
use gru_spec::{Direction, GruSpec, Layout, Order, Weights};
use std::mem::discriminant;

/// Whether the kernels of `gru-cpu` run on this device.
pub(crate) fn is_on_cpu(device: &Device) -> bool {
    match device.as_dispatch() {
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => true,
        #[cfg(feature = "ndarray")]
        DispatchDevice::NdArray(_) => true,
        #[allow(unreachable_patterns)] // Without other backends.
        _ => false,
    }
}

/// A layer whose weights are plain.
pub(crate) struct PlainLayer {
    spec: GruSpec,
    direction: Direction,
    /// The share of the previous state that is kept.
    zoneout: f32,
    weights: Weights<Floats>,
}

/// Recognizes plain tensors: in float32, on a CPU device, without autodiff.
pub(crate) struct Plain(Device);

impl Plain {
    /// The device of `x`, if `x` is plain, and a sequence with these dimensions has steps and fits in memory.
    pub(crate) fn like<const D: usize>(
        x: &Tensor<D>,
        [first, second, i]: [usize; 3],
        h: usize,
    ) -> Option<Self> {
        let device = x.device();
        let is_plain = is_on_cpu(&device) && !device.is_autodiff() && x.dtype() == DType::F32;
        let fits = first * second * h > 0 && is_addressable(&[first, second, i.max(4 * h)]);
        (is_plain && fits).then_some(Self(device))
    }

    /// Whether a tensor is absent, or plain and on the same device.
    pub(crate) fn has<const D: usize>(&self, tensor: &Option<Tensor<D>>) -> bool {
        let is_plain = |tensor: &Tensor<D>| {
            let device = tensor.device();
            device == self.0 && !device.is_autodiff() && tensor.dtype() == DType::F32
        };
        tensor.as_ref().is_none_or(is_plain)
    }

    /// A layer with these sizes, I and H, if its options are valid and its weights are plain, on the same device.
    pub(crate) fn layer(
        &self,
        [i, h]: [usize; 2],
        weights: GruWeights,
        (spec, direction, zoneout): (&GruSpec, Direction, f64),
    ) -> Option<PlainLayer> {
        let gates = h.checked_mul(3)?;
        let is_valid = spec.try_check().is_ok() && (0.0..=1.0).contains(&zoneout);
        let is_here = weights.w_hh.device() == self.0;
        let GruWeights {
            w_ih,
            w_hh,
            b_ih,
            b_hh,
        } = weights;
        let bias = |bias: Option<Tensor<1>>| match bias {
            Some(bias) => Floats::plain(bias.into_dispatch(), &[gates]).map(Some),
            None => Some(None),
        };
        let weights = Weights {
            w_ih: Some(Floats::plain(w_ih?.into_dispatch(), &[i, gates])?),
            w_hh: Floats::plain(w_hh.into_dispatch(), &[h, gates])?,
            b_ih: bias(b_ih)?,
            b_hh: bias(b_hh)?,
        };
        let of_w_hh = discriminant(&weights.w_hh);
        let others = [&weights.w_ih, &weights.b_ih, &weights.b_hh];
        let mut others = others.iter().copied().flatten();
        let is_here = is_here && others.all(|of| discriminant(of) == of_w_hh);
        (is_valid && is_here).then_some(PlainLayer {
            spec: *spec,
            direction,
            zoneout: zoneout as f32,
            weights,
        })
    }
}

/// Runs layers whose weights stay where they are, in D directions.
pub(crate) fn infer<const D: usize, const S: usize>(
    [i, h]: [usize; 2],
    directions: usize,
    layers: &[PlainLayer],
    x: Tensor<D>,
    dims: [usize; 2],
    options: SequenceOptions<S>,
) -> (Tensor<D>, Tensor<S>) {
    let of_stack = layers.iter().map(|layer| StackLayer {
        spec: layer.spec,
        direction: layer.direction,
        zoneout: layer.zoneout,
        weights: layer.weights.as_ref().map(Floats::as_ref),
    });
    let of_stack: Vec<_> = of_stack.collect();
    let kernels = Layers::try_new([i, h], directions, &of_stack);
    let kernels = kernels.expect("plain layers are valid");
    let of_last = of_stack[layers.len() - directions..].iter();
    let outputs = Outputs {
        h,
        layers: layers.len(),
        directions: &of_last.map(|layer| layer.direction).collect::<Vec<_>>(),
        dtype: DType::F32,
    };
    outputs.of(x, dims, options, |layout, batch, inputs, y, last| {
        kernels.forward(layout, batch, inputs, y, last);
    })
}

/// The results of a call.
pub(crate) struct Outputs<'a> {
    /// H, units of each layer and direction.
    pub(crate) h: usize,
    /// L·D, layers times directions.
    pub(crate) layers: usize,
    /// The directions of the last layer.
    pub(crate) directions: &'a [Direction],
    /// The dtype of the results.
    pub(crate) dtype: DType,
}

impl Outputs<'_> {
    /// Calls the kernels. `x` is a sequence with these first dimensions, or a step `[N,I]`, and the output likewise. The
    /// state is `[L·D,N,H]`, or `[N,H]` for one layer. The arguments were checked.
    pub(crate) fn of<const D: usize, const S: usize>(
        &self,
        x: Tensor<D>,
        dims: [usize; 2],
        options: SequenceOptions<S>,
        run: impl FnOnce(Layout, [usize; 2], StackInputs<'_>, &mut [f32], &mut [f32]),
    ) -> (Tensor<D>, Tensor<S>) {
        let &Self { h, layers, .. } = self;
        let (layout, width) = (options.order.layout, self.directions.len() * h);
        let [n, t] = options.padding.batch(layout, dims);
        let last_shape = [layers, n, h];
        let last_shape: [usize; S] = std::array::from_fn(|at| last_shape[at + 3 - S]);
        let mut y_shape = x.dims();
        y_shape[D - 1] = width;
        let x = Floats::new(x.into_dispatch());
        let state = optional(options.state).map(Floats::new);
        let start_state = options.starts.state;
        let start_state = start_state.map(|state| shape::expand(state, last_shape));
        let start_state = optional(start_state).map(Floats::new);
        let starts = options.starts.flags;
        let start_flags = starts.clone().map(flags);
        let mask = match &options.padding {
            Padding::Mask(mask) => Some(flags(mask.clone())),
            Padding::None | Padding::Lengths(_) => None,
        };
        let mut y = gru_cpu::buffer(dims[0] * dims[1] * width);
        let mut last = gru_cpu::buffer(layers * n * h);
        let inputs = StackInputs {
            x: x.as_ref(),
            lengths: &options.padding.lengths(t),
            state: state.as_ref().map(Floats::as_ref),
            step_mask: mask.as_deref(),
            starts: start_flags.as_deref(),
            start_state: start_state.as_ref().map(Floats::as_ref),
        };
        run(layout, [n, t], inputs, &mut y, &mut last);
        let y = self.tensor(&x, y, y_shape);
        let y = match options.padding {
            Padding::Mask(mask) if n * t > 0 => {
                let y = Tensor::<3>::from_dispatch(y.into_dispatch());
                let parts = self.directions.iter().enumerate().map(|(d, &direction)| {
                    let order = Order { layout, direction };
                    let without_output = before_the_first(mask.clone(), starts.clone(), order);
                    zeroed(y.clone().narrow(2, d * h, h), without_output)
                });
                Tensor::from_dispatch(shape::cat(parts.collect(), 2).into_dispatch())
            }
            _ => y,
        };
        (y, self.tensor(&x, last, last_shape))
    }

    /// A tensor on the backend of `x`.
    fn tensor<const D: usize>(&self, x: &Floats, values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
        let tensor = Tensor::from_dispatch(x.tensor(values, shape.into()));
        if self.dtype == DType::F32 {
            tensor
        } else {
            tensor.cast(self.dtype)
        }
    }
}

/// 1 where a flag is set.
fn flags(tensor: Tensor<2, Bool>) -> Vec<f32> {
    tensor.into_data().iter::<bool>().map(f32::from).collect()
}
