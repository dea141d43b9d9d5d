//! What fits together.

use super::{GruDescriptor, RecurrentWeight, arguments::Arguments};
use crate::op::check::{expect, expect_place};
use burn::tensor::Tensor;

/// Checks a call; H.
pub(super) fn check(op: &str, arguments: &Arguments, descriptor: &GruDescriptor) -> usize {
    descriptor.spec().check();
    let directions = descriptor.directions();
    let x = &arguments.source;
    let [_, n, features] = x.dims();
    let h = check_recurrent(op, &arguments.recurrent_weight, descriptor);
    match &arguments.recurrent_weight {
        RecurrentWeight::One(weight) => expect_place(op, "recurrent_weight", weight, x),
        RecurrentWeight::Two(weights) => expect_place(op, "recurrent_weight", weights, x),
    }
    let because = || format!("D is {directions}, H is {h}, the source is {:?}", x.dims());
    let all_gates = directions * 3 * h;
    match &arguments.input_weight {
        Some(weight) => {
            let name = "input_weight [D·3H, I]";
            expect(op, name, weight.dims(), [all_gates, features], because);
            expect_place(op, "input_weight", weight, x);
        }
        None => {
            let name = "the last dimension of source, D·3H without input_weight,";
            expect(op, name, [features], [all_gates], because);
        }
    }
    if let Some(bias) = &arguments.bias {
        expect(op, "bias [D·3H]", bias.dims(), [all_gates], because);
        expect_place(op, "bias", bias, x);
    }
    for (name, state) in [
        ("init_state [N, D·H]", &arguments.init_state),
        ("mask [N, D·H]", &arguments.mask),
    ] {
        if let Some(state) = state {
            expect(op, name, state.dims(), [n, directions * h], because);
            expect_place(op, name, state, x);
        }
    }
    if let Some(bias) = &arguments.secondary_bias {
        expect(
            op,
            "secondary_bias [D·H]",
            bias.dims(),
            [directions * h],
            because,
        );
        expect_place(op, "secondary_bias", bias, x);
    }
    h
}

/// Checks the recurrent weight; H.
fn check_recurrent(op: &str, weight: &RecurrentWeight, descriptor: &GruDescriptor) -> usize {
    let (gates, h) = match (weight, descriptor.bidirectional) {
        (RecurrentWeight::One(weight), false) => {
            let [gates, h] = weight.dims();
            (gates, h)
        }
        (RecurrentWeight::Two(weights), true) => {
            let [two, gates, h] = weights.dims();
            let name = "the first dimension of recurrent_weight [2, 3H, H]";
            expect(op, name, [two], [2], || {
                "the descriptor is bidirectional".into()
            });
            (gates, h)
        }
        (RecurrentWeight::One(weight), true) => panic!(
            "{op}: recurrent_weight must be [2, 3H, H] with bidirectional, got {:?}",
            weight.dims()
        ),
        (RecurrentWeight::Two(weights), false) => panic!(
            "{op}: recurrent_weight must be [3H, H] without bidirectional, got {:?}",
            weights.dims()
        ),
    };
    assert!(
        h.checked_mul(3) == Some(gates),
        "{op}: recurrent_weight must have 3H rows and H columns, got {gates} and {h}"
    );
    h
}

/// Checks the weights of [`weights`](super::weights).
pub(super) fn check_weights(
    recurrent_weight: &RecurrentWeight,
    input_weight: Option<&Tensor<2>>,
    bias: Option<&Tensor<1>>,
    secondary_bias: Option<&Tensor<1>>,
    descriptor: &GruDescriptor,
) {
    const OP: &str = "mps_graph::weights";
    let h = check_recurrent(OP, recurrent_weight, descriptor);
    let directions = descriptor.directions();
    let all_gates = directions * 3 * h;
    let because = || format!("D is {directions} and H is {h}");
    if let Some(weight) = input_weight {
        let [rows, _] = weight.dims();
        let name = "the first dimension of input_weight [D·3H, I]";
        expect(OP, name, [rows], [all_gates], because);
    }
    if let Some(bias) = bias {
        expect(OP, "bias [D·3H]", bias.dims(), [all_gates], because);
    }
    if let Some(bias) = secondary_bias {
        let name = "secondary_bias [D·H]";
        expect(OP, name, bias.dims(), [directions * h], because);
    }
}

/// Checks what the gradients take besides: `source_gradient`, `z_state` and `output_fwd`, and the
/// state's gradient.
pub(super) fn check_gradients(
    op: &str,
    arguments: &Arguments,
    descriptor: &GruDescriptor,
    h: usize,
    [source_gradient, z_state, output_fwd]: [&Tensor<3>; 3],
    state_gradient: Option<&Tensor<2>>,
) {
    let ([t, n, _], directions) = (arguments.source.dims(), descriptor.directions());
    for (name, tensor, features) in [
        ("source_gradient [T, N, D·H]", source_gradient, h),
        ("z_state [T, N, D·3H]", z_state, 3 * h),
        ("output_fwd [T, N, D·H]", output_fwd, h),
    ] {
        expect(
            op,
            name,
            tensor.dims(),
            [t, n, directions * features],
            || {
                format!(
                    "D is {directions}, H is {h}, the source is {:?}",
                    arguments.source.dims()
                )
            },
        );
        expect_place(op, name, tensor, &arguments.source);
    }
    if let Some(gradient) = state_gradient {
        let name = "state_gradient [N, D·H]";
        expect(op, name, gradient.dims(), [n, directions * h], || {
            format!("D is {directions}, H is {h}")
        });
        expect_place(op, name, gradient, &arguments.source);
    }
}
