//! The recurrence of a call: what all kernels of the call read, and its checks.

use crate::{
    kernel::{
        rule::{Rule, Starts, ZoneoutKind},
        threads::Matrices,
    },
    plan::{Problem, limits::Limits, tensor::Tensor},
};
use cubecl::{
    client::Client,
    ir::{AddressType, ElemType, FloatKind},
    server::Handle,
};
use gru_spec::{Direction, GruSpec, Inputs, Order, Sequence, Sizes};

/// The recurrence of a call. Its input product `x·w_ih` is already computed.
#[derive(Debug, Clone)]
pub struct Recurrence {
    /// N, T and H. I is ignored.
    pub sizes: Sizes,
    /// What a step computes.
    pub spec: GruSpec,
    /// Memory layout and time direction.
    pub order: Order,
    /// Type of every buffer: f32, f16 or bf16. Sums and states within a launch are float32.
    pub dtype: ElemType,
    /// The buffers, contiguous and row-major. Shapes are as in [`gru_spec`], with these exceptions:
    ///
    /// - `x` is `x·w_ih` of the steps of a pass, `[N,steps,3H]` or `[steps,N,3H]`. A backward pass does not read it.
    /// - With [`Starts`], `step_mask` has the codes of the steps, and `h0` may be `[2N,H]`.
    /// - `w_ih`, `starts` and `start_state` are ignored.
    pub inputs: Inputs<Handle>,
    /// Starts of new sequences within a row.
    pub starts: Starts,
    /// Shape of `zoneout`.
    pub zoneout: ZoneoutKind,
    /// The steps of each row, which do not increase from row to row. The rest of a row is padding, and most of it is
    /// not computed: its states, its gates and the gradients of its gates are undefined. The order must be forward.
    /// `step_mask` and the upstream gradient must be 0 in the padding, and `d_h0` must have zeros.
    pub lengths: Option<Vec<usize>>,
}

impl Recurrence {
    /// The conventions and the device, after all checks.
    ///
    /// # Panics
    /// If the spec is not valid, a size is too large, the type is not a float of 16 or 32 bits, a tensor is missing, or
    /// the lengths do not fit.
    pub(super) fn problem(&self, client: &Client) -> Problem {
        self.check();
        let epsilon = match self.dtype {
            ElemType::Float(FloatKind::F32) => f32::EPSILON.into(),
            ElemType::Float(FloatKind::F16) => 2f64.powi(-10),
            ElemType::Float(FloatKind::BF16) => 2f64.powi(-7),
            other => panic!("gru_cube: expected type f32, f16 or bf16, got {other:?}"),
        };
        Problem {
            n: self.sizes.n,
            rule: Rule {
                starts: self.starts,
                zoneout: self.zoneout,
                ..Rule::new(&self.spec, self.order, self.sizes.h, epsilon)
            },
            limits: Limits::of(client),
            matrices: Matrices::of(client, self.dtype),
        }
    }

    fn check(&self) {
        self.spec.check();
        check_sizes(&self.sizes);
        let Sequence {
            h0,
            step_mask,
            zoneout,
            ..
        } = self.inputs.sequence.as_ref();
        let starts = self.starts;
        assert!(
            starts == Starts::None || step_mask.is_some(),
            "gru_cube: starts {starts:?}: expected a step_mask, got none"
        );
        assert!(
            starts != Starts::FromState || h0.is_some(),
            "gru_cube: starts {starts:?}: expected h0 with the start state behind it, got none"
        );
        let kind = self.zoneout;
        assert!(
            (kind != ZoneoutKind::None) == zoneout.is_some(),
            "gru_cube: zoneout {kind:?}: expected a tensor of this kind"
        );
        let Some(lengths) = &self.lengths else { return };
        let Sizes { n, t, .. } = self.sizes;
        let fits = lengths.len() == n && lengths.iter().all(|&length| length <= t);
        assert!(
            fits && lengths.is_sorted_by(|a, b| a >= b),
            "gru_cube: expected {n} lengths of at most {t} that do not increase, got {lengths:?}"
        );
        let direction = self.order.direction;
        assert!(
            direction == Direction::Forward && step_mask.is_some(),
            "gru_cube: lengths: expected the forward direction and a step_mask, got {direction:?} and {}",
            step_mask.map_or("none", |_| "a step_mask")
        );
    }

    /// For the indices of the largest buffers: four gates of every row, or the weight with all small tensors. A device
    /// that has only short addresses was not given a tensor that needs more.
    pub(super) fn address_type(&self, client: &Client) -> AddressType {
        let (Sizes { n, h, .. }, rows) = (self.sizes, self.sizes.places());
        let small = 3 * n * h + 6 * h + 2 * rows;
        let largest = (4 * rows * h).max(3 * h * h + small);
        AddressType::from_len(largest.min(Limits::of(client).elements))
    }

