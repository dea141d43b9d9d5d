//! Checks of shapes, devices and dtypes, which run before any work, and the texts of their panics.

use crate::backend::is_addressable;
use crate::op::options::{GruWeights, Padding, SequenceOptions, Starts};
#[cfg(feature = "autodiff")]
use burn::tensor::GradientCheckpointingStrategy as Strategy;
use burn::tensor::{DType, Device, Tensor, kind::Autodiff};
use gru_spec::{GruSpec, Layout, LengthsError, Sizes};
use std::fmt::{self, Display};

/// Without autodiff no tensor has a strategy.
#[cfg(not(feature = "autodiff"))]
type Strategy = std::convert::Infallible;

/// The names of the operation and its arguments in panics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpNames<'a> {
    pub(crate) op: &'a str,
    /// The initial state.
    pub(crate) h0: &'a str,
    /// The layer of a block that the weights belong to.
    pub(crate) layer: Option<usize>,
}

impl<'a> OpNames<'a> {
    pub(crate) fn new(op: &'a str) -> Self {
        Self {
            op,
            h0: "h0",
            layer: None,
        }
    }
}

/// The name of an argument: `w_hh`, or `layers.1.w_hh`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name<'a> {
    layer: Option<usize>,
    name: &'a str,
}

impl<'a> From<&'a str> for Name<'a> {
    fn from(name: &'a str) -> Self {
        Self { layer: None, name }
    }
}

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(layer) = self.layer {
            write!(f, "layers.{layer}.")?;
        }
        f.write_str(self.name)
    }
}

/// The gradient checkpointing strategy of a tensor. `None` without autodiff.
fn strategy<const D: usize, K: Autodiff>(_tensor: &Tensor<D, K>) -> Option<Strategy> {
    #[cfg(feature = "autodiff")]
    return _tensor.gradient_checkpointing_strategy();
    #[cfg(not(feature = "autodiff"))]
    None
}

/// Compares the arguments of an operation with the first one.
pub(crate) struct Check<'a> {
    op: &'a str,
    /// The name of the first argument.
    first: &'a str,
    device: Device,
    dtype: DType,
    /// Explains the expected shapes.
    because: &'a dyn Fn() -> String,
    /// The first argument under autodiff. The others must have the same strategy. Burn checks this too, but
    /// does not name the operation.
    tracked: Option<(Name<'a>, Strategy)>,
}

