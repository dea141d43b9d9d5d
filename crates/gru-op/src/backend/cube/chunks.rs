//! Chunks of time, so that temporary memory does not grow with T.

use super::Prim;
use crate::backend::GruCall;
use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use gru_spec::{Inputs, Lengths, Order, Sequence, Sizes};
use std::ops::Range;

/// The least bytes of `p` in a chunk. Smaller chunks save little memory, and need more launches.
const MIN_BYTES: usize = 4 << 20;

/// The least bytes per multiprocessor: two tiles of 128 × 128 sums, so that the product fills the device.
const MIN_BYTES_PER_CUBE: usize = 128 << 10;

/// The least bytes of `p` in a chunk on a device that runs so many cubes at the same time.
pub(super) fn min_bytes(cubes: usize) -> usize {
    MIN_BYTES.max(cubes.saturating_mul(MIN_BYTES_PER_CUBE))
}

/// Steps `0..t` in chunks of nearly equal length. Each has at most `limit` bytes, or one step, if a step has
/// `per_step` bytes.
pub(super) fn chunks(
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

/// Some steps of a sequence, counted in the direction of time.
pub(super) fn of_sequence(
    sequence: &Prim<CubeBackend>,
    steps: &Range<usize>,
    order: Order,
) -> Prim<CubeBackend> {
    let time = order.layout.time_dim();
    let t = sequence.0.shape()[time];
    if *steps == (0..t) {
        return sequence.clone();
    }
    sequence.narrow(time, order.direction.times(steps.clone(), t))
}

/// The call with codes that computes these steps only, from the state before them.
pub(super) fn of_call(
    call: &GruCall<CubeBackend>,
    states: &Prim<CubeBackend>,
    steps: &Range<usize>,
) -> GruCall<CubeBackend> {
    let Sizes { n, t, h, .. } = call.sizes();
    let part = |tensor| of_sequence(&Prim(tensor), steps, call.order).0;
    let sequence = call.inputs.sequence.clone();
    let lengths = match call.lengths.of_rows() {
        None => Lengths::All,
        Some(lengths) => {
            let times = call.order.direction.times(steps.clone(), t);
            let in_chunk = |&len: &usize| len.clamp(times.start, times.end) - times.start;
            Lengths::Padded(lengths.iter().map(in_chunk).collect())
        }
    };
    let h0 = match steps.start {
        0 => sequence.h0,
        first => {
            let before = of_sequence(states, &(first - 1..first), call.order);
            Some(before.reshape([n, h]).0)
        }
    };
    GruCall {
        inputs: Inputs {
            sequence: Sequence {
                x: part(sequence.x),
                h0,
                step_mask: sequence.step_mask.map(part),
                zoneout: sequence.zoneout.map(part),
                starts: sequence.starts.map(part),
                ..sequence
            },
            weights: call.inputs.weights.clone(),
        },
        lengths,
        ..call.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{chunks, min_bytes};

    #[test]
    fn a_large_device_has_large_chunks() {
        assert_eq!(min_bytes(2), 4 << 20);
        assert_eq!(min_bytes(132), (132 * 128) << 10);
        assert_eq!(min_bytes(usize::MAX), usize::MAX);
    }

    #[test]
    fn chunks_are_in_order_and_within_the_limit() {
        for t in [0, 1, 2, 7, 64, 1000] {
            for limit in [0, 1, 8, 24, 100, usize::MAX] {
                let mut next = 0;
                for chunk in chunks(t, 8, limit) {
                    assert_eq!(chunk.start, next);
                    assert!(chunk.len() == 1 || chunk.len() * 8 <= limit, "{t} {limit}");
                    assert!(!chunk.is_empty());
                    next = chunk.end;
                }
                assert_eq!(next, t);
            }
        }
        assert_eq!(chunks(10, 8, 80).len(), 1);
        assert_eq!(chunks(10, 8, 79).len(), 2);
    }
}