    /// A tensor of `elements` of the type of the call.
    pub(super) fn tensor<'a>(
        &self,
        name: &'static str,
        handle: impl Into<Option<&'a Handle>>,
        elements: usize,
    ) -> Tensor {
        let handle = handle.into().cloned();
        Tensor {
            name,
            bound: handle.is_some(),
            handle,
            elements,
            size: self.dtype.size(),
            small: false,
            from: 0,
            alias: None,
        }
    }

    /// A tensor that may share a buffer with others.
    pub(super) fn small<'a>(
        &self,
        name: &'static str,
        handle: impl Into<Option<&'a Handle>>,
        elements: usize,
    ) -> Tensor {
        Tensor {
            small: true,
            ..self.tensor(name, handle, elements)
        }
    }

    /// The biases.
    pub(super) fn biases(&self) -> [Tensor; 2] {
        let weights = &self.inputs.weights;
        [("b_ih", &weights.b_ih), ("b_hh", &weights.b_hh)]
            .map(|(name, bias)| self.small(name, bias, 3 * self.sizes.h))
    }

    /// Initial state, recurrent mask and step mask.
    pub(super) fn states_and_masks(&self) -> [Tensor; 3] {
        let (Sizes { n, h, .. }, sequence) = (self.sizes, &self.inputs.sequence);
        [
            self.small("h0", &sequence.h0, self.state_len()),
            self.small("recurrent_mask", &sequence.recurrent_mask, n * h),
            self.small("step_mask", &sequence.step_mask, self.sizes.places()),
        ]
    }

    pub(super) fn zoneout(&self) -> Tensor {
        let (zoneout, rows) = (&self.inputs.sequence.zoneout, self.sizes.places());
        if self.zoneout == ZoneoutKind::OfUnit {
            self.tensor("zoneout", zoneout, rows * self.sizes.h)
        } else {
            self.small("zoneout", zoneout, rows)
        }
    }

    /// Elements of `h0` and of its gradient: a state for each row, and one more for a start state.
    pub(super) fn state_len(&self) -> usize {
        let states = match self.starts {
            Starts::None | Starts::FromZeros => 1,
            Starts::FromState => 2,
        };
        states * self.sizes.n * self.sizes.h
    }
}

/// Checks that no later computation with sizes overflows.
///
/// # Panics
/// If the gates or the weight have more bytes than a `usize` can count, or a size is not a `u32`, the type of the
/// kernels' arguments.
fn check_sizes(sizes: &Sizes) {
    let Sizes { n, t, h, .. } = *sizes;
    for (name, size) in [("N", n), ("T", t), ("H", h)] {
        to_u32(name, size);
    }
    // Float32, because scratch buffers are.
    let bytes = |sizes: [usize; 3]| {
        let all = sizes.into_iter().chain([4, size_of::<f32>()]);
        all.map(|size| size.max(1))
            .try_fold(1, |bytes: usize, size| bytes.checked_mul(size))
    };
    assert!(
        bytes([n, t, h]).is_some() && bytes([1, h, h]).is_some(),
        "gru_cube: N {n}, T {t}, H {h}: expected gates and w_hh of less than 2^{} bytes",
        usize::BITS
    );
}

pub(super) fn to_u32(name: &str, size: usize) -> u32 {
    u32::try_from(size).unwrap_or_else(|_| panic!("gru_cube: {name} is {size}, expected a u32"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(n: usize, t: usize, h: usize) {
        check_sizes(&Sizes { n, t, i: 0, h });
    }

    #[test]
    fn large_sizes_pass() {
        check(0, 0, 0);
        check(1 << 20, 1 << 20, 1 << 10);
        check(1, u32::MAX as usize, 1);
    }

    #[test]
    #[should_panic(
        expected = "gru_cube: N 1048576, T 1048576, H 1048576: expected gates and w_hh of"
    )]
    fn gates_beyond_all_addresses_are_an_error() {
        check(1 << 20, 1 << 20, 1 << 20);
    }

    #[test]
    #[should_panic(expected = "gru_cube: N 0, T 1, H 4294967295: expected gates and w_hh of less")]
    fn a_weight_beyond_all_addresses_is_an_error() {
        check(0, 1, u32::MAX as usize);
    }

    #[test]
    #[should_panic(expected = "gru_cube: T is 4294967296, expected a u32")]
    fn a_size_beyond_u32_is_an_error() {
        check(1, 1 << 32, 1);
    }
}
