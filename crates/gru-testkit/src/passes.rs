//! The oracle with the signatures of gru-cpu's passes. In float32 the result of every operation is
//! rounded to float32.

use gru_cpu::{Element, Gradients, Gru, Inputs};
use gru_spec::{Sequence, Sizes};

use crate::oracle::{Call, Forward};

/// The oracle's call for these slices.
pub fn call<E: Element>(gru: &Gru, inputs: &Inputs<'_, E>) -> Call {
    let (Sizes { n, t, h, .. }, spec) = (gru.sizes, gru.spec);
    let &Inputs { sequence, weights } = inputs;
    let Sequence {
        x,
        h0,
        recurrent_mask,
        step_mask,
        zoneout,
        starts,
        start_state,
    } = sequence;
    let optional = |tensor: Option<&[E]>| tensor.map(wide);
    let is_single = wide_one(E::epsilon()) > f64::EPSILON;
    // A clip beyond the range of the type has no effect.
    let largest = wide_one(E::max_value());
    let finite = |clip: Option<f64>| clip.filter(|clip| *clip <= largest);
    let spec = spec
        .with_clip_gates(finite(spec.clip_gates))
        .with_clip_state(finite(spec.clip_state));
    Call {
        h0: optional(h0),
        w_ih: optional(weights.w_ih),
        b_ih: optional(weights.b_ih),
        b_hh: optional(weights.b_hh),
        order: gru.order,
        recurrent_mask: optional(recurrent_mask),
        step_mask: optional(step_mask),
        zoneout: optional(zoneout),
        starts: optional(starts),
        start_state: optional(start_state),
        round: is_single.then_some(|v| f64::from(v as f32)),
        ..Call::new(spec, [n, t, h], wide(x), wide(weights.w_hh))
    }
}

/// The gates of a run as the kernels keep them: r, z, n, and `q_n` if there are four. NaN at skipped
/// steps.
pub fn saved(forward: &Forward, gru: &Gru) -> Vec<f64> {
    let h = gru.sizes.h;
    let Forward { gates, q_n, y, .. } = forward;
    let kept: Vec<_> = gates
        .iter()
        .chain([q_n])
        .take(gru.spec.saved_per_unit())
        .collect();
    let rows = (0..y.len()).step_by(h.max(1));
    rows.flat_map(|at| kept.iter().flat_map(move |gate| &gate[at..][..h]))
        .copied()
        .collect()
}

/// The forward pass.
pub fn forward<E: Element>(
    gru: &Gru,
    inputs: &Inputs<'_, E>,
    states: &mut [E],
    kept: Option<&mut [E]>,
) {
    let forward = call(gru, inputs).forward();
    narrow(states, &forward.y);
    if let Some(kept) = kept {
        narrow(kept, &saved(&forward, gru));
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
    for (tensor, len) in [
        (&mut call.h0, n * h),
        (&mut call.b_ih, 3 * h),
        (&mut call.b_hh, 3 * h),
        (&mut call.start_state, n * h),
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
