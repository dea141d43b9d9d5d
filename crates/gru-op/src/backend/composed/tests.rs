use super::*;
use crate::backend::{
    GruBackend,
    call::GruGradients,
    padded,
    random_call::{H, random_call},
};
use burn::{
    backend::{TensorMetadata, ops::FloatTensorOps},
    tensor::{DType, TensorData},
};
use burn_flex::{Flex, FlexTensor};
use gru_spec::{Activation, GruSpec, Lengths, PerInput};
use rand::{Rng, SeedableRng, rngs::StdRng};

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
    let (call, _) = random_call(Lengths::All, &mut StdRng::seed_from_u64(1));
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        let spec = spec.with_activations(activations.into());
        for (dtype, clips) in [
            (DType::F64, &[f64::INFINITY][..]),
            (DType::F32, &[f64::INFINITY, f64::MAX, 1e39]),
            (DType::F16, &[f64::INFINITY, 1e39, 1e5]),
        ] {
            let expected = results(&call, &spec, dtype);
            assert_eq!(expected.len(), 9);
            for &clip in clips {
                let clipped = spec.with_clip_gates(Some(clip));
                let clipped = clipped.with_clip_state(Some(clip));
                assert_eq!(
                    results(&call, &clipped, dtype),
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
    let lengths: [Lengths; 8] = [
        Lengths::All,
        Lengths::Padded([1, 4, 0].into()),
        Lengths::Padded([4, 2, 1].into()),
        Lengths::Padded([0, 0, 0].into()),
        Lengths::Packed([1, 4, 0].into()),
        Lengths::Packed([4, 4, 4].into()),
        Lengths::Packed([4, 3, 1].into()),
        Lengths::Packed([0, 0, 0].into()),
    ];
    let mut rng = StdRng::seed_from_u64(1);
    let all = PerInput::from_array([true; 7]);
    for k in 0..400 {
        let lengths = lengths[k % lengths.len()].clone();
        // With packed rows, T is the largest length.
        let (call, [first, second, _]) = random_call(lengths, &mut rng);
        let count = first * second * H;
        let up: Vec<f64> = (0..count).map(|_| rng.random_range(-1.0..1.0)).collect();
        let up = FlexTensor::from_data(TensorData::new(up, [first, second, H]));
        let kernels = Flex::gru_forward(call.clone(), true);
        let composed = padded::forward(call.clone(), |call| forward(call, true));
        let close = |name: &str, got: FlexTensor, expected: FlexTensor| {
            assert_eq!(got.shape(), expected.shape(), "{k}: {name}");
            for (got, expected) in numbers(got).into_iter().zip(numbers(expected)) {
                let allowed = 1e-12 * expected.abs().max(1.0);
                assert!(
                    (got - expected).abs() <= allowed,
                    "call {k}, {name}: expected {expected}, got {got}\n{call:?}"
                );
            }
        };
        close("states", composed.states.clone(), kernels.states.clone());
        let of_kernels = Flex::gru_gradients(call.clone(), kernels, up.clone(), all);
        let of_composed = padded::gradients(call.clone(), composed, up, all, gradients);
        let names = ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh", "start_state"];
        let pairs = of_composed.0.zip(of_kernels.0).into_array();
        for (name, (got, expected)) in names.into_iter().zip(pairs) {
            match (got, expected) {
                (Some(got), Some(expected)) => close(name, got, expected),
                (got, expected) => panic!("{name}: expected {expected:?}, got {got:?}"),
            }
        }
    }
}
