//! Sequences in pieces of time, so that what a call holds for a while does not grow with T.

use super::Prim;
use crate::{backend::GruCall, backend::composed::Call};
use burn_cubecl::CubeBackend;
use gru_cube::Limits;
use gru_spec::{Inputs, Sequence};
use std::ops::Range;

/// Bytes of `p` that are never cut: the launches of smaller pieces would cost more than the memory is
/// worth.
const LEAST: usize = 4 << 20;

/// The same for each multiprocessor: two of its tiles of 128 × 128 sums, so that the product of a piece
/// fills the device.
const LEAST_PER_CUBE: usize = 128 << 10;

/// Bytes of `p` that a device would rather not have cut.
pub(super) fn least(limits: &Limits) -> usize {
    LEAST.max(limits.cubes.saturating_mul(LEAST_PER_CUBE))
}

/// Steps `0..t`, in pieces of nearly the same length of which each takes at most `limit` bytes, if
/// a step takes `per_step`.
pub(super) fn pieces(
    t: usize,
    per_step: usize,
    limit: usize,
) -> impl DoubleEndedIterator<Item = Range<usize>> + ExactSizeIterator {
    let most = (limit / per_step.max(1)).clamp(1, t.max(1));
    let count = t.div_ceil(most);
    let (steps, longer) = (t / count.max(1), t % count.max(1));
    let start = move |k: usize| k * steps + k.min(longer);
    (0..count).map(move |k| start(k)..start(k + 1))
}

/// A sequence's steps, counted in walking order.
pub(super) fn of_sequence(
    sequence: &Prim<CubeBackend>,
    steps: &Range<usize>,
    call: &Call<CubeBackend>,
) -> Prim<CubeBackend> {
    if *steps == (0..call.t) {
        return sequence.clone();
    }
    let times = call.order.direction.times(steps.clone(), call.t);
    sequence.narrow(call.time_dim, times)
}

/// The call that computes only these steps, from the state before them.
pub(super) fn of_call(
    whole: &GruCall<CubeBackend>,
    states: &Prim<CubeBackend>,
    steps: &Range<usize>,
    sizes: &Call<CubeBackend>,
) -> GruCall<CubeBackend> {
    let part = |tensor| of_sequence(&Prim(tensor), steps, sizes).0;
    let sequence = whole.inputs.sequence.clone();
    let h0 = match steps.start {
        0 => sequence.h0,
        first => {
            let before = of_sequence(states, &(first - 1..first), sizes);
            Some(before.reshape([sizes.n, sizes.h]).0)
        }
    };
    GruCall {
        inputs: Inputs {
            sequence: Sequence {
                x: part(sequence.x),
                h0,
                recurrent_mask: sequence.recurrent_mask,
                step_mask: sequence.step_mask.map(part),
                zoneout: sequence.zoneout.map(part),
            },
            weights: whole.inputs.weights.clone(),
        },
        ..whole.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, least, pieces};

    #[test]
    fn a_large_device_has_large_pieces() {
        let device = |cubes| Limits {
            units: 1024,
            shared_bytes: 48 << 10,
            cubes,
            buffers: 16,
            buffer_bytes: usize::MAX,
            elements: usize::MAX,
            coresident_cubes: 0,
            cpu: false,
        };
        assert_eq!(least(&device(2)), 4 << 20);
        assert_eq!(least(&device(132)), (132 * 128) << 10);
        assert_eq!(least(&device(usize::MAX)), usize::MAX);
    }

    #[test]
    fn pieces_are_in_order_and_within_the_limit() {
        for t in [0, 1, 2, 7, 64, 1000] {
            for limit in [0, 1, 8, 24, 100, usize::MAX] {
                let mut next = 0;
                for piece in pieces(t, 8, limit) {
                    assert_eq!(piece.start, next);
                    assert!(piece.len() == 1 || piece.len() * 8 <= limit, "{t} {limit}");
                    assert!(!piece.is_empty());
                    next = piece.end;
                }
                assert_eq!(next, t);
            }
        }
        assert_eq!(pieces(10, 8, 80).len(), 1);
        assert_eq!(pieces(10, 8, 79).len(), 2);
    }
}
