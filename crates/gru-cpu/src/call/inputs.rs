//! The slices that a call reads. Every one is dense and row-major.

use super::{CallError, Dims, check_len, or_panic, try_len};

/// What one call reads.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a, E> {
    /// The sequence, and what belongs to its rows and steps.
    pub sequence: Sequence<'a, E>,
    /// The weights that it meets.
    pub weights: Weights<'a, E>,
}

/// A sequence, and what belongs to its rows and steps.
///
/// ```
/// let (x, h0) = (vec![0.0f32; 2 * 5 * 3], vec![0.0; 2 * 4]); // [N,T,I], [N,H]
/// let sequence = gru_cpu::Sequence::new(&x).with_h0(Some(&h0));
/// # let _ = sequence;
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Sequence<'a, E> {
    /// `[N,T,I]`, or `[T,N,I]` by the layout of the spec; without an input weight already projected,
    /// `[…,3H]`.
    pub x: &'a [E],
    /// Initial state `[N,H]`; zeros if absent.
    pub h0: Option<&'a [E]>,
    /// Recurrent mask `[N,H]`, the same at every step: it multiplies the state on its way into
    /// the gates, not the state that is kept.
    pub mask: Option<&'a [E]>,
    /// `[N,T]` or `[T,N]`: 0 where a step is skipped, so that the state is carried on.
    pub valid: Option<&'a [E]>,
    /// `[N,T,H]` or `[T,N,H]`, the share of the new state that is taken at the steps that are not
    /// skipped: `take ⊙ h' + (1 − take) ⊙ h₋₁`.
    pub take: Option<&'a [E]>,
}

impl<'a, E> Sequence<'a, E> {
    /// A sequence and nothing else.
    pub fn new(x: &'a [E]) -> Self {
        Self {
            x,
            h0: None,
            mask: None,
            valid: None,
            take: None,
        }
    }

    /// Sets the initial state.
    pub fn with_h0(self, h0: Option<&'a [E]>) -> Self {
        Self { h0, ..self }
    }

    /// Sets the recurrent mask.
    pub fn with_mask(self, mask: Option<&'a [E]>) -> Self {
        Self { mask, ..self }
    }

    /// Sets the steps that count.
    pub fn with_valid(self, valid: Option<&'a [E]>) -> Self {
        Self { valid, ..self }
    }

    /// Sets the share of the new state that is taken.
    pub fn with_take(self, take: Option<&'a [E]>) -> Self {
        Self { take, ..self }
    }

    /// # Panics
    /// If a slice has not the length that `dims`, which are checked, and the features ask for.
    pub(crate) fn check(&self, op: &str, dims: &Dims, features: usize) {
        let Dims { n, t, h, .. } = *dims;
        check_len(op, "x", Some(self.x), n * t * features);
        check_len(op, "h0", self.h0, n * h);
        check_len(op, "mask", self.mask, n * h);
        check_len(op, "valid", self.valid, n * t);
        check_len(op, "take", self.take, n * t * h);
    }
}

/// The weights of a layer, gates packed `r | z | n` in columns.
///
/// ```
/// let (i, h) = (3, 4);
/// let (w_ih, w_hh, b_ih) = (vec![0.1f32; i * 3 * h], vec![0.2; h * 3 * h], vec![0.0; 3 * h]);
/// let weights = gru_cpu::Weights::new(Some(&w_ih), &w_hh).with_b_ih(Some(&b_ih));
/// # let _ = weights;
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Weights<'a, E> {
    /// Input weight `[I,3H]`. Without it a sequence comes already projected, and I plays no part.
    pub w_ih: Option<&'a [E]>,
    /// Recurrent weight `[H,3H]`.
    pub w_hh: &'a [E],
    /// Bias of the input product `[3H]`.
    pub b_ih: Option<&'a [E]>,
    /// Bias of the recurrent product `[3H]`.
    pub b_hh: Option<&'a [E]>,
}

impl<'a, E> Weights<'a, E> {
    /// Weights without biases.
    pub fn new(w_ih: Option<&'a [E]>, w_hh: &'a [E]) -> Self {
        Self {
            w_ih,
            w_hh,
            b_ih: None,
            b_hh: None,
        }
    }

    /// Sets the bias of the input product.
    pub fn with_b_ih(self, b_ih: Option<&'a [E]>) -> Self {
        Self { b_ih, ..self }
    }

    /// Sets the bias of the recurrent product.
    pub fn with_b_hh(self, b_hh: Option<&'a [E]>) -> Self {
        Self { b_hh, ..self }
    }

    /// Elements of a row of the sequence.
    pub(crate) fn features(&self, dims: &Dims) -> usize {
        match self.w_ih {
            Some(_) => dims.i,
            None => 3 * dims.h,
        }
    }

    /// Whether every weight and bias has the length that `dims` asks for, which are checked.
    pub(crate) fn try_check(&self, dims: &Dims) -> Result<(), CallError> {
        let Dims { i, h, .. } = *dims;
        try_len("w_ih", self.w_ih, i * 3 * h)?;
        try_len("w_hh", Some(self.w_hh), h * 3 * h)?;
        try_len("b_ih", self.b_ih, 3 * h)?;
        try_len("b_hh", self.b_hh, 3 * h)
    }
}

impl<E> Inputs<'_, E> {
    /// # Panics
    /// If the sizes overflow, or a slice has not the length that they ask for.
    pub(crate) fn check(&self, op: &str, dims: &Dims) {
        dims.check(op);
        let features = self.weights.features(dims);
        self.sequence.check(op, dims, features);
        or_panic(op, self.weights.try_check(dims));
    }
}
