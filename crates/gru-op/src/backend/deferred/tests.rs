//! Descriptions from another program: an invalid one is an error, and nothing is run.

use super::{defer::describe, execute::execute, *};
use crate::backend::{GruBackend, cases::CALLS};
use burn::{
    backend::{
        Flex, TensorMetadata,
        ir::{CustomOpIr, HandleContainer, HandleKind, ScalarIr, TensorId, TensorStatus},
        ops::IntTensorOps,
    },
    tensor::TensorData,
};
use burn_flex::FlexTensor;
use gru_spec::{Lengths, PerInput};
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
    let call = CALLS[rng.random_range(0..CALLS.len())].clone();
    let id = [STATES, STATES_AND_GATES, GRADIENTS][rng.random_range(0..3)];
    let mut others = [None, None, None];
    if id == GRADIENTS {
        let saved = Flex::gru_forward(call.clone(), true);
        let gates = saved.gates.filter(|_| rng.random());
        others = [Some(saved.states.clone()), gates, Some(saved.states)];
    }
    let present = call.inputs.differentiable();
    let wanted = PerInput {
        w_hh: true,
        ..present.map(|input| input.is_some() && rng.random())
    };
    let mut handles = Handles::new();
    let (mut ids, mut results) = (0.., RESULTS..);
    let next = |ids: &mut std::ops::RangeFrom<u64>| TensorId::new(ids.next().expect("an id"));
    let into_ir = |tensor: FlexTensor| {
        let mut ir = TensorIr::uninit(next(&mut ids), tensor.shape(), tensor.dtype());
        ir.status = TensorStatus::ReadOnly;
        handles.register_float_tensor::<Flex>(&ir.id, tensor);
        ir
    };
    let op = describe::<Flex>(id, call, others, wanted, into_ir, || next(&mut results));
    let integers = Flex::int_from_data(TensorData::from([1, 2, 3]), &Default::default());
    handles.register_int_tensor::<Flex>(&TensorId::new(INTEGERS), integers);
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
fn changed_lengths_are_errors_with_their_name() {
    let mut rng = StdRng::seed_from_u64(3);
    for _ in 0..100 {
        let (mut handles, op) = valid_call(&mut rng);
        let before = handles.num_handles();
        let mut arguments = Arguments::decode(&op.scalars).unwrap();
        let with_first = |of_rows: &[usize], len| [&[len], &of_rows[1..]].concat().into();
        let changes = match arguments.lengths.clone() {
            Lengths::All => continue,
            Lengths::Padded(of_rows) => [
                (
                    Lengths::Padded(of_rows[1..].into()),
                    "lengths [N] must be [",
                ),
                (
                    Lengths::Padded(with_first(&of_rows, 6)),
                    "lengths[0] must be at most T",
                ),
            ],
            Lengths::Packed(of_rows) => [
                (
                    Lengths::Packed(with_first(&of_rows, of_rows[0] + 1)),
                    "x: expected shape",
                ),
                (
                    Lengths::Packed(with_first(&of_rows, usize::MAX)),
                    "the sizes do not fit in memory",
                ),
            ],
            other => panic!("expected a known kind, got {other:?}"),
        };
        for (lengths, expected) in changes {
            arguments.lengths = lengths;
            let mut op = op.clone();
            op.scalars = arguments.encode();
            let error = execute::<Flex>(&mut handles, &op).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert_eq!(handles.num_handles(), before);
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