impl<'a> Check<'a> {
    pub(crate) fn new<const D: usize>(
        op: &'a str,
        (first, x): (&'a str, &Tensor<D>),
        because: &'a dyn Fn() -> String,
    ) -> Self {
        Self {
            op,
            first,
            device: x.device(),
            dtype: x.dtype(),
            because,
            tracked: strategy(x).map(|strategy| (first.into(), strategy)),
        }
    }

    /// Panics unless the argument has this shape, and the device, dtype and gradient checkpointing of the first.
    pub(crate) fn argument<const D: usize, K: Autodiff>(
        &mut self,
        name: impl Into<Name<'a>>,
        dims: &str,
        tensor: Option<&Tensor<D, K>>,
        expected: [usize; D],
    ) {
        let Some(tensor) = tensor else { return };
        let name = name.into();
        let (op, first) = (self.op, self.first);
        let actual = tensor.dims();
        assert!(
            actual == expected,
            "{op}: {name} {dims} must be {expected:?}, got {actual:?}; {}",
            (self.because)()
        );
        let (expected, actual) = (&self.device, tensor.device());
        assert!(
            actual == *expected,
            "{op}: {name} must be on the device of {first}, expected {expected:?}, got {actual:?}"
        );
        let (expected, actual) = (self.dtype, tensor.dtype());
        assert!(
            actual == expected || matches!(actual, DType::Bool(_)),
            "{op}: {name} must have the dtype of {first}, expected {expected:?}, got {actual:?}"
        );
        if let Some(actual) = strategy(tensor) {
            let (first, expected) = self.tracked.get_or_insert((name, actual));
            assert!(
                actual == *expected,
                "{op}: {name} must have the gradient checkpointing of {first}, expected \
                 {expected:?}, got {actual:?}"
            );
        }
    }

    /// Panics unless the last dimension of a sequence has the expected size.
    pub(crate) fn features(&self, name: &str, actual: usize, expected: usize) {
        assert!(
            actual == expected,
            "{}: the last dimension of {name} must be [{expected}], got [{actual}]; {}",
            self.op,
            (self.because)()
        );
    }

    /// Checks starts and their state `[…,N,H]` of a sequence in this layout.
    pub(crate) fn starts<const D: usize>(
        &mut self,
        starts: &Starts<D>,
        layout: Layout,
        [n, t]: [usize; 2],
        (dims, mut state): (&str, [usize; D]),
    ) {
        let Starts {
            flags,
            state: given,
        } = starts;
        let [of_flags, ..] = labels(layout);
        self.argument("starts", of_flags, flags.as_ref(), layout.split([n, t]));
        if let Some(given) = given {
            assert!(
                flags.is_some(),
                "{}: start_state requires starts, expected a tensor, got none",
                self.op
            );
            if given.dims()[D - 2] == 1 {
                state[D - 2] = 1;
            }
        }
        self.argument("start_state", dims, given.as_ref(), state);
    }

    /// Checks lengths or a mask of a sequence in this layout.
    pub(crate) fn padding(&mut self, padding: &Padding, layout: Layout, [n, t]: [usize; 2]) {
        match padding {
            Padding::None => {}
            Padding::Lengths(lengths) => {
                let sizes = Sizes { n, t, i: 0, h: 0 };
                let op = self.op;
                match lengths.try_check(&sizes) {
                    Err(error @ LengthsError::Count { .. }) => {
                        panic!("{op}: {error}; {}", (self.because)())
                    }
                    Err(error) => panic!("{op}: {error}"),
                    Ok(()) => {}
                }
            }
            Padding::Mask(mask) => {
                let [dims, ..] = labels(layout);
                self.argument("mask", dims, Some(mask), layout.split([n, t]));
            }
        }
    }
}

/// The names of the dimensions of a mask, a sequence and zoneout.
fn labels(layout: Layout) -> [&'static str; 2] {
    match layout {
        Layout::BatchMajor => ["[N, T]", "[N, T, H] or [N, T, 1]"],
        Layout::TimeMajor => ["[T, N]", "[T, N, H] or [T, N, 1]"],
    }
}

/// Checks a call. Returns its sizes.
pub(crate) fn check_sequence(
    names: OpNames,
    x: &Tensor<3>,
    options: &SequenceOptions<2>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> Sizes {
    spec.check();
    let op = names.op;
    let [first, second, features] = x.dims();
    let layout = options.order.layout;
    let [n, t] = options.padding.batch(layout, [first, second]);
    let [_, of_zoneout] = labels(layout);
    let layer = names.layer;
    let weight = |name| Name { layer, name };
    let w_hh = weight("w_hh");
    let [h, gates] = weights.w_hh.dims();
    assert!(
        h.checked_mul(3) == Some(gates),
        "{op}: {w_hh} must be [H, 3H], got [{h}, {gates}]"
    );
    let because = || {
        format!("N is {n}, T is {t}, x has {features} features, {w_hh} [H, 3H] is [{h}, {gates}]")
    };
    let mut check = Check::new(op, ("x", x), &because);
    if weights.w_ih.is_none() {
        check.features("x, 3H without w_ih,", features, gates);
    }
    let w_ih = weights.w_ih.as_ref();
    check.argument(weight("w_ih"), "[I, 3H]", w_ih, [features, gates]);
    check.argument(w_hh, "[H, 3H]", Some(&weights.w_hh), [h, gates]);
    check.argument(weight("b_ih"), "[3H]", weights.b_ih.as_ref(), [gates]);
    check.argument(weight("b_hh"), "[3H]", weights.b_hh.as_ref(), [gates]);
    check.argument(names.h0, "[N, H]", options.state.as_ref(), [n, h]);
    let mask = options.recurrent_mask.as_ref();
    check.argument("recurrent_mask", "[N, H]", mask, [n, h]);
    let zoneout = options.zoneout.as_ref();
    let per_row = zoneout.is_some_and(|zoneout| zoneout.dims()[2] == 1);
    let units = if per_row { 1 } else { h };
    check.argument("zoneout", of_zoneout, zoneout, [first, second, units]);
    check.padding(&options.padding, layout, [n, t]);
    let state = ("[N, H] or [1, H]", [n, h]);
    check.starts(&options.starts, layout, [n, t], state);
    let lengths = options.padding.lengths(t);
    let places = lengths.in_memory(Sizes { n, t, i: 0, h: 0 });
    let largest = [places.n, places.t, features.max(4 * h)];
    assert!(
        is_addressable(&largest),
        "{op}: a buffer of {largest:?} elements does not fit in memory"
    );
    #[cfg(feature = "remote")]
    crate::backend::deferred::remote::expect_operator(op, &x.device());
    let i = features;
    Sizes { n, t, i, h }
}
