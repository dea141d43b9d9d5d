//! Calls with random options and values, for tests.

use crate::backend::{GruCall, composed::prim::Prim};
use burn::{backend::TensorMetadata, tensor::TensorData};
use burn_flex::{Flex, FlexTensor};
use gru_spec::{Direction, GruSpec, Layout, Lengths, Order, Reset, Sizes, Update};
use rand::{Rng, rngs::StdRng};

pub(super) const H: usize = 5;

/// A call with random options. Starts, masks of steps and zoneout belong to padded rows.
pub(super) fn random_call(lengths: Lengths, rng: &mut StdRng) -> (GruCall<Flex>, [usize; 3]) {
    let sizes = Sizes {
        n: 3,
        t: 4,
        i: 2,
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
    if sequence.zoneout.is_some() && rng.random() {
        sequence.zoneout = Some(lengths.in_memory(sizes).sequence(order.layout, 1));
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
