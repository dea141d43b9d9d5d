//! A prepared block on Flex and ndarray: from tensors to slices for `gru-cpu`, and back.

use super::PreparedGru;
use crate::{
    GruBlock, GruError,
    op::options::{Padding, SequenceOptions},
};
use burn::tensor::{Bool, DType, Tensor, TensorData};
use gru_cpu::{Stack, StackInputs, StackLayer};
use gru_spec::{Direction, Layout, Precision, Weights};

/// Packs the weights of a block.
pub(super) fn stack(block: &GruBlock, precision: Precision) -> Result<Stack, GruError> {
    let h = block.d_hidden;
    let mut floats = Vec::new();
    for (k, weights) in block.weights().into_iter().enumerate() {
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
            weights: weights.as_ref().map(|values| &values[..]),
        })
        .collect();
    let stack = Stack::try_new(precision, [block.d_input, h], block.directions(), &layers);
    stack.map_err(|error| GruError::Config {
        reason: error.to_string(),
    })
}

/// The dtype of inputs and results.
pub(super) fn dtype(block: &GruBlock) -> DType {
    block.layers[0].weights().w_hh.dtype()
}

/// The numbers of a parameter in float32. Half precision is a storage type.
fn parameter<const D: usize>(name: &str, tensor: Tensor<D>) -> Result<Vec<f32>, GruError> {
    if tensor.dtype() == DType::F64 {
        return Err(GruError::Float64 {
            name: name.to_owned(),
        });
    }
    let data = tensor.try_into_data();
    let data = data.map_err(|error| GruError::Read {
        name: name.to_owned(),
        reason: format!("{error:?}"),
    })?;
    Ok(floats(data))
}

fn floats(data: TensorData) -> Vec<f32> {
    let data = data.convert_dtype(DType::F32);
    data.try_into_vec().expect("the numbers were converted")
}

/// One step, whose layers have the forward direction.
pub(super) fn step(
    prepared: &PreparedGru,
    stack: &Stack,
    x: Tensor<2>,
    state: Option<Tensor<3>>,
) -> (Tensor<2>, Tensor<3>) {
    let ([n, _], h) = (x.dims(), stack.units());
    let (x, state) = (floats(x.into_data()), state.map(|s| floats(s.into_data())));
    let (mut y, mut last) = (vec![0.0; n * h], vec![0.0; stack.layer_count() * n * h]);
    let inputs = StackInputs {
        state: state.as_deref(),
        ..StackInputs::new(&x)
    };
    stack.forward(Layout::TimeMajor, [n, 1], inputs, &mut y, &mut last);
    let last_shape = [stack.layer_count(), n, h];
    (
        prepared.tensor(y, [n, h]),
        prepared.tensor(last, last_shape),
    )
}

/// A sequence. The arguments were checked.
pub(super) fn forward(
    prepared: &PreparedGru,
    stack: &Stack,
    x: Tensor<3>,
    options: SequenceOptions<3>,
) -> (Tensor<3>, Tensor<3>) {
    let ([first, second, _], layout) = (x.dims(), prepared.layout());
    let [n, t] = layout.split([first, second]);
    let (h, layers) = (stack.units(), stack.layer_count());
    let state = options.state.map(|state| floats(state.into_data()));
    let start_state = options.starts.state.map(|state| {
        let rows = state.dims()[1];
        let state = if rows == n {
            state
        } else {
            state.expand([layers, n, h])
        };
        floats(state.into_data())
    });
    let place = Place { layout, n, t };
    let padding = place.padding(&options.padding);
    let mut starts = options.starts.flags.map(flags);
    if let (Some((valid, false)), Some(starts)) = (&padding, &mut starts) {
        // Past the end of a row nothing starts.
        starts
            .iter_mut()
            .zip(valid)
            .for_each(|(start, valid)| *start &= valid);
    }
    let ones = |flags: &Vec<bool>| {
        flags
            .iter()
            .map(|&flag| f32::from(flag))
            .collect::<Vec<_>>()
    };
    let step_mask = padding.as_ref().map(|(valid, _)| ones(valid));
    let start_flags = starts.as_ref().map(ones);
    let x = floats(x.into_data());
    let width = stack.directions() * h;
    let (mut y, mut last) = (vec![0.0; n * t * width], vec![0.0; layers * n * h]);
    let inputs = StackInputs {
        x: &x,
        state: state.as_deref(),
        step_mask: step_mask.as_deref(),
        starts: start_flags.as_deref(),
        start_state: start_state.as_deref(),
    };
    stack.forward(layout, [n, t], inputs, &mut y, &mut last);
    if let Some((valid, repeats)) = &padding {
        for direction in 0..stack.directions() {
            let order = stack.direction(layers - stack.directions() + direction);
            let columns = [width, direction * h, h];
            place.clear(
                order,
                valid,
                starts.as_deref().filter(|_| *repeats),
                *repeats,
                columns,
                &mut y,
            );
        }
    }
    let y = prepared.tensor(y, [first, second, width]);
    (y, prepared.tensor(last, [layers, n, h]))
}

impl PreparedGru {
    fn tensor<const D: usize>(&self, values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
        let data = TensorData::new(values, shape).convert_dtype(self.dtype);
        Tensor::from_data(data, (&self.device, self.dtype))
    }
}

fn flags(tensor: Tensor<2, Bool>) -> Vec<bool> {
    tensor.into_data().iter::<bool>().collect()
}

/// Where a row is at a time.
struct Place {
    layout: Layout,
    n: usize,
    t: usize,
}

impl Place {
    fn at(&self, row: usize, time: usize) -> usize {
        match self.layout {
            Layout::BatchMajor => row * self.t + time,
            Layout::TimeMajor => time * self.n + row,
        }
    }

    /// The valid steps, and whether the output of a skipped step repeats the previous output, for a mask.
    fn padding(&self, padding: &Padding) -> Option<(Vec<bool>, bool)> {
        match padding {
            Padding::None => None,
            Padding::Lengths(lengths) => {
                let lengths = lengths.of_rows()?;
                let mut valid = vec![false; self.n * self.t];
                for (row, &len) in lengths.iter().enumerate() {
                    (0..len).for_each(|time| valid[self.at(row, time)] = true);
                }
                Some((valid, false))
            }
            Padding::Mask(mask) => Some((flags(mask.clone()), true)),
        }
    }

    /// Sets the output of a direction to zero at skipped steps, or only before the first valid step of each
    /// sequence if outputs are repeated.
    fn clear(
        &self,
        direction: Direction,
        valid: &[bool],
        starts: Option<&[bool]>,
        repeats: bool,
        [width, first, h]: [usize; 3],
        y: &mut [f32],
    ) {
        for row in 0..self.n {
            let mut has_output = false;
            for s in 0..self.t {
                let boundary = direction.boundary(s, self.t);
                let starts = starts
                    .zip(boundary)
                    .is_some_and(|(starts, time)| starts[self.at(row, time)]);
                let at = self.at(row, direction.time(s, self.t));
                has_output = valid[at] || repeats && has_output && !starts;
                if !has_output {
                    y[at * width + first..][..h].fill(0.0);
                }
            }
        }
    }
}
