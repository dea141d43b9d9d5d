//! What a call is given: sizes, slices, where gradients go. All of it is checked here, once.

mod dims;
mod error;
mod gradients;
mod inputs;

pub use self::{
    dims::Dims,
    error::CallError,
    gradients::Gradients,
    inputs::{Inputs, Sequence, Weights},
};
pub(crate) use self::{
    dims::{Place, Time},
    error::or_panic,
    gradients::write_bias,
};

use crate::spec::GruSpec;
use num_traits::Float;

/// What both passes ask of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a, E> {
    pub(crate) dims: &'a Dims,
    /// For arithmetic in E.
    pub(crate) spec: GruSpec,
    pub(crate) inputs: &'a Inputs<'a, E>,
    place: Place,
    time: Time,
}

impl<'a, E: Float + Default> Call<'a, E> {
    pub(crate) fn new(dims: &'a Dims, spec: &GruSpec, inputs: &'a Inputs<'a, E>) -> Self {
        Self {
            dims,
            spec: spec.for_numbers_up_to(largest::<E>()),
            inputs,
            place: dims.place(spec.layout),
            time: Time::new(dims, spec),
        }
    }

    /// Where row `n` of the batch stands in memory at the `s`-th step walked.
    #[inline(always)]
    pub(crate) fn row(&self, n: usize, s: usize) -> usize {
        self.place.row(n, self.time.of(s))
    }

    /// Rows of memory from one row of the batch to the next, at the same step.
    #[inline(always)]
    pub(crate) fn per_row(&self) -> usize {
        self.place.per_n
    }

    /// What a row of memory holds of the sequence.
    #[inline(always)]
    pub(crate) fn x(&self, row: usize) -> &'a [E] {
        let features = self.inputs.weights.features(self.dims);
        &self.inputs.sequence.x[row * features..][..features]
    }

    /// Whether a row of memory stands for a step that does not count.
    #[inline(always)]
    pub(crate) fn is_skipped(&self, row: usize) -> bool {
        let valid = self.inputs.sequence.valid;
        valid.is_some_and(|valid| valid[row] == E::default())
    }

    /// Elements that are kept of a row for the backward pass.
    pub(crate) fn saved_width(&self) -> usize {
        self.spec.saved_per_unit() * self.dims.h
    }
}

/// The largest finite number of a type.
pub(crate) fn largest<E: Float>() -> f64 {
    let largest = E::max_value().to_f64();
    largest.expect("every float type converts to f64")
}

/// # Panics
/// If the sizes overflow, or a slice has not the length that they ask for.
pub(crate) fn check_forward<E>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: Option<&[E]>,
) {
    const OP: &str = "gru_cpu::forward";
    spec.check();
    inputs.check(OP, dims);
    check_len(OP, "states", Some(states), dims.rows() * dims.h);
    check_len(
        OP,
        "saved",
        saved,
        dims.rows() * spec.saved_per_unit() * dims.h,
    );
}

/// # Panics
/// If the sizes overflow, a slice has not the length that they ask for, or a gradient is asked for
/// an input that is absent.
pub(crate) fn check_backward<E>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: Option<&[E]>,
    d_states: &[E],
    to: &Gradients<'_, E>,
) {
    const OP: &str = "gru_cpu::backward";
    spec.check();
    inputs.check(OP, dims);
    to.check(OP, dims, inputs);
    check_len(OP, "states", Some(states), dims.rows() * dims.h);
    check_len(OP, "d_states", Some(d_states), dims.rows() * dims.h);
    check_len(
        OP,
        "saved",
        saved,
        dims.rows() * spec.saved_per_unit() * dims.h,
    );
}

pub(crate) fn check_len<E>(op: &str, name: &'static str, slice: Option<&[E]>, expected: usize) {
    or_panic(op, try_len(name, slice, expected));
}

fn try_len<E>(tensor: &'static str, slice: Option<&[E]>, expected: usize) -> Result<(), CallError> {
    match slice.map(<[E]>::len) {
        Some(actual) if actual != expected => Err(CallError::Length {
            tensor,
            expected,
            actual,
        }),
        _ => Ok(()),
    }
}
