//! A call as the kernels read it.

use super::Prim;
use super::tensor::{dense, handle};
use crate::backend::{GruCall, padded::Places};
use burn::{backend::TensorMetadata, tensor::DType};
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::ir::{ElemType, FloatKind};
use gru_cube::{Recurrence, Starts, ZoneoutKind};
use gru_spec::{Direction, Inputs, Lengths, Order, Sequence, Weights};
use std::{borrow::Cow, ops::Range};

/// The call with the codes of [`Starts`] as its step mask, if it has starts. `None` if the kernels do not support the
/// element type, or there is nothing to compute.
pub(super) fn with_codes(call: &GruCall<CubeBackend>) -> Option<Cow<'_, GruCall<CubeBackend>>> {
    let (sizes, x) = (call.sizes(), &call.inputs.sequence.x);
    element(x.dtype())?;
    if sizes.places() * sizes.h == 0 || is_padding(&call.lengths) {
        return None;
    }
    let Some(starts) = call.inputs.sequence.starts.clone() else {
        return Some(Cow::Borrowed(call));
    };
    let mut call = call.clone();
    let step_mask = &mut call.inputs.sequence.step_mask;
    *step_mask = Some(codes(step_mask.take(), starts, call.order));
    Some(Cow::Owned(call))
}

fn element(dtype: DType) -> Option<ElemType> {
    Some(ElemType::Float(match dtype {
        DType::F32 => FloatKind::F32,
        DType::F16 => FloatKind::F16,
        DType::BF16 => FloatKind::BF16,
        _ => return None,
    }))
}

/// The buffers of a call with codes. `x` is the raw buffer of the sequence, unless the caller replaces it.
pub(super) fn recurrence(call: &GruCall<CubeBackend>) -> Recurrence {
    let (Inputs { sequence, weights }, sizes) = (&call.inputs, call.sizes());
    // Without `..`, so that the compiler names a new tensor.
    let Sequence {
        x,
        h0,
        recurrent_mask,
        step_mask,
        zoneout,
        starts,
        start_state,
    } = sequence;
    let h0 = h0.as_ref();
    let (starts, h0) = match (starts, start_state) {
        (None, _) => (Starts::None, h0.map(dense)),
        (Some(_), None) => (Starts::FromZeros, h0.map(dense)),
        (Some(_), Some(state)) => {
            let state = Prim::<CubeBackend>(state.clone());
            let zeros = || Prim::zeros([sizes.n, sizes.h], &state);
            let h0 = h0.cloned().map_or_else(zeros, Prim);
            let both = dense(&Prim::cat(vec![h0, state], 0).0);
            (Starts::FromState, Some(both))
        }
    };
    let lengths = left_out(call).map(<[_]>::to_vec);
    Recurrence {
        sizes,
        spec: call.spec,
        order: call.order,
        dtype: element(x.dtype()).expect("a type of the kernels"),
        starts,
        zoneout: match zoneout {
            None => ZoneoutKind::None,
            Some(zoneout) if zoneout.shape()[2] == 1 => ZoneoutKind::OfRow,
            Some(_) => ZoneoutKind::OfUnit,
        },
        lengths,
        inputs: Inputs {
            sequence: Sequence {
                x: handle(x),
                h0,
                recurrent_mask: recurrent_mask.as_ref().map(dense),
                step_mask: step_mask.as_ref().map(dense),
                zoneout: zoneout.as_ref().map(dense),
                starts: None,
                start_state: None,
            },
            weights: Weights {
                w_ih: None,
                ..weights.as_ref()
            }
            .map(dense),
        },
    }
}

/// The lengths of the rows, if there is so much padding that leaving it out saves time. Padding of results is
/// undefined then.
pub(super) fn left_out(call: &GruCall<CubeBackend>) -> Option<&[usize]> {
    let lengths = call.lengths.of_rows()?;
    let count: usize = lengths.iter().sum();
    (10 * count <= 9 * call.sizes().places()).then_some(lengths)
}

/// Some steps without padding, if it is left out. Not all of the steps may be padding.
pub(super) fn valid(
    call: &GruCall<CubeBackend>,
    steps: Range<usize>,
) -> Option<Places<CubeBackend>> {
    let times = call.order.direction.times(steps, call.sizes().t);
    let device = call.inputs.sequence.x.device();
    Some(Places::of_valid(
        left_out(call)?,
        times,
        call.order.layout,
        &device,
    ))
}

/// Whether all steps are padding.
pub(super) fn is_padding(lengths: &Lengths) -> bool {
    let lengths = lengths.of_rows();
    lengths.is_some_and(|lengths| lengths.iter().all(|&len| len == 0))
}

/// The codes of the steps, in the shape of `starts`: 1 for a valid step, plus 2 if the row starts before the step.
fn codes(step_mask: Option<CubeTensor>, starts: CubeTensor, order: Order) -> CubeTensor {
    let starts = Prim::<CubeBackend>(starts);
    let zeros = Prim::filled(0.0, &starts);
    // In reverse, the step at time t − 1 comes after the start at time t.
    let before = match order.direction {
        Direction::Forward => starts,
        Direction::Reverse => {
            let time = order.layout.time_dim();
            let t = starts.dims::<2>()[time];
            let none = zeros.narrow(time, t - 1..t);
            match t {
                1 => none,
                _ => Prim::cat(vec![starts.narrow(time, 1..t), none], time),
            }
        }
    };
    let valid = match step_mask {
        Some(step_mask) => zeros
            .clone()
            .with_value(Prim::<CubeBackend>(step_mask).differs(0.0), 1.0),
        None => zeros.clone().plus(1.0),
    };
    (valid + zeros.with_value(before.differs(0.0), 2.0)).0
}
