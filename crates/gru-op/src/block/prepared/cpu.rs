//! A prepared block on Flex and ndarray: from tensors to slices for `gru-cpu`, and back.

use super::{PreparedGru, is_on_cpu};
use crate::{
    GruBlock, GruError,
    backend::cpu::floats,
    op::options::{GruWeights, Padding, SequenceOptions},
    op::padding::{before_the_first, zeroed},
    op::sequence::optional,
    op::shape,
};
use burn::{
    backend::{DispatchTensor, TensorMetadata},
    module::Module,
    tensor::{Bool, DType, Tensor, TensorData},
};
use gru_cpu::{CallError, Stack, StackInputs, StackLayer};
use gru_spec::{Layout, Order, Precision};
use std::mem::discriminant;

/// From this number of rows, N·T, a block and its prepared form return the same bits.
const ROWS_OF_EQUAL_BITS: usize = 64;

impl GruBlock {
    /// The block prepared for a call in inference on `x`, if the outputs of a layer have as many elements as all weights.
    /// This is faster and returns the same bits: the layers of a prepared block share two buffers, and both directions
    /// of a layer write to one of them.
    pub(in crate::block) fn prepared_for(
        &self,
        x: &Tensor<3>,
        options: &SequenceOptions<3>,
    ) -> Option<PreparedGru> {
        let [first, second, _] = x.dims();
        let rows = first * second;
        let is_supported = is_on_cpu(&x.device()) && x.dtype() == DType::F32;
        let kind = discriminant(&x.clone().into_dispatch().kind);
        if self.layers.len() == 1 || rows < ROWS_OF_EQUAL_BITS || !is_supported {
            return None;
        }
        // From here on, the copy of all weights takes less memory and time than it saves.
        if rows * self.directions() * self.d_hidden < self.num_params() {
            return None;
        }
        // Autodiff is another kind of tensor.
        let mut is_like_x = true;
        let mut compare = |tensor: DispatchTensor| {
            is_like_x &= (discriminant(&tensor.kind), tensor.dtype()) == (kind, DType::F32);
        };
        for weights in self.weights() {
            weights.into_dispatch().map(&mut compare);
        }
        for state in [&options.state, &options.starts.state] {
            optional(state.clone()).map(&mut compare);
        }
        if !is_like_x {
            return None;
        }
        let memories = self.layers.iter().filter_map(|layer| layer.memory.as_ref());
        memories.for_each(|memory| memory.infer());
        self.try_prepare(Precision::Full).ok()
    }
}

/// Packs the weights of a block.
pub(super) fn stack(
    block: &GruBlock,
    weights: Vec<GruWeights>,
    precision: Precision,
) -> Result<Stack, GruError> {
    let h = block.d_hidden;
    let mut of_layers = Vec::new();
    for (k, weights) in weights.into_iter().enumerate() {
        let weights = weights.into_dispatch();
        for (name, tensor) in [
            ("w_ih", weights.w_ih.as_ref()),
            ("w_hh", Some(&weights.w_hh)),
            ("b_ih", weights.b_ih.as_ref()),
            ("b_hh", weights.b_hh.as_ref()),
        ] {
            if tensor.is_some_and(|tensor| tensor.dtype() == DType::F64) {
                let name = format!("layers.{k}.{name}");
                return Err(GruError::Float64 { name });
            }
        }
        of_layers.push(weights.map(floats));
    }
    let layers = block.layers.iter().zip(&of_layers);
    let layers: Vec<_> = layers
        .map(|(layer, weights)| StackLayer {
            spec: layer.spec,
            direction: layer.direction,
            zoneout: layer.zoneout as f32,
            weights: weights.as_ref().map(|values| (**values).as_ref()),
        })
        .collect();
    let stack = Stack::try_new(precision, [block.d_input, h], block.directions(), &layers);
    stack.map_err(|error| match error {
        CallError::NotFinite { layer, matrix } => GruError::NotFinite {
            name: format!("layers.{layer}.{matrix}"),
        },
        other => GruError::Config {
            reason: other.to_string(),
        },
    })
}

/// A sequence in this layout. The arguments were checked.
pub(super) fn forward(
    prepared: &PreparedGru,
    stack: &Stack,
    x: Tensor<3>,
    layout: Layout,
    options: SequenceOptions<3>,
) -> (Tensor<3>, Tensor<3>) {
    let [first, second, _] = x.dims();
    let [n, t] = options.padding.batch(layout, [first, second]);
    let (h, width) = (stack.units(), stack.directions() * stack.units());
    let last_shape = [stack.layer_count(), n, h];
    let x = floats(x.into_dispatch());
    let state = optional(options.state).map(floats);
    let start_state = options.starts.state;
    let start_state = start_state.map(|state| shape::expand(state, last_shape));
    let start_state = optional(start_state).map(floats);
    let starts = options.starts.flags;
    let start_flags = starts.clone().map(flags);
    let mask = match &options.padding {
        Padding::Mask(mask) => Some(flags(mask.clone())),
        Padding::None | Padding::Lengths(_) => None,
    };
    let mut y = gru_cpu::buffer(first * second * width);
    let mut last = gru_cpu::buffer(last_shape.iter().product());
    let inputs = StackInputs {
        x: (*x).as_ref(),
        lengths: &options.padding.lengths(t),
        state: state.as_deref().map(AsRef::as_ref),
        step_mask: mask.as_deref(),
        starts: start_flags.as_deref(),
        start_state: start_state.as_deref().map(AsRef::as_ref),
    };
    stack.forward(layout, [n, t], inputs, &mut y, &mut last);
    let y = prepared.tensor(y, [first, second, width]);
    let y = match options.padding {
        Padding::Mask(mask) if n * t > 0 => {
            // Of the last layer.
            let directions = stack.layer_count() - stack.directions()..stack.layer_count();
            let parts = directions.enumerate().map(|(d, k)| {
                let direction = stack.direction(k);
                let order = Order { layout, direction };
                let without_output = before_the_first(mask.clone(), starts.clone(), order);
                zeroed(y.clone().narrow(2, d * h, h), without_output)
            });
            shape::cat(parts.collect(), 2)
        }
        _ => y,
    };
    (y, prepared.tensor(last, last_shape))
}

impl PreparedGru {
    fn tensor<const D: usize>(&self, values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
        let data = TensorData::new(values, shape).convert_dtype(self.dtype);
        Tensor::from_data(data, (&self.device, self.dtype))
    }
}

/// 1 where a flag is set.
fn flags(tensor: Tensor<2, Bool>) -> Vec<f32> {
    tensor.into_data().iter::<bool>().map(f32::from).collect()
}
