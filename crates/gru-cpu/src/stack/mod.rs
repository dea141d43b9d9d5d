//! Layers that are prepared for inference.

mod sequence;
mod stream;

pub use self::stream::StackStream;

use crate::{
    call::{CallError, Weights, check_sizes, check_weights},
    pass::PreparedLayer,
    spec::{Direction, GruSpec, Lengths, Precision, Sizes},
};
use alloc::vec::Vec;
use core::fmt;

/// One direction of one layer of a [`Stack`]. Make it from [`new`](Self::new), with `..StackLayer::new(weights)`: it may get
/// more fields.
#[derive(Debug, Clone, Copy)]
pub struct StackLayer<'a> {
    /// What a step computes.
    pub spec: GruSpec,
    /// The direction of time.
    pub direction: Direction,
    /// The share of the previous state that a step keeps: 0, or the mean of zoneout.
    pub zoneout: f32,
    /// The weights. `w_ih` is required.
    pub weights: Weights<'a, f32>,
}

impl<'a> StackLayer<'a> {
    /// A layer with the default rules, forward in time and without zoneout.
    pub fn new(weights: Weights<'a, f32>) -> Self {
        Self {
            spec: GruSpec::default(),
            direction: Direction::Forward,
            zoneout: 0.0,
            weights,
        }
    }
}

/// The layers of a GRU with their weights prepared for inference, in float32 or with 16 or 8 bits. States, biases
/// and gates are float32.
///
/// The weights are a copy, and never change. Threads may share a stack.
///
/// ```
/// use gru_cpu::{
///     Stack, StackInputs, StackLayer, StackStream, Weights,
///     spec::{Layout, Precision},
/// };
/// use std::sync::Arc;
///
/// let (i, h) = (3, 4);
/// let (w_ih, w_hh) = (vec![0.1f32; i * 3 * h], vec![0.2; h * 3 * h]);
/// let layer = StackLayer::new(Weights::new(Some(&w_ih), &w_hh));
/// let stack = Stack::new(Precision::Int8, [i, h], 1, &[layer]);
///
/// // A sequence of two rows and five steps.
/// let (n, t) = (2, 5);
/// let x = vec![1.0; n * t * i];
/// let (mut y, mut last) = (vec![0.0; n * t * h], vec![0.0; n * h]);
/// stack.forward(Layout::BatchMajor, [n, t], StackInputs::new(&x), &mut y, &mut last);
///
/// // The same numbers step by step.
/// let mut stream = StackStream::new(Arc::new(stack), n);
/// for _ in 0..t {
///     stream.step(&[1.0; 2 * 3]);
/// }
/// assert_eq!(stream.state(), last);
/// ```
pub struct Stack {
    precision: Precision,
    sizes: StackSizes,
    /// Layer `l`, direction `d` is at `l·D + d`.
    layers: Vec<Layer<'static>>,
}

/// The layers of a GRU for one call of [`forward`](Self::forward), which reads their weights in place, or packs the
/// weights of one layer after the other. The bits are those of [`Gru::forward`](crate::Gru::forward).
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    sizes: StackSizes,
    layers: &'a [StackLayer<'a>],
}

/// A layer of a [`Stack`], or of [`Layers`] during a call.
struct Layer<'a> {
    prepared: PreparedLayer<'a>,
    direction: Direction,
    zoneout: f32,
}

impl<'a> Layer<'a> {
    fn new(of: &StackLayer<'_>, prepared: PreparedLayer<'a>) -> Self {
        Self {
            prepared,
            direction: of.direction,
            zoneout: of.zoneout,
        }
    }
}

/// The sizes of all layers.
#[derive(Debug, Clone, Copy)]
struct StackSizes {
    i: usize,
    h: usize,
    /// D, 1 or 2.
    directions: usize,
    /// L·D.
    count: usize,
}

impl StackSizes {
    /// Checks layers. The panics and errors are documented by [`Stack::try_new`].
    fn check(
        op: &str,
        [i, h]: [usize; 2],
        directions: usize,
        layers: &[StackLayer<'_>],
    ) -> Result<Self, CallError> {
        assert!(
            matches!(directions, 1 | 2),
            "{op}: directions, expected 1 or 2, got {directions}"
        );
        let count = layers.len();
        assert!(
            count > 0 && count.is_multiple_of(directions),
            "{op}: layers times directions, expected a positive multiple of {directions}, got {count}"
        );
        let all = Self {
            i,
            h,
            directions,
            count,
        };
        for (k, layer) in layers.iter().enumerate() {
            assert!(
                layer.weights.w_ih.is_some(),
                "{op}: w_ih of layer {k}, expected a weight, got none"
            );
            assert!(
                (0.0..=1.0).contains(&layer.zoneout),
                "{op}: zoneout of layer {k}, expected 0 to 1, got {}",
                layer.zoneout
            );
            layer.spec.try_check().map_err(CallError::Spec)?;
            let sizes = all.of_layer(k, [1, 1]);
            check_sizes(&sizes)?;
            check_weights(&layer.weights, &sizes)?;
        }
        Ok(all)
    }

    /// The sizes of a layer and direction in a call of N rows and T steps.
    fn of_layer(&self, k: usize, [n, t]: [usize; 2]) -> Sizes {
        let (h, d) = (self.h, self.directions);
        let i = if k < d { self.i } else { d * h };
        Sizes { n, t, i, h }
    }
}

/// The inputs of [`Stack::forward`]. Make it from [`new`](Self::new), with `..StackInputs::new(x)`: it may get more fields.
#[derive(Debug, Clone, Copy)]
pub struct StackInputs<'a> {
    /// `[N,T,I]` or `[T,N,I]`.
    pub x: &'a [f32],
    /// The length of each row. Past the end of a row nothing is read. A final state is the state at the end of its
    /// row.
    pub lengths: &'a Lengths,
    /// Initial states `[L·D,N,H]`; zeros if absent.
    pub state: Option<&'a [f32]>,
    /// `[N,T]` or `[T,N]`: 0 if a step is skipped and the state is kept.
    pub step_mask: Option<&'a [f32]>,
    /// `[N,T]` or `[T,N]`: nonzero if the row starts a new sequence at this time.
    pub starts: Option<&'a [f32]>,
    /// The states with which a row starts, `[L·D,N,H]`; zeros if absent. They require `starts`.
    pub start_state: Option<&'a [f32]>,
}

