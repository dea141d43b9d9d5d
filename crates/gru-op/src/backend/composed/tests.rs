use super::*;
use crate::backend::{GruBackend, call::GruGradients, cases::CALLS, padded};
use burn::{
    backend::{TensorMetadata, ops::FloatTensorOps},
    tensor::DType,
};
use burn_flex::{Flex, FlexTensor};
use gru_spec::{Activation, GruSpec, PerInput};

fn numbers(tensor: FlexTensor) -> Vec<f64> {
    let data = tensor.into_data().convert::<f64>();
    data.try_into_vec().unwrap()
}

/// States, gates and all gradients.
fn results(call: &GruCall<Flex>, spec: &GruSpec, dtype: DType) -> Vec<Vec<f64>> {
    let mut call: GruCall<Flex> = call
        .clone()
        .map(|tensor| Flex::float_cast(tensor, dtype.into()));
    call.spec = *spec;
    let saved = forward::<Flex>(call.clone(), true);
    let all = PerInput::from_array([true; 7]);
    let GruGradients(d) = gradients::<Flex>(call, saved.clone(), saved.states.clone(), all);
    let tensors = [Some(saved.states), saved.gates].into_iter();
    let tensors = tensors.chain(d.into_array()).flatten();
    tensors.map(numbers).collect()
}

#[test]
fn a_clip_above_the_largest_number_is_none() {
    // At an infinite bound, the value of the last two is NaN.
    let none = Activation::LeakyRelu { alpha: 0.0 };
    let activations = [Activation::Sigmoid, Activation::Softsign, none];
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        let spec = spec.with_activations(activations.into());
        for (dtype, clips) in [
            (DType::F64, &[f64::INFINITY][..]),
            (DType::F32, &[f64::INFINITY, f64::MAX, 1e39]),
            (DType::F16, &[f64::INFINITY, 1e39, 1e5]),
        ] {
            let expected = results(&CALLS[0], &spec, dtype);
            assert_eq!(expected.len(), 9);
            for &clip in clips {
                let clipped = spec.with_clip_gates(Some(clip));
                let clipped = clipped.with_clip_state(Some(clip));
                assert_eq!(
                    results(&CALLS[0], &clipped, dtype),
                    expected,
                    "{dtype:?}, {clip}, {reset:?}"
                );
            }
        }
    }
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
