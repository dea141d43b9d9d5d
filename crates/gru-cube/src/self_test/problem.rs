//! A small problem.

use crate::{
    kernel::rule::{Pass, Starts},
    launch::Call,
};
use gru_spec::{Activation, GruSpec, Layout};

/// Rows of the batch, and steps.
pub(super) const N: usize = 3;
pub(super) const T: usize = 3;

/// Which optional tensors a call has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Given {
    pub(super) b_ih: bool,
    pub(super) b_hh: bool,
    pub(super) h0: bool,
    pub(super) recurrent_mask: bool,
    pub(super) step_mask: bool,
    /// Shares for each step, for 1 unit or for H.
    pub(super) zoneout: Option<usize>,
}

/// Inputs whose values are exact in every type.
pub(super) struct Small {
    pub(super) call: Call,
    pub(super) p: Vec<f64>,
    pub(super) w_hh: Vec<f64>,
    pub(super) b_ih: Option<Vec<f64>>,
    pub(super) b_hh: Option<Vec<f64>>,
    /// With a start state in rows N..2N.
    pub(super) h0: Option<Vec<f64>>,
    pub(super) recurrent_mask: Option<Vec<f64>>,
    /// With starts, codes.
    pub(super) step_mask: Option<Vec<f64>>,
    pub(super) zoneout: Option<Vec<f64>>,
    pub(super) d_states: Vec<f64>,
}

/// Of a large weight, every so many columns of a row are not zero. So float64 products take milliseconds, and every
/// part of the weight has an effect.
fn stride(h: usize) -> usize {
    (h / 64).max(1)
}

/// The columns of row `k` of the weight that are not zero.
pub(super) fn columns(k: usize, h: usize) -> impl Iterator<Item = usize> {
    (k % stride(h)..3 * h).step_by(stride(h))
}

fn weights(h: usize, mut values: impl FnMut(usize) -> Vec<f64>) -> Vec<f64> {
    let mut w_hh = vec![0.0; 3 * h * h];
    for k in 0..h {
        let count = columns(k, h).count();
        for (c, value) in columns(k, h).zip(values(count)) {
            w_hh[k * 3 * h + c] = value;
        }
    }
    w_hh
}

/// Index of a row of the batch at a step.
pub(super) fn row_at(call: &Call, k: usize, s: usize) -> usize {
    let time = call.order.direction.time(s, T);
    match call.order.layout {
        Layout::BatchMajor => k * T + time,
        Layout::TimeMajor => time * N + k,
    }
}

impl Small {
    pub(super) fn new(call: &Call, given: Given) -> Self {
        let call = Call {
            n: N,
            t: T,
            self_test: false,
            ..*call
        };
        let (h, rows) = (call.h, N * T);
        let mut seed = 1u32;
        // Multiples of 1/64 below 1, times a power of two.
        let mut values = |len: usize, scale: f64| -> Vec<f64> {
            let mut value = || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (f64::from(seed >> 25) - 63.5).trunc() / 64.0 * scale
            };
            (0..len).map(|_| value()).collect()
        };
        let state_rows = match call.starts {
            Starts::FromState => 2 * N,
            Starts::None | Starts::FromZeros => N,
        };
        let terms = h / stride(h);
        let of_weight = 2f64.powf(-(terms as f64).sqrt().log2().round());
        let positive = |values: Vec<f64>| values.iter().map(|x| x.abs()).collect();
        // Without starts 0 and 1, with starts also 2 and 3.
        let mut codes = vec![1.0; rows];
        for (k, s) in (0..N).flat_map(|k| (0..T).map(move |s| (k, s))) {
            codes[row_at(&call, k, s)] = match call.starts {
                _ if s == 0 => [1.0, 0.0, 1.0][k],
                Starts::None => [1.0, 0.0, 1.0][(k + s) % 3],
                Starts::FromZeros | Starts::FromState => [3.0, 1.0, 2.0, 0.0][(k + 2 * s) % 4],
            };
        }
        Self {
            call,
            p: values(rows * 3 * h, 1.0),
            w_hh: weights(h, |len| values(len, of_weight)),
            b_ih: given.b_ih.then(|| values(3 * h, 0.5)),
            b_hh: given.b_hh.then(|| values(3 * h, 0.5)),
            h0: given.h0.then(|| values(state_rows * h, 1.0)),
            recurrent_mask: given.recurrent_mask.then(|| values(N * h, 2.0)),
            step_mask: given.step_mask.then_some(codes),
            zoneout: given
                .zoneout
                .map(|units| positive(values(rows * units, 1.0))),
            d_states: values(rows * h, 1.0),
        }
    }

    /// Whether a rounding error can change a result of the pass by more: a gradient at a clip or a kink, and a value
    /// at a jump of an activation.
    pub(super) fn may_jump(&self, pass: Pass) -> bool {
        let GruSpec {
            activations,
            clip_gates,
            clip_state,
            ..
        } = self.call.spec;
        let mut all = activations.into_array().into_iter();
        let is_smooth = |activation| match activation {
            Activation::Sigmoid
            | Activation::Tanh
            | Activation::Identity
            | Activation::Affine { .. }
            | Activation::ScaledTanh { .. }
            | Activation::Softsign
            | Activation::Softplus => true,
            Activation::Elu { alpha } => alpha == 1.0,
            _ => false,
        };
        match pass {
            Pass::Forward => all.any(|a| matches!(a, Activation::ThresholdedRelu { .. })),
            Pass::Backward => clip_gates.is_some() || clip_state.is_some() || !all.all(is_smooth),
        }
    }

    fn code(&self, row: usize) -> f64 {
        self.step_mask.as_ref().map_or(1.0, |codes| codes[row])
    }

    pub(super) fn is_skipped(&self, row: usize) -> bool {
        self.code(row) % 2.0 == 0.0
    }

    pub(super) fn starts(&self, row: usize) -> bool {
        self.code(row) >= 2.0
    }
}
