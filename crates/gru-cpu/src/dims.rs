//! Sizes, input slices, and how a (row, step) pair finds its place in memory.

use crate::spec::{Direction, GruSpec, Layout};

/// The sizes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    /// N, rows of the batch.
    pub n: usize,
    /// T, steps.
    pub t: usize,
    /// I, features of the input.
    pub i: usize,
    /// H, hidden units.
    pub h: usize,
}

/// Room above a product of sizes: the bytes of an element, the lanes and rows that a buffer is filled
/// up to, the buffers that one allocation may hold.
const ROOM: usize = 1 << 10;

impl Dims {
    /// T·N, rows of every matrix that spans the sequence.
    pub fn rows(&self) -> usize {
        self.n * self.t
    }

    /// After this no product of sizes within a call overflows.
    ///
    /// # Panics
    /// If one would.
    pub(crate) fn check(&self, op: &str) {
        let Self { n, t, i, h } = *self;
        let widest = h.checked_mul(4).map(|gates| gates.max(i));
        let fits = |product: Option<usize>| {
            let bytes = product.and_then(|elements| elements.checked_mul(ROOM));
            bytes.is_some_and(|bytes| bytes <= isize::MAX as usize)
        };
        let rows = n.checked_mul(t);
        let sequence = rows.zip(widest).and_then(|(rows, w)| rows.checked_mul(w));
        let step = widest.and_then(|w| w.checked_mul(n.max(1)));
        let weights = h.checked_mul(3).and_then(|w| w.checked_mul(i.max(h)));
        assert!(
            [rows, sequence, step, weights].into_iter().all(fits),
            "{op}: no memory holds sizes of n {n}, t {t}, i {i}, h {h}"
        );
    }

    /// Where row `n` of step `t` stands in the memory order of `x` and of the states.
    pub(crate) fn place(&self, layout: Layout) -> Place {
        match layout {
            Layout::BatchMajor => Place {
                per_n: self.t,
                per_t: 1,
            },
            Layout::TimeMajor => Place {
                per_n: 1,
                per_t: self.n,
            },
        }
    }
}

/// Row distances of one step in the batch and one step in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) per_n: usize,
    pub(crate) per_t: usize,
}

impl Place {
    pub(crate) fn row(&self, n: usize, t: usize) -> usize {
        n * self.per_n + t * self.per_t
    }
}

/// The order in which time is walked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    t: usize,
    direction: Direction,
}

impl Walk {
    pub(crate) fn new(dims: &Dims, spec: &GruSpec) -> Self {
        Self {
            t: dims.t,
            direction: spec.direction,
        }
    }

    /// The time index of the `s`-th step walked.
    pub(crate) fn time(&self, s: usize) -> usize {
        match self.direction {
            Direction::Forward => s,
            Direction::Reverse => self.t - 1 - s,
        }
    }
}

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
        let Dims { n, t, i, h } = *dims;
        check_len(op, "x", Some(self.x), n * t * self.features(dims));
        check_len(op, "h0", self.h0, n * h);
        check_len(op, "w_ih", self.w_ih, i * 3 * h);
        check_len(op, "w_hh", Some(self.w_hh), h * 3 * h);
        check_len(op, "b_ih", self.b_ih, 3 * h);
        check_len(op, "b_hh", self.b_hh, 3 * h);
        check_len(op, "mask", self.mask, n * h);
        check_len(op, "valid", self.valid, n * t);
        check_len(op, "take", self.take, n * t * h);
    }
}

pub(crate) fn check_len<E>(op: &str, name: &str, slice: Option<&[E]>, expected: usize) {
    if let Some(slice) = slice {
        assert_eq!(
            slice.len(),
            expected,
            "{op}: {name} has the wrong number of elements"
        );
    }
}
