//! Descriptions from another program: an invalid one is an error, and nothing is run.

use super::{execute::execute, *};
use burn::{
    backend::{
        Flex, TensorMetadata,
        ir::{CustomOpIr, HandleContainer, HandleKind, ScalarIr, TensorId, TensorStatus},
        ops::IntTensorOps,
    },
    tensor::TensorData,
};
use burn_flex::FlexTensor;
use gru_spec::{Activation, Activations, GruSpec, Layout, Lengths, Order, PerInput, Reset, Sizes};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Handles = HandleContainer<HandleKind<Flex>>;

/// The first id of a result.
const RESULTS: u64 = 1_000;
/// The id of an integer tensor.
const INTEGERS: u64 = 100;
/// An id without a tensor.
const UNKNOWN: u64 = 101;

/// The tensors and the description of a valid call.
fn valid_call(rng: &mut StdRng) -> (Handles, CustomOpIr) {
    let mut size = |most| rng.random_range(1..=most);
    let [n, t, i, h] = [size(4), size(5), size(6), size(7)];
    let mut flip = || rng.random::<bool>();
    let reset = if flip() {
        Reset::AfterMatmul
    } else {
        Reset::BeforeMatmul
    };
    let activations = Activations {
        candidate: Activation::Elu { alpha: 0.5 },
        ..Default::default()
    };
    let spec = GruSpec::default()
        .with_reset(reset)
        .with_activations(activations);
    let wanted = PerInput::<bool>::default().map(|_| flip());
    let wanted = PerInput {
        w_hh: true,
        ..wanted
    };
    let id = [STATES, STATES_AND_GATES, GRADIENTS][rng.random_range(0..3)];
    let of_rows: Vec<usize> = (0..n).map(|_| rng.random_range(0..=t)).collect();
    let lengths = match rng.random_range(0..3) {
        0 => Lengths::All,
        1 => Lengths::Padded(of_rows.into()),
        _ => Lengths::Packed(of_rows.into()),
    };
    let sizes = Sizes { n, t, i, h };
    let mut inputs = lengths.shapes(sizes, Layout::BatchMajor);
    let places = lengths.in_memory(sizes);
    let sequence = |features| places.sequence(Layout::BatchMajor, features);
    inputs.sequence.zoneout = Some(sequence(1));
    let others = [h, spec.saved_per_unit() * h, h].map(|width| Some(sequence(width)));
    let shapes = inputs.into_slots().into_iter().chain(others);
    let mut handles = Handles::new();
    let (mut inputs, mut present) = (Vec::new(), 0);
    let has_starts = rng.random();
    for (k, shape) in shapes.flatten().enumerate() {
        let shape = shape.to_vec();
        let is_present = match TENSORS[k] {
            "x" | "w_hh" | "w_ih" => true,
            "states" | "d_states" => id == GRADIENTS,
            "gates" => id == GRADIENTS && rng.random(),
            "starts" => has_starts,
            "start_state" => has_starts && rng.random(),
            _ => rng.random(),
        };
        if is_present {
            present |= 1 << k;
            let count = shape.iter().product();
            let numbers = (0..count).map(|_| rng.random_range(-1.0..1.0f32)).collect();
            let tensor = FlexTensor::from_data(TensorData::new(numbers, shape.clone()));
            handles.register_float_tensor::<Flex>(&TensorId::new(k as u64), tensor);
            let mut tensor =
                TensorIr::uninit(TensorId::new(k as u64), shape.clone().into(), DType::F32);
            tensor.status = TensorStatus::ReadOnly;
            inputs.push(tensor);
        }
    }
    let integers = Flex::int_from_data(TensorData::from([1, 2, 3]), &Default::default());
    handles.register_int_tensor::<Flex>(&TensorId::new(INTEGERS), integers);
    let arguments = Arguments {
        spec,
        order: Order::default(),
        lengths,
        present,
        wanted,
    };
    let id_of = |k: usize| TensorId::new(k as u64);
    let described = std::array::from_fn(|k| inputs.iter().find(|tensor| tensor.id == id_of(k)));
    let shapes = results(id, &described, &arguments).unwrap();
    let outputs: Vec<_> = (RESULTS..)
        .zip(shapes)
        .map(|(id, shape)| TensorIr::uninit(TensorId::new(id), shape.into(), DType::F32))
        .collect();
    let op = CustomOpIr::with_scalars(id, &inputs, &outputs, arguments.encode());
    (handles, op)
}

