use super::*;
use crate::backend::{GruBackend, call::GruGradients, padded};
use burn::{
    backend::TensorMetadata,
    tensor::{DType, TensorData},
};
use burn_flex::{Flex, FlexTensor};
use gru_spec::{Activation, Direction, GruSpec, Layout, Lengths, Order, PerInput, Sizes};
use rand::{Rng, SeedableRng, rngs::StdRng};

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
    let saved = forward(call.clone(), true);
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

/// A call with random options. Starts, masks of steps and zoneout belong to padded rows.
fn random_call(lengths: Lengths, rng: &mut StdRng) -> (GruCall<Flex>, [usize; 3]) {
    let sizes = Sizes {
        n: 3,
        t: 4,
        i: I,
        h: H,
    };
    let is_packed = matches!(lengths, Lengths::Packed(_));
    let mut order = Order::default();
    if !is_packed && rng.random() {
        order.layout = Layout::TimeMajor;
    }
    if rng.random() {
        order.direction = Direction::Reverse;
    }
    let mut spec = GruSpec::default();
    if rng.random() {
        spec = spec.with_reset(Reset::BeforeMatmul);
    }
    if rng.random() {
        spec = spec.with_update(Update::Takes);
    }
    if rng.random() {
        spec = spec.with_clip_gates(Some(0.7)).with_clip_state(Some(0.4));
    }
    let mut shapes = lengths.shapes(sizes, order.layout);
    let sequence = &mut shapes.sequence;
    if is_packed || lengths != Lengths::All || rng.random() {
        sequence.step_mask = None;
    }
    if is_packed || rng.random() {
        (sequence.starts, sequence.start_state) = (None, None);
    }
    for optional in [
        &mut sequence.h0,
        &mut sequence.recurrent_mask,
        &mut sequence.zoneout,
        &mut sequence.start_state,
        &mut shapes.weights.b_ih,
        &mut shapes.weights.b_hh,
    ] {
        if rng.random() {
            *optional = None;
        }
    }
    let mut draw = |shape: &[usize], low: f64| {
        let len = shape.iter().product::<usize>();
        let numbers: Vec<f64> = (0..len).map(|_| rng.random_range(low..1.0)).collect();
        FlexTensor::from_data(TensorData::new(numbers, shape.to_vec()))
    };
    let mut inputs = shapes.map(|shape| draw(&shape, -1.0));
    // Shares between 0 and 1, and flags.
    let sequence = &mut inputs.sequence;
    let flags = |tensor: FlexTensor| Prim::<Flex>(tensor);
    sequence.zoneout = sequence.zoneout.take().map(|z| flags(z).abs().0);
    for of_steps in [&mut sequence.step_mask, &mut sequence.starts] {
        *of_steps = of_steps.take().map(|values| {
            let values = flags(values);
            let chosen = values.above(0.3);
            Prim::zeros(values.0.shape(), &values)
                .with_value(chosen, 1.0)
                .0
        });
    }
    let shape = inputs.sequence.x.shape().dims();
    let mut call = GruCall::new(inputs, spec);
    (call.order, call.lengths) = (order, lengths);
    (call, shape)
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
