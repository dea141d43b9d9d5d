use super::*;
use crate::backend::call::GruGradients;
use burn::tensor::{DType, TensorData};
use burn_flex::{Flex, FlexTensor};
use gru_spec::{Activation, Activations, PerInput};

const N: usize = 2;
const T: usize = 3;
const I: usize = 2;
const H: usize = 5;

/// Numbers in (−1, 1).
fn tensor(shape: &[usize], dtype: DType) -> FlexTensor {
    let len = shape.iter().product::<usize>();
    let numbers: Vec<f64> = (0..len)
        .map(|k| (k * 37 % 64) as f64 / 32.0 - 0.98)
        .collect();
    let data = TensorData::new(numbers, shape.to_vec());
    FlexTensor::from_data(data.convert_dtype(dtype))
}

fn numbers(tensor: FlexTensor) -> Vec<f64> {
    let data = tensor.into_data().convert::<f64>();
    data.try_into_vec().unwrap()
}

/// States, gates and all gradients.
fn results(spec: &GruSpec, dtype: DType) -> Vec<Vec<f64>> {
    let [n, t, i, h] = [N, T, I, H];
    let mut inputs = Sizes { n, t, i, h }.shapes(Order::default().layout);
    inputs.sequence.recurrent_mask = None;
    inputs.sequence.step_mask = None;
    inputs.sequence.zoneout = None;
    inputs.sequence.starts = None;
    inputs.sequence.start_state = None;
    let call = GruCall::<Flex>::new(inputs.map(|shape| tensor(&shape, dtype)), *spec);
    let saved = states_and_gates(call.clone());
    let up = tensor(&[N, T, H], dtype);
    let all = PerInput::from_array([true; 7]);
    let GruGradients(d) = gradients(call, saved.clone(), up, all);
    let tensors = [Some(saved.states), saved.gates].into_iter();
    let tensors = tensors.chain(d.into_array()).flatten();
    tensors.map(numbers).collect()
}

#[test]
fn a_clip_above_the_largest_number_is_none() {
    // At an infinite bound, the value of the last two is NaN.
    let activations = Activations {
        reset: Activation::Sigmoid,
        update: Activation::Softsign,
        candidate: Activation::LeakyRelu { alpha: 0.0 },
    };
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        let spec = spec.with_activations(activations);
        for (dtype, clips) in [
            (DType::F64, &[f64::INFINITY][..]),
            (DType::F32, &[f64::INFINITY, f64::MAX, 1e39]),
            (DType::F16, &[f64::INFINITY, 1e39, 1e5]),
        ] {
            let expected = results(&spec, dtype);
            assert_eq!(expected.len(), 9);
            for &clip in clips {
                let clipped = spec.with_clip_gates(Some(clip));
                let clipped = clipped.with_clip_state(Some(clip));
                assert_eq!(
                    results(&clipped, dtype),
                    expected,
                    "{dtype:?}, {clip}, {reset:?}"
                );
            }
        }
    }
}
