//! Layers that are prepared for inference.

mod stream;

pub use self::stream::StackStream;

use crate::{
    PackedWeights,
    call::{
        CallError, Gru, Inputs, Sequence, Weights, check_len, check_sequence, check_sizes,
        check_weights, or_panic,
    },
    quantized,
    spec::{Direction, GruSpec, Layout, Order, Precision, Sizes},
};
use std::fmt;

/// One direction of one layer of a [`Stack`].
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

/// The layers of a GRU with their weights prepared for inference, in float32 or with 16 or 8 bits. States, biases
/// and gates are float32.
///
/// The weights are a copy, and never change. Threads may share a stack.
///
/// ```
/// use gru_cpu::{
///     Stack, StackInputs, StackLayer, StackStream, Weights,
///     spec::{Direction, GruSpec, Layout, Precision},
/// };
/// use std::sync::Arc;
///
/// let (i, h) = (3, 4);
/// let (w_ih, w_hh) = (vec![0.1f32; i * 3 * h], vec![0.2; h * 3 * h]);
/// let layer = StackLayer {
///     spec: GruSpec::default(),
///     direction: Direction::Forward,
///     zoneout: 0.0,
///     weights: Weights::new(Some(&w_ih), &w_hh),
/// };
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
    i: usize,
    h: usize,
    /// 1 or 2.
    directions: usize,
    /// Layer `l`, direction `d` is at `l·D + d`.
    layers: Vec<Layer>,
}

/// A layer of a [`Stack`].
struct Layer {
    kernel: Kernel,
    spec: GruSpec,
    direction: Direction,
    zoneout: f32,
    /// Features of its input.
    features: usize,
}

enum Kernel {
    Full(PackedWeights<f32>),
    Quantized(quantized::Layer),
}

/// The inputs of [`Stack::forward`].
#[derive(Debug, Clone, Copy)]
pub struct StackInputs<'a> {
    /// `[N,T,I]` or `[T,N,I]`.
    pub x: &'a [f32],
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
            state: None,
            step_mask: None,
            starts: None,
            start_state: None,
        }
    }
}

