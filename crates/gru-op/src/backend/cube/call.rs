//! A call as the kernels read it.

use super::Prim;
use crate::backend::{GruCall, padded::Places};
use burn::{backend::TensorMetadata, tensor::DType};
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::ir::{ElemType, FloatKind};
use gru_cube::{Settings, Starts};
use gru_spec::{Direction, Lengths, Order, Sequence, Sizes};
use std::ops::Range;

/// A call whose starts are in the form of [`Starts`].
pub(super) struct KernelCall {
    /// The step mask has the codes of the starts. The start state is behind `h0`. So the call has no tensors for both.
    pub(super) of: GruCall<CubeBackend>,
    pub(super) starts: Starts,
    pub(super) element: ElemType,
}

impl KernelCall {
    /// `None` if the kernels do not support the element type, or all steps are padding.
    pub(super) fn new(call: &GruCall<CubeBackend>) -> Option<Self> {
        let x = &call.inputs.sequence.x;
        if x.shape().num_elements() == 0 || is_padding(&call.lengths) {
            return None;
        }
        let element = ElemType::Float(match x.dtype() {
            DType::F32 => FloatKind::F32,
            DType::F16 => FloatKind::F16,
            DType::BF16 => FloatKind::BF16,
            _ => return None,
        });
        let Sizes { n, h, .. } = call.sizes();
        let mut of = call.clone();
        // Without `..`, so that the compiler names a new tensor.
        let Sequence {
            x,
            h0,
            recurrent_mask,
            step_mask,
            zoneout,
            starts,
            start_state,
        } = of.inputs.sequence;
        let (starts, step_mask, h0) = match (starts, start_state) {
            (None, _) => (Starts::None, step_mask, h0),
            (Some(starts), start_state) => {
                let step_mask = Some(codes(step_mask, starts, call.order));
                match start_state {
                    None => (Starts::FromZeros, step_mask, h0),
                    Some(state) => {
                        let state = Prim(state);
                        let h0 = h0.map(Prim);
                        let h0 = h0.unwrap_or_else(|| Prim::zeros([n, h], &state));
                        let both = Prim::<CubeBackend>::cat(vec![h0, state], 0).0;
                        (Starts::FromState, step_mask, Some(both))
                    }
                }
            }
        };
        of.inputs.sequence = Sequence {
            x,
            h0,
            recurrent_mask,
            step_mask,
            zoneout,
            starts: None,
            start_state: None,
        };
        Some(Self {
            of,
            starts,
            element,
        })
    }

    /// The lengths of the rows, if there is so much padding that leaving it out saves time. Padding of results is
    /// undefined then.
    pub(super) fn left_out(&self) -> Option<&[usize]> {
        let lengths = self.of.lengths.of_rows()?;
        let Sizes { n, t, .. } = self.of.sizes();
        let count: usize = lengths.iter().sum();
        (10 * count <= 9 * n * t).then_some(lengths)
    }

    /// Some steps without padding, if it is left out. Not all of the steps may be padding.
    pub(super) fn valid(&self, steps: Range<usize>) -> Option<Places<CubeBackend>> {
        let order = self.of.order;
        let times = order.direction.times(steps, self.of.sizes().t);
        let device = self.of.inputs.sequence.x.device();
        let lengths = self.left_out()?;
        Some(Places::of_valid(lengths, times, order.layout, &device))
    }

    /// Whether all steps are padding.
    pub(super) fn is_padding(&self) -> bool {
        is_padding(&self.of.lengths)
    }

    /// The same call with `state` `[N,H]` as initial state.
    pub(super) fn initial(&self, state: Prim<CubeBackend>) -> CubeTensor {
        let Sizes { n, .. } = self.of.sizes();
        match (self.starts, &self.of.inputs.sequence.h0) {
            (Starts::FromState, Some(h0)) => {
                let start_state = Prim::<CubeBackend>(h0.clone()).narrow(0, n..2 * n);
                Prim::cat(vec![state, start_state], 0).0
            }
            _ => state.0,
        }
    }

    /// Sizes and conventions.
    pub(super) fn sizes(&self) -> gru_cube::Call {
        let Sizes { n, t, h, .. } = self.of.sizes();
        gru_cube::Call {
            n,
            t,
            h,
            spec: self.of.spec,
            order: self.of.order,
            starts: self.starts,
            dtype: self.element,
            self_test: Settings::current().self_test,
        }
    }
}

fn is_padding(lengths: &Lengths) -> bool {
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
            .with_value(Prim::<CubeBackend>(step_mask).is_not_zero(), 1.0),
        None => zeros.clone().plus(1.0),
    };
    (valid + zeros.with_value(before.is_not_zero(), 2.0)).0
}
