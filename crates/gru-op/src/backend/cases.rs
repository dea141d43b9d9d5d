//! Cases of `gru-testkit` as calls on Flex, for tests.

use crate::backend::GruCall;
use burn::tensor::TensorData;
use burn_flex::{Flex, FlexTensor};
use gru_spec::{Inputs, Lengths};
use gru_testkit::{
    case::Case,
    matrix::{OPTIONS, PADDED, covering},
};
use std::{array::from_fn, sync::LazyLock};

/// Calls with every pair of options, on padded and on packed rows. The first call has no options.
pub(super) static CALLS: LazyLock<Vec<GruCall<Flex>>> = LazyLock::new(|| {
    let sizes: &[&[&str]] = &[&["N3 T4 I2 H5"]];
    let padded: &[&[&str]] = &[&["", "clips-infinite"]];
    let packed: &[&[&str]] = &[&["+packed lengths"]];
    let mut cases = covering(&[sizes, OPTIONS, PADDED, padded].concat(), 2);
    cases.extend(covering(&[sizes, packed, OPTIONS].concat(), 2));
    cases.iter().map(call).collect()
});

fn call(case: &Case) -> GruCall<Flex> {
    let (drawn, mut sizes) = (case.draw(), case.sizes);
    let mut inputs = drawn.call.inputs;
    // `x` is NaN at skipped steps, which only lengths hide.
    let lengths = match drawn.lengths {
        None => {
            let skipped = inputs.sequence.x.iter_mut().filter(|x| x.is_nan());
            skipped.for_each(|x| *x = 0.0);
            Lengths::All
        }
        Some(lengths) if case.has("+packed") => {
            inputs.sequence.x.retain(|x| !x.is_nan());
            Lengths::Packed(lengths.into())
        }
        Some(lengths) => Lengths::Padded(lengths.into()),
    };
    if lengths != Lengths::All {
        inputs.sequence.step_mask = None;
    }
    if inputs.weights.w_ih.is_none() {
        sizes.i = 3 * sizes.h;
    }
    let mut shapes = lengths.shapes(sizes, case.order.layout);
    if inputs.sequence.zoneout.as_ref().map(Vec::len) == Some(sizes.places()) {
        shapes.sequence.zoneout = Some(sizes.sequence(case.order.layout, 1));
    }
    let (mut values, shapes) = (inputs.into_slots(), shapes.into_slots());
    let tensors = from_fn(|k| {
        let data = TensorData::new(values[k].take()?, shapes[k]?.to_vec());
        Some(FlexTensor::from_data(data))
    });
    let inputs = Inputs::from_slots(tensors).expect("every case has x and w_hh");
    let mut call = GruCall::new(inputs, case.spec);
    (call.order, call.lengths) = (case.order, lengths);
    call
}
