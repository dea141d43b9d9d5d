//! The slices that a call reads.

use super::{Dims, check_len};

/// What one call reads. Every slice is dense and row-major; `x` and `valid` follow the layout of
/// the spec, so do the states.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a, E> {
    /// The sequence `[N,T,I]` or `[T,N,I]`; without `w_ih` already projected, `[…,3H]`.
    pub x: &'a [E],
    /// Initial state `[N,H]`; zeros if absent.
    pub h0: Option<&'a [E]>,
    /// Input weight `[I,3H]`.
    pub w_ih: Option<&'a [E]>,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: &'a [E],
    /// Bias of the input product `[3H]`.
    pub b_ih: Option<&'a [E]>,
    /// Bias of the recurrent product `[3H]`.
    pub b_hh: Option<&'a [E]>,
    /// Recurrent mask `[N,H]`, the same at every step: it multiplies the state on its way into
    /// the gates, not the state that is kept.
    pub mask: Option<&'a [E]>,
    /// `[N,T]` or `[T,N]`: 0 where a step is skipped, so that the state is carried on.
    pub valid: Option<&'a [E]>,
    /// `[N,T,H]` or `[T,N,H]`, the share of the new state that is taken at the steps that are not
    /// skipped: `take ⊙ h' + (1 − take) ⊙ h₋₁`.
    pub take: Option<&'a [E]>,
}

/// What a call with [packed weights](crate::PackedWeights) reads: as in [`Inputs`].
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'a, E> {
    /// The sequence `[N,T,I]` or `[T,N,I]`; without an input weight already projected, `[…,3H]`.
    pub x: &'a [E],
    /// Initial state `[N,H]`; zeros if absent.
    pub h0: Option<&'a [E]>,
    /// Recurrent mask `[N,H]`.
    pub mask: Option<&'a [E]>,
    /// `[N,T]` or `[T,N]`: 0 where a step is skipped.
    pub valid: Option<&'a [E]>,
    /// `[N,T,H]` or `[T,N,H]`, the share of the new state that is taken.
    pub take: Option<&'a [E]>,
}

impl<'a, E> Sequence<'a, E> {
    /// A sequence and nothing else.
    pub fn of(x: &'a [E]) -> Self {
        Self {
            x,
            h0: None,
            mask: None,
            valid: None,
            take: None,
        }
    }
}

impl<E> Inputs<'_, E> {
    /// Elements of a row of `x`.
    pub(crate) fn features(&self, dims: &Dims) -> usize {
        match self.w_ih {
            Some(_) => dims.i,
            None => 3 * dims.h,
        }
    }

    /// # Panics
    /// If the sizes overflow, or a slice has not the length that they ask for.
    pub(crate) fn check(&self, op: &str, dims: &Dims) {
        dims.check(op);
        self.check_sequence(op, dims);
        self.check_weights(op, dims);
    }

    /// # Panics
    /// If a slice that has to do with the sequence has not the length that `dims` asks for, which are
    /// checked.
    pub(crate) fn check_sequence(&self, op: &str, dims: &Dims) {
        let Dims { n, t, h, .. } = *dims;
        check_len(op, "x", Some(self.x), n * t * self.features(dims));
        check_len(op, "h0", self.h0, n * h);
        check_len(op, "mask", self.mask, n * h);
        check_len(op, "valid", self.valid, n * t);
        check_len(op, "take", self.take, n * t * h);
    }

    /// # Panics
    /// If a weight or bias has not the length that `dims` asks for, which are checked.
    pub(crate) fn check_weights(&self, op: &str, dims: &Dims) {
        let Dims { i, h, .. } = *dims;
        check_len(op, "w_ih", self.w_ih, i * 3 * h);
        check_len(op, "w_hh", Some(self.w_hh), h * 3 * h);
        check_len(op, "b_ih", self.b_ih, 3 * h);
        check_len(op, "b_hh", self.b_hh, 3 * h);
    }
}