/// How much the weights of a matrix were rounded.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounding {
    /// The layer and direction, at `l·D + d`.
    pub layer: usize,
    /// `w_ih` or `w_hh`.
    pub matrix: &'static str,
    /// `10·log₁₀ Σw² / Σ(w − ŵ)²`: the size of the weights compared with their rounding errors, in dB. Infinite
    /// if no weight was rounded.
    pub db: f64,
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
    /// If a weight or bias has the wrong number of elements, the sizes exceed the address space, or
    /// [`GruSpec::try_check`] returns an error.
    ///
    /// # Panics
    /// If there is not one direction or two, the number of layers is not a positive multiple of the number of
    /// directions, an input weight is missing, or zoneout is not between 0 and 1.
    pub fn try_new(
        precision: Precision,
        [i, h]: [usize; 2],
        directions: usize,
        layers: &[StackLayer<'_>],
    ) -> Result<Self, CallError> {
        const OP: &str = "gru_cpu::Stack::try_new";
        assert!(
            matches!(directions, 1 | 2),
            "{OP}: directions, expected 1 or 2, got {directions}"
        );
        let count = layers.len();
        assert!(
            count > 0 && count.is_multiple_of(directions),
            "{OP}: layers times directions, expected a positive multiple of {directions}, got {count}"
        );
        let prepare = |(k, layer): (usize, &StackLayer<'_>)| {
            let (spec, weights) = (layer.spec, layer.weights);
            let features = if k < directions { i } else { directions * h };
            assert!(
                weights.w_ih.is_some(),
                "{OP}: w_ih of layer {k}, expected a weight, got none"
            );
            assert!(
                (0.0..=1.0).contains(&layer.zoneout),
                "{OP}: zoneout of layer {k}, expected 0 to 1, got {}",
                layer.zoneout
            );
            let kernel = match precision {
                Precision::Full => {
                    Kernel::Full(PackedWeights::try_new(&spec, features, h, weights)?)
                }
                _ => {
                    let checked = spec.try_check();
                    checked.map_err(|reason| CallError::Spec { reason })?;
                    let sizes = Sizes {
                        n: 1,
                        t: 1,
                        i: features,
                        h,
                    };
                    check_sizes(&sizes)?;
                    check_weights(&weights, &sizes)?;
                    let layer = quantized::Layer::new(
                        precision,
                        &spec,
                        [features, h],
                        &weights,
                        layer.zoneout,
                    );
                    Kernel::Quantized(layer)
                }
            };
            Ok(Layer {
                kernel,
                spec,
                direction: layer.direction,
                zoneout: layer.zoneout,
                features,
            })
        };
        Ok(Self {
            precision,
            i,
            h,
            directions,
            layers: layers
                .iter()
                .enumerate()
                .map(prepare)
                .collect::<Result<_, _>>()?,
        })
    }

    /// I, features of the input.
    pub fn features(&self) -> usize {
        self.i
    }

    /// H, hidden units of each layer and direction.
    pub fn units(&self) -> usize {
        self.h
    }

    /// L·D, layers times directions.
    pub fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// D, directions: 1 or 2.
    pub fn directions(&self) -> usize {
        self.directions
    }

    /// The direction of time of a layer and direction.
    pub fn direction(&self, layer: usize) -> Direction {
        self.layers[layer].direction
    }

    /// The precision of the weights.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Bytes of the prepared weights and biases, with their padding.
    pub fn bytes(&self) -> usize {
        let bytes = |layer: &Layer| match &layer.kernel {
            Kernel::Full(weights) => weights.bytes(),
            Kernel::Quantized(layer) => layer.bytes(),
        };
        self.layers.iter().map(bytes).sum()
    }

    /// How much each matrix was rounded. Empty for [`Precision::Full`].
    pub fn rounding(&self) -> Vec<Rounding> {
        let mut all = Vec::new();
        for (layer, of) in self.layers.iter().enumerate() {
            let Kernel::Quantized(kernel) = &of.kernel else {
                continue;
            };
            for (matrix, energy) in ["w_ih", "w_hh"].into_iter().zip(kernel.energies()) {
                let Some(energy) = energy else { continue };
                let db = 10.0 * (energy.weights / energy.errors).log10();
                all.push(Rounding {
                    layer,
                    matrix,
                    db: if energy.errors == 0.0 {
                        f64::INFINITY
                    } else {
                        db
                    },
                });
            }
        }
        all
    }

    /// Writes the output of the last layer after every step to `y`, `[N,T,D·H]` or `[T,N,D·H]` (forward, then
    /// reverse), and the final state of every layer and direction to `last`, `[L·D,N,H]`.
    ///
    /// At a skipped step the output is the state, which is kept. Values of `x` at skipped steps are ignored. A
    /// call allocates memory for its layers, and uses the threads of the rayon pool in which it is made.
    ///
    /// # Panics
    /// If the sizes exceed the address space, a slice has the wrong number of elements, or there is a start state
    /// without starts.
    pub fn forward(
        &self,
        layout: Layout,
        [n, t]: [usize; 2],
        inputs: StackInputs<'_>,
        y: &mut [f32],
        last: &mut [f32],
    ) {
        const OP: &str = "gru_cpu::Stack::forward";
        let (h, d) = (self.h, self.directions);
        let sizes = Sizes {
            n,
            t,
            i: self.i,
            h: d * h,
        };
        or_panic(OP, check_sizes(&sizes));
        let (rows, width) = (sizes.rows(), d * h);
        let all = self.layers.len() * n * h;
        check_len(OP, "x", inputs.x, rows * self.i);
        check_len(OP, "y", y, rows * width);
        check_len(OP, "last", last, all);
        for (name, states) in [("state", inputs.state), ("start_state", inputs.start_state)] {
            if let Some(states) = states {
                check_len(OP, name, states, all);
            }
        }
        assert!(
            inputs.starts.is_some() || inputs.start_state.is_none(),
            "{OP}: start_state requires starts, expected flags, got none"
        );
        let of_layer = |states: Option<_>, k: usize| {
            let states: Option<&[f32]> = states;
            states.map(|states| &states[k * n * h..][..n * h])
        };
        let mut x = Vec::new();
        for (k, layer) in self.layers.iter().enumerate() {
            let (of, direction) = (k / d, k % d);
            if of > 0 && direction == 0 {
                x.clear();
                x.extend_from_slice(y);
            }
            let sequence = Sequence {
                h0: of_layer(inputs.state, k),
                step_mask: inputs.step_mask,
                starts: inputs.starts,
                start_state: of_layer(inputs.start_state, k),
                ..Sequence::new(if of == 0 { inputs.x } else { &x })
            };
            let order = Order {
                layout,
                direction: layer.direction,
            };
            let place = |n, t| match layout {
                Layout::BatchMajor => n * sizes.t + t,
                Layout::TimeMajor => t * sizes.n + n,
            };
            let last = &mut last[k * n * h..][..n * h];
            let mut finish = |states: &[f32]| match t {
                0 => match sequence.h0 {
                    Some(h0) => last.copy_from_slice(h0),
                    None => last.fill(0.0),
                },
                _ => {
                    let end = layer.direction.time(t - 1, t);
                    for (row, last) in last.chunks_exact_mut(h.max(1)).enumerate() {
                        last.copy_from_slice(&states[place(row, end) * h..][..h]);
                    }
                }
            };
            if d == 1 {
                layer.forward(OP, order, [n, t], h, sequence, y);
                finish(y);
                continue;
            }
            let mut states = vec![0.0; rows * h];
            layer.forward(OP, order, [n, t], h, sequence, &mut states);
            finish(&states);
            let y = y.chunks_exact_mut(width.max(1));
            for (y, state) in y.zip(states.chunks_exact(h.max(1))) {
                y[direction * h..][..h].copy_from_slice(state);
            }
        }
    }
}

impl Layer {
    /// The states after every step.
    fn forward(
        &self,
        op: &str,
        order: Order,
        [n, t]: [usize; 2],
        h: usize,
        sequence: Sequence<'_, f32>,
        states: &mut [f32],
    ) {
        match &self.kernel {
            Kernel::Full(weights) => {
                let zoneout = (self.zoneout > 0.0).then(|| vec![self.zoneout; n * t * h]);
                let sequence = Sequence {
                    zoneout: zoneout.as_deref(),
                    ..sequence
                };
                weights.forward_in(order, n, t, sequence, states)
            }
            Kernel::Quantized(layer) => {
                let sizes = Sizes {
                    n,
                    t,
                    i: self.features,
                    h,
                };
                or_panic(op, check_sizes(&sizes));
                or_panic(op, check_sequence(&sequence, &sizes, self.features));
                let gru = Gru {
                    sizes,
                    order,
                    spec: self.spec,
                };
                // The weights of the call only state that there is an input product.
                let inputs = Inputs {
                    sequence,
                    weights: Weights::new(Some(&[]), &[]),
                };
                layer.forward(&gru, &inputs, states);
            }
        }
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("precision", &self.precision)
            .field("i", &self.i)
            .field("h", &self.h)
            .field("directions", &self.directions)
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}