/// Makes one random change.
fn change(op: &mut CustomOpIr, rng: &mut StdRng) {
    let numbers = [0, 1, 2, 3, 7, 100, 1 << 31, usize::MAX / 3, usize::MAX];
    let number = |rng: &mut StdRng| numbers[rng.random_range(0..numbers.len())];
    let inputs = op.inputs.len();
    let input = rng.random_range(0..inputs);
    match rng.random_range(0..12) {
        0 => {
            let place = rng.random_range(0..op.scalars.len());
            op.scalars[place] = match rng.random_range(0..4) {
                0 => ScalarIr::UInt(rng.random()),
                1 => ScalarIr::Float(f64::from_bits(rng.random())),
                2 => ScalarIr::Int(rng.random()),
                _ => ScalarIr::Bool(rng.random()),
            };
        }
        1 => {
            if let Some(ScalarIr::UInt(present)) = op.scalars.get_mut(1) {
                *present ^= 1 << rng.random_range(0..64);
            }
        }
        2 => op.scalars.truncate(rng.random_range(0..op.scalars.len())),
        3 => {
            op.inputs.remove(input);
        }
        4 => {
            let again = op.inputs[rng.random_range(0..inputs)].clone();
            op.inputs.insert(input, again);
        }
        5 => op.inputs.swap(input, rng.random_range(0..inputs)),
        6 => {
            let shape = &mut op.inputs[input].shape;
            let dim = rng.random_range(0..shape.num_dims().max(1));
            if let Some(size) = shape.get_mut(dim) {
                *size = number(rng);
            }
        }
        7 => {
            let rank = rng.random_range(0..5);
            let shape: Vec<usize> = (0..rank).map(|_| number(rng)).collect();
            op.inputs[input].shape = shape.into();
        }
        8 => op.inputs[input].id = TensorId::new([INTEGERS, UNKNOWN][rng.random_range(0..2)]),
        9 => op.inputs[input].dtype = [DType::F64, DType::I32][rng.random_range(0..2)],
        10 => {
            op.outputs.pop();
        }
        _ => {
            let shape = [number(rng), number(rng)];
            let output = rng.random_range(0..op.outputs.len());
            op.outputs[output].shape = shape.into();
        }
    }
}

#[test]
fn valid_calls_run() {
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..300 {
        let (mut handles, op) = valid_call(&mut rng);
        execute::<Flex>(&mut handles, &op).unwrap();
        for output in &op.outputs {
            let mut output = output.clone();
            output.status = TensorStatus::ReadOnly;
            let result = handles.get_float_tensor::<Flex>(&output);
            assert_eq!(result.shape(), output.shape);
        }
    }
}

/// Lengths of another batch, and lengths beyond the sequence.
#[test]
fn spoilt_lengths_are_errors_with_their_name() {
    let mut rng = StdRng::seed_from_u64(3);
    let [mut padded, mut packed] = [0, 0];
    while padded < 20 || packed < 20 {
        let (mut handles, op) = valid_call(&mut rng);
        let mut arguments = Arguments::decode(&op.scalars).unwrap();
        let before = handles.num_handles();
        let given = arguments.lengths.clone();
        let mut refusal = |lengths: Lengths| {
            arguments.lengths = lengths;
            let mut op = op.clone();
            op.scalars = arguments.encode();
            let error = execute::<Flex>(&mut handles, &op).unwrap_err();
            assert_eq!(handles.num_handles(), before);
            error
        };
        match given {
            Lengths::All => {}
            Lengths::Padded(of_rows) => {
                padded += 1;
                let error = refusal(Lengths::Padded(of_rows[1..].into()));
                assert!(error.starts_with("lengths [N] must be ["), "{error}");
                let mut long = of_rows.to_vec();
                long[0] = 6;
                let error = refusal(Lengths::Padded(long.into()));
                assert!(error.starts_with("lengths[0] must be at most T"), "{error}");
            }
            Lengths::Packed(of_rows) => {
                packed += 1;
                let mut long = of_rows.to_vec();
                long[0] += 1;
                let error = refusal(Lengths::Packed(long.as_slice().into()));
                assert!(error.starts_with("x: expected shape"), "{error}");
                long[0] = usize::MAX;
                let error = refusal(Lengths::Packed(long.into()));
                assert_eq!(error, "the sizes do not fit in memory");
            }
        }
    }
}

/// A changed call is an error without results, or another valid call with results of the declared shapes. Burn
/// itself panics at an unknown id.
#[test]
fn changed_calls_are_errors_or_valid() {
    let mut rng = StdRng::seed_from_u64(2);
    let [mut ran, mut errors, mut panics] = [0, 0, 0];
    for _ in 0..20_000 {
        let (mut handles, mut op) = valid_call(&mut rng);
        for _ in 0..rng.random_range(1..3) {
            change(&mut op, &mut rng);
            if op.inputs.is_empty() || op.scalars.is_empty() || op.outputs.is_empty() {
                break;
            }
        }
        let before = handles.num_handles();
        match catch_unwind(AssertUnwindSafe(|| execute::<Flex>(&mut handles, &op))) {
            Ok(Ok(())) => {
                ran += 1;
                for output in &op.outputs {
                    let result = handles.get_handle_ref(&output.id);
                    let Some(HandleKind::Float(result)) = result else {
                        panic!("{op:?} has no result {output:?}")
                    };
                    assert_eq!(result.shape(), output.shape);
                }
            }
            Ok(Err(_)) => {
                errors += 1;
                assert_eq!(handles.num_handles(), before);
            }
            Err(reason) => {
                panics += 1;
                let text = reason.downcast_ref::<String>().cloned().unwrap_or_default();
                let known = ["Should have handle", "Expected float handle"];
                assert!(known.iter().any(|known| text.contains(known)), "{text}");
            }
        }
    }
    assert!(
        ran > 100 && errors > 10_000 && panics > 100,
        "{ran} {errors} {panics}"
    );
}
