//! What fusion must know before it runs the operator: the shape and type of each result.

use crate::{
    GruSpec, Wanted,
    backend::{
        GruForwardMetadata, GruGradientsMetadata, GruInputsMetadata, OptionalTensorMetadata,
    },
};
use burn::{backend::fusion::custom::TensorSpec, tensor::Shape};

/// A sequence like `x` with so many features.
fn sequence(inputs: &GruInputsMetadata, features: usize) -> TensorSpec {
    let [first, second, _] = inputs.x.shape.dims();
    TensorSpec::new(Shape::new([first, second, features]), inputs.x.dtype)
}

fn hidden(inputs: &GruInputsMetadata) -> usize {
    let [h, _] = inputs.w_hh.shape.dims();
    h
}

pub(crate) fn states(inputs: &GruInputsMetadata, _: &GruSpec) -> TensorSpec {
    sequence(inputs, hidden(inputs))
}

pub(crate) fn states_and_gates(inputs: &GruInputsMetadata, spec: &GruSpec) -> GruForwardMetadata {
    GruForwardMetadata {
        states: states(inputs, spec),
        gates: sequence(inputs, spec.saved_per_unit() * hidden(inputs)),
    }
}

pub(crate) fn gradients(
    inputs: &GruInputsMetadata,
    states: &TensorSpec,
    _: &OptionalTensorMetadata,
    _: &TensorSpec,
    spec: &GruSpec,
    wanted: &Wanted,
) -> GruGradientsMetadata {
    let h = hidden(inputs);
    let [first, second, _] = states.shape.dims();
    let [n, _] = spec.layout.split([first, second]);
    let features = inputs.x.shape[2];
    let tensor = |wanted: bool, shape: &[usize]| match wanted {
        true => {
            let shape = Shape::from(shape.to_vec());
            OptionalTensorMetadata::Given(TensorSpec::new(shape, inputs.x.dtype))
        }
        false => OptionalTensorMetadata::Absent,
    };
    GruGradientsMetadata {
        x: tensor(wanted.x, &[first, second, features]),
        h0: tensor(wanted.h0, &[n, h]),
        w_ih: tensor(wanted.w_ih, &[features, 3 * h]),
        w_hh: tensor(wanted.w_hh, &[h, 3 * h]),
        b_ih: tensor(wanted.b_ih, &[3 * h]),
        b_hh: tensor(wanted.b_hh, &[3 * h]),
    }
}