impl<'a> StackInputs<'a> {
    /// A sequence with only its input.
    pub fn new(x: &'a [f32]) -> Self {
        Self {
            x,
            lengths: &Lengths::All,
            state: None,
            step_mask: None,
            starts: None,
            start_state: None,
        }
    }
}

/// How much the weights of a matrix were rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Rounding {
    /// The layer and direction, at `l·D + d`.
    pub layer: usize,
    /// `w_ih` or `w_hh`.
    pub matrix: &'static str,
    /// `10·log₁₀ Σw² / Σ(w − ŵ)²`: the size of the weights compared with their rounding errors, in dB, or none if
    /// no weight was rounded.
    pub db: Option<f64>,
}

impl Stack {
    /// Prepares the weights of L layers in D directions, with I inputs and H hidden units. Layer `l`, direction
    /// `d` is at `l·D + d`. A layer above the first has D·H inputs.
    ///
    /// # Panics
    /// If [`try_new`](Self::try_new) returns an error.
    pub fn new(
        precision: Precision,
        sizes: [usize; 2],
        directions: usize,
        layers: &[StackLayer<'_>],
    ) -> Self {
        match Self::try_new(precision, sizes, directions, layers) {
            Ok(stack) => stack,
            Err(error) => panic!("gru_cpu::Stack::new: {error}"),
        }
    }

    /// [`new`](Self::new) for weights that were read from a file.
    ///
    /// # Errors
    /// If a weight or bias has the wrong number of elements, the sizes exceed the address space, a weight for
    /// [`Precision::Int8`] is not finite, or [`GruSpec::try_check`] returns an error.
    ///
    /// # Panics
    /// - If there is not one direction or two.
    /// - If the number of layers is not a positive multiple of the number of directions.
    /// - If an input weight is missing, or zoneout is not between 0 and 1.
    pub fn try_new(
        precision: Precision,
        sizes: [usize; 2],
        directions: usize,
        layers: &[StackLayer<'_>],
    ) -> Result<Self, CallError> {
        let sizes = StackSizes::check("gru_cpu::Stack::try_new", sizes, directions, layers)?;
        let prepare = |(k, layer): (usize, &StackLayer<'_>)| {
            let Sizes { i, h, .. } = sizes.of_layer(k, [1, 1]);
            let matrices = [
                ("w_ih", layer.weights.w_ih),
                ("w_hh", Some(layer.weights.w_hh)),
            ];
            for (matrix, values) in matrices {
                let values = values.into_iter().flatten();
                if precision == Precision::Int8 && !values.copied().all(f32::is_finite) {
                    return Err(CallError::NotFinite { layer: k, matrix });
                }
            }
            let prepared = PreparedLayer::new(precision, &layer.spec, [i, h], layer.weights);
            Ok(Layer::new(layer, prepared))
        };
        Ok(Self {
            precision,
            sizes,
            layers: layers
                .iter()
                .enumerate()
                .map(prepare)
                .collect::<Result<_, _>>()?,
        })
    }

    /// I, features of the input.
    pub fn features(&self) -> usize {
        self.sizes.i
    }

    /// H, hidden units of each layer and direction.
    pub fn units(&self) -> usize {
        self.sizes.h
    }

    /// L·D, layers times directions.
    pub fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// D, directions: 1 or 2.
    pub fn directions(&self) -> usize {
        self.sizes.directions
    }

    /// The direction of time of a layer and direction, at `l·D + d`.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn direction(&self, layer: usize) -> Direction {
        self.layers[layer].direction
    }

    /// The precision of the weights.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Bytes of the prepared weights and biases, with their padding.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.prepared.bytes()).sum()
    }

    /// How much each matrix was rounded. Empty for [`Precision::Full`].
    pub fn rounding(&self) -> Vec<Rounding> {
        let layers = self.layers.iter().enumerate();
        let of_layer = |(layer, of): (usize, &Layer<'_>)| {
            let names = ["w_ih", "w_hh"].into_iter();
            let both = of.prepared.rounding().map(|energies| names.zip(energies));
            both.into_iter()
                .flatten()
                .map(move |(matrix, energy)| Rounding {
                    layer,
                    matrix,
                    db: energy.db(),
                })
        };
        layers.flat_map(of_layer).collect()
    }
}

impl<'a> Layers<'a> {
    /// L layers in D directions, with I inputs and H hidden units, as in [`Stack::try_new`].
    ///
    /// # Errors
    /// As [`Stack::try_new`].
    ///
    /// # Panics
    /// As [`Stack::try_new`].
    pub fn try_new(
        sizes: [usize; 2],
        directions: usize,
        layers: &'a [StackLayer<'a>],
    ) -> Result<Self, CallError> {
        let sizes = StackSizes::check("gru_cpu::Layers::try_new", sizes, directions, layers)?;
        Ok(Self { sizes, layers })
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("precision", &self.precision)
            .field("i", &self.sizes.i)
            .field("h", &self.sizes.h)
            .field("directions", &self.sizes.directions)
            .field("layers", &self.sizes.count)
            .finish_non_exhaustive()
    }
}
