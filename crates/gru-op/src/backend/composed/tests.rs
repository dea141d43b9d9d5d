use super::*;
use crate::backend::{GruBackend, cases::CALLS, padded};
use burn::{
    backend::{TensorMetadata, ops::FloatTensorOps},
    tensor::DType,
};
use burn_flex::{Flex, FlexTensor};

fn numbers(tensor: FlexTensor) -> Vec<f64> {
    let data = tensor.into_data().convert::<f64>();
    data.try_into_vec().unwrap()
}

#[test]
fn a_clip_above_the_largest_number_is_none() {
    let half = |tensor| Flex::float_cast(tensor, DType::F16.into());
    let mut call: GruCall<Flex> = CALLS[0].clone().map(half);
    call.spec.clip_gates = Some(1e5);
    assert_eq!(ComposedCall::new(call).spec.clip_gates, None);
}

/// Backends without kernels have the values and all gradients of the kernels of Flex. Other tests compare the kernels
/// with the float64 equations.
#[test]
fn the_same_numbers_as_kernels() {
    for call in CALLS.iter() {
        let kernels = Flex::gru_forward(call.clone(), true);
        let composed = padded::forward(call.clone(), |call| forward(call, true));
        // Not zero in the padding.
        let up = Prim::<Flex>(kernels.states.clone()).plus(0.5).0;
        let close = |name: &str, got: FlexTensor, expected: FlexTensor| {
            assert_eq!(got.shape(), expected.shape(), "{name}");
            for (got, expected) in numbers(got).into_iter().zip(numbers(expected)) {
                let allowed = 1e-12 * expected.abs().max(1.0);
                assert!(
                    (got - expected).abs() <= allowed,
                    "{name}: expected {expected}, got {got}\n{call:?}"
                );
            }
        };
        close("states", composed.states.clone(), kernels.states.clone());
        let wanted = call.inputs.differentiable().map(|input| input.is_some());
        let of_kernels = Flex::gru_gradients(call.clone(), kernels, up.clone(), wanted);
        let of_composed = padded::gradients(call.clone(), composed, up, wanted, gradients);
        for (name, pair) in of_composed.0.zip(of_kernels.0).named() {
            match pair {
                (Some(got), Some(expected)) => close(name, got, expected),
                (None, None) => {}
                (got, expected) => panic!("{name}: expected {expected:?}, got {got:?}"),
            }
        }
    }
}
