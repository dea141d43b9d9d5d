//! One GRU over one sequence: sizes, slices, and their checks.

mod check;
mod error;
mod ragged;

pub(crate) use self::check::{
    check_backward, check_forward, check_len, check_sizes, check_weights, features, gradient_lens,
    length, or_panic,
};
pub use self::error::CallError;
pub(crate) use self::ragged::{LiveRows, Ragged, Sorted};

use crate::{
    product::{Rows, Strided},
    spec::{self, Direction, GruSpec, Layout, Order, PerInput, Sizes},
};
use core::ops::Range;
use num_traits::Float;

/// The inputs of a call. Every slice is dense and row-major.
pub type Inputs<'a, E> = spec::Inputs<&'a [E]>;

/// A sequence, its initial state and its masks. `zoneout` has the shape `[N,T,H]` or `[T,N,H]`. In this crate `[N,T,1]`
/// is a panic.
///
/// ```
/// use gru_cpu::Sequence;
///
/// let (x, h0) = (vec![0.0f32; 2 * 5 * 3], vec![0.0; 2 * 4]); // [N,T,I], [N,H]
/// let sequence = Sequence { h0: Some(&h0), ..Sequence::new(&x) };
/// # let _ = sequence;
/// ```
pub type Sequence<'a, E> = spec::Sequence<&'a [E]>;

/// The weights of a layer, gates packed `r | z | n` in columns.
///
/// ```
/// use gru_cpu::Weights;
///
/// let (i, h) = (3, 4);
/// let (w_ih, w_hh, b_ih) = (vec![0.1f32; i * 3 * h], vec![0.2; h * 3 * h], vec![0.0; 3 * h]);
/// let weights = Weights { b_ih: Some(&b_ih), ..Weights::new(Some(&w_ih), &w_hh) };
/// # let _ = weights;
/// ```
pub type Weights<'a, E> = spec::Weights<&'a [E]>;

/// The slices for the gradients, with the shapes of the inputs. Only requested gradients are computed.
///
/// ```
/// use gru_cpu::Gradients;
///
/// let mut d_w_hh = vec![0.0f32; 4 * 3 * 4];
/// let to = Gradients { w_hh: Some(&mut d_w_hh), ..Default::default() };
/// # let _ = to;
/// ```
pub type Gradients<'a, E> = PerInput<Option<&'a mut [E]>>;

/// One GRU over one sequence: its sizes, the order of the sequence, and what a step computes.
///
/// The front page has an example of both passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gru {
    /// The sizes.
    pub sizes: Sizes,
    /// Memory layout and time direction.
    pub order: Order,
    /// What a step computes.
    pub spec: GruSpec,
}

impl Gru {
    /// A GRU over a batch-major sequence, forward in time.
    pub fn new(sizes: Sizes, spec: GruSpec) -> Self {
        Self {
            sizes,
            order: Order::default(),
            spec,
        }
    }

    /// The number of elements per row and step that are saved for the backward pass.
    pub(crate) fn saved_width(&self) -> usize {
        self.spec.saved_per_unit() * self.sizes.h
    }
}

/// A layer, and the sizes of the call for which its weights are prepared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerCall<'a, E> {
    pub(crate) sizes: Sizes,
    /// With clips in the range of `E`.
    pub(crate) spec: GruSpec,
    pub(crate) weights: Weights<'a, E>,
}

impl<'a, E: Float> LayerCall<'a, E> {
    pub(crate) fn new(sizes: Sizes, spec: &GruSpec, weights: Weights<'a, E>) -> Self {
        Self {
            sizes,
            spec: spec.for_numbers_up_to(largest::<E>()),
            weights,
        }
    }
}

/// A checked call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a, E> {
    pub(crate) sizes: &'a Sizes,
    /// With clips in the range of `E`.
    pub(crate) spec: GruSpec,
    pub(crate) inputs: &'a Inputs<'a, E>,
    order: Order,
    /// The rows of memory between rows of the batch, and between steps.
    per_n: usize,
    per_t: usize,
    /// Rows of different lengths. `n` is a slot then.
    ragged: Option<&'a Ragged>,
}

impl<'a, E: Float + Default> Call<'a, E> {
    pub(crate) fn new(gru: &'a Gru, inputs: &'a Inputs<'a, E>) -> Self {
        let (per_n, per_t) = match gru.order.layout {
            Layout::BatchMajor => (gru.sizes.t, 1),
            Layout::TimeMajor => (1, gru.sizes.n),
        };
        Self {
            sizes: &gru.sizes,
            spec: gru.spec.for_numbers_up_to(largest::<E>()),
            inputs,
            order: gru.order,
            per_n,
            per_t,
            ragged: None,
        }
    }

    pub(crate) fn layer(&self) -> LayerCall<'a, E> {
        LayerCall {
            sizes: *self.sizes,
            spec: self.spec,
            weights: self.inputs.weights,
        }
    }

    /// The same call over rows of different lengths.
    pub(crate) fn with_rows(self, ragged: &'a Ragged, inputs: &'a Inputs<'a, E>) -> Self {
        Self {
            inputs,
            ragged: Some(ragged),
            ..self
        }
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    /// The row of memory of batch row `n` at the `s`-th step.
    #[inline(always)]
    pub(crate) fn row(&self, n: usize, s: usize) -> usize {
        match self.ragged {
            None => {
                let time = self.order.direction.time(s, self.sizes.t);
                n * self.per_n + time * self.per_t
            }
            Some(ragged) => ragged.place(n, s),
        }
    }

    /// The rows of `cells` that belong to some rows of the batch at the `s`-th step.
    #[inline(always)]
    pub(crate) fn at_step(
        &self,
        cells: &Rows<'a, E>,
        batch: Range<usize>,
        s: usize,
    ) -> Strided<'a, E> {
        match self.ragged {
            None => {
                let first = self.row(batch.start, s);
                Strided::of(cells, first, self.per_n, batch.len())
            }
            Some(ragged) => Strided::listed(
                cells,
                ragged.places(),
                ragged.offset(s),
                ragged.first(batch),
            ),
        }
    }

    /// The features of a row of memory.
    #[inline(always)]
    pub(crate) fn x(&self, row: usize) -> &'a [E] {
        let features = features(&self.inputs.weights, self.sizes);
        &self.inputs.sequence.x[row * features..][..features]
    }

    /// Whether a row of memory belongs to a skipped step.
    #[inline(always)]
    pub(crate) fn is_skipped(&self, row: usize) -> bool {
        let valid = self.inputs.sequence.step_mask;
        valid.is_some_and(|valid| valid[row] == E::default())
    }

    /// Whether row `n` of the batch starts a new sequence before the `s`-th step.
    #[inline(always)]
    pub(crate) fn starts(&self, n: usize, s: usize) -> bool {
        match self.inputs.sequence.starts {
            None => false,
            Some(starts) => {
                // The boundary before a step belongs to the later time of the two.
                let of = match self.order.direction {
                    Direction::Forward => Some(s),
                    Direction::Reverse => s.checked_sub(1),
                };
                of.is_some_and(|s| starts[self.row(n, s)] != E::default())
            }
        }
    }

    /// The number of elements per row and step that are saved for the backward pass.
    pub(crate) fn saved_width(&self) -> usize {
        self.spec.saved_per_unit() * self.sizes.h
    }
}

/// The largest finite number of `E`.
fn largest<E: Float>() -> f64 {
    let largest = E::max_value().to_f64();
    largest.expect("every float type converts to f64")
}
