//! A prepared block on Flex and ndarray: from tensors to slices for `gru-cpu`, and back.

use super::{PreparedGru, is_on_cpu};
use crate::{
    GruBlock, GruError,
    backend::cpu::floats,
    op::options::{GruWeights, Padding, SequenceOptions},
    op::padding::{before_the_first, zeroed},
    op::shape,
};
use burn::{
    module::Module,
    tensor::{Bool, DType, Device, Tensor, TensorData},
};
use gru_cpu::{Stack, StackInputs, StackLayer};
use gru_spec::{Layout, Order, Precision, Weights};

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
        let place = (x.device(), x.dtype());
        let rows = first * second;
        let is_supported = is_on_cpu(&place.0) && place.1 == DType::F32;
        if self.layers.len() == 1 || rows < ROWS_OF_EQUAL_BITS || !is_supported {
            return None;
        }
        // From here on, the copy of all weights takes less memory and time than it saves.
        if rows * self.directions() * self.d_hidden < self.num_params() {
            return None;
        }
        // Devices are equal with and without autodiff.
        let is_constant = |device: Device, dtype| {
            (&device, dtype) == (&place.0, place.1) && !device.is_autodiff()
        };
        let is_at_place = |weights: &GruWeights| {
            let mut biases = [&weights.b_ih, &weights.b_hh].into_iter().flatten();
            let mut matrices = weights.w_ih.iter().chain([&weights.w_hh]);
            biases.all(|b| is_constant(b.device(), b.dtype()))
                && matrices.all(|w| is_constant(w.device(), w.dtype()))
        };
        let mut states = [&options.state, &options.starts.state]
            .into_iter()
            .flatten();
        if !states.all(|state| is_constant(state.device(), state.dtype()))
            || !self.weights().iter().all(is_at_place)
        {
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
    let mut floats = Vec::new();
    for (k, weights) in weights.into_iter().enumerate() {
        let name = |name: &str| format!("layers.{k}.{name}");
        let b_hh = weights.b_hh.map(|b_hh| parameter(&name("b_hh"), b_hh));
        let w_ih = weights.w_ih.map(|w_ih| parameter(&name("w_ih"), w_ih));
        let b_ih = weights.b_ih.map(|b_ih| parameter(&name("b_ih"), b_ih));
        floats.push(Weights {
            w_ih: w_ih.transpose()?,
            w_hh: parameter(&name("w_hh"), weights.w_hh)?,
            b_ih: b_ih.transpose()?,
            b_hh: b_hh.transpose()?,
        });
    }
    let layers = block.layers.iter().zip(&floats);
    let layers: Vec<_> = layers
        .map(|(layer, weights)| StackLayer {
            spec: layer.spec,
            direction: layer.direction,
            zoneout: layer.zoneout as f32,
            weights: weights.as_ref().map(|values| (**values).as_ref()),
        })
        .collect();
    let stack = Stack::try_new(precision, [block.d_input, h], block.directions(), &layers);
    stack.map_err(|error| GruError::Config {
        reason: error.to_string(),
    })
}

/// The numbers of a parameter in float32. Half precision is a storage type.
fn parameter<const D: usize>(
    name: &str,
    tensor: Tensor<D>,
) -> Result<Box<dyn AsRef<[f32]>>, GruError> {
    if tensor.dtype() == DType::F64 {
        return Err(GruError::Float64 {
            name: name.to_owned(),
        });
    }
    // A block may be on the autodiff device.
    Ok(floats(tensor.inner()))
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
    let x = floats(x);
    let state = options.state.map(floats);
    let start_state = options.starts.state;
    let start_state = start_state.map(|state| floats(shape::expand(state, last_shape)));
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
