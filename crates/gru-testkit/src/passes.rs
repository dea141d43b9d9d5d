//! The oracle with the signatures of gru-cpu's passes. In float32 the result of every operation is
//! rounded to float32.

use gru_cpu::{Element, Gradients, Gru, Inputs};
use gru_spec::Sizes;

use crate::oracle::Call;

/// The oracle's call for these slices.
pub fn call<E: Element>(gru: &Gru, inputs: &Inputs<'_, E>) -> Call {
    let &Gru { sizes, spec, order } = gru;
    let is_single = wide_one(E::epsilon()) > f64::EPSILON;
    // A clip beyond the range of the type has no effect.
    let largest = wide_one(E::max_value());
    let finite = |clip: Option<f64>| clip.filter(|clip| *clip <= largest);
    let spec = spec
        .with_clip_gates(finite(spec.clip_gates))
        .with_clip_state(finite(spec.clip_state));
    Call {
        order,
        round: is_single.then_some(|v| f64::from(v as f32)),
        ..Call::new(sizes, spec, inputs.map(wide))
    }
}

/// The forward pass.
pub fn forward<E: Element>(
    gru: &Gru,
    inputs: &Inputs<'_, E>,
    states: &mut [E],
    kept: Option<&mut [E]>,
) {
    let call = call(gru, inputs);
    let forward = call.forward();
    narrow(states, &forward.y);
    if let Some(kept) = kept {
        narrow(kept, &forward.saved(&call));
    }
}

/// The backward pass, which first runs the forward pass.
pub fn backward<E: Element>(
    gru: &Gru,
    inputs: &Inputs<'_, E>,
    _states: &[E],
    _saved: Option<&[E]>,
    d_states: &[E],
    to: Gradients<'_, E>,
) {
    let Sizes { n, h, .. } = gru.sizes;
    let mut call = call(gru, inputs);
    // Absent inputs are zeros, and their gradient may be requested.
    let gru_spec::Inputs { sequence, weights } = &mut call.inputs;
    for (tensor, len) in [
        (&mut sequence.h0, n * h),
        (&mut weights.b_ih, 3 * h),
        (&mut weights.b_hh, 3 * h),
        (&mut sequence.start_state, n * h),
    ] {
        tensor.get_or_insert_with(|| vec![0.0; len]);
    }
    let forward = call.forward();
    let gradients = forward.gradients(&wide(d_states), &[]);
    for (name, to) in to.named() {
        if let Some(to) = to {
            narrow(to, &gradients[name]);
        }
    }
}

fn wide_one<E: Element>(value: E) -> f64 {
    value.to_f64().expect("every float is a float64")
}

fn wide<E: Element>(values: &[E]) -> Vec<f64> {
    values.iter().copied().map(wide_one).collect()
}

fn narrow<E: Element>(to: &mut [E], from: &[f64]) {
    assert_eq!(to.len(), from.len(), "numbers to write");
    for (to, from) in to.iter_mut().zip(from) {
        *to = E::from(*from).expect("a float64 is any float");
    }
}
