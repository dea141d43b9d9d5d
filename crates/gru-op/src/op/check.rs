//! Every check of shapes, devices and dtypes, and every panic text, in one place. All of them run
//! before any work.

#[cfg(feature = "autodiff")]
use burn::tensor::GradientCheckpointingStrategy;
use burn::tensor::{
    Tensor,
    kind::{Autodiff, Basic},
};
use std::fmt::{self, Display};

use crate::op::options::{GruWeights, Padding, SequenceOptions};
use gru_spec::{GruSpec, Layout};

/// What a panic calls the operation, and what its caller calls the arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) op: &'a str,
    /// The initial state.
    pub(crate) h0: &'a str,
    /// Which of a block's layers the weights belong to.
    pub(crate) layer: Option<usize>,
}

impl<'a> From<&'a str> for Names<'a> {
    fn from(op: &'a str) -> Self {
        Self {
            op,
            h0: "h0",
            layer: None,
        }
    }
}

impl<'a> Names<'a> {
    /// A weight of this call.
    fn weight(&self, name: &'a str) -> Name<'a> {
        let layer = self.layer;
        Name { layer, name }
    }
}

/// The name of an argument: `w_hh`, or `layers.1.w_hh`.
#[derive(Debug, Clone, Copy)]
struct Name<'a> {
    layer: Option<usize>,
    name: &'a str,
}

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(layer) = self.layer {
            write!(f, "layers.{layer}.")?;
        }
        f.write_str(self.name)
    }
}

/// The sizes of a checked call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) n: usize,
    pub(crate) t: usize,
    pub(crate) h: usize,
    /// Whether a tensor is under autodiff.
    pub(crate) autodiff: bool,
}

/// Checks a whole call.
pub(crate) fn check_sequence(
    names: Names,
    x: &Tensor<3>,
    options: &SequenceOptions<2>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> Checked {
    spec.check();
    let op = names.op;
    let [first, second, features] = x.dims();
    let [n, t] = options.order.layout.split([first, second]);
    let layout = match options.order.layout {
        Layout::BatchMajor => "[N, T, I]",
        Layout::TimeMajor => "[T, N, I]",
    };
    let h = check_weights(names, x, layout, weights);
    let because = || {
        format!(
            "x {layout} is {:?} and {} [H, 3H] is {:?}",
            x.dims(),
            names.weight("w_hh"),
            weights.w_hh.dims()
        )
    };
    for (name, rows) in [
        (names.h0, &options.state),
        ("recurrent_mask", &options.recurrent_mask),
    ] {
        if let Some(rows) = rows {
            let name = format_args!("{name} [N, H]");
            expect(op, name, rows.dims(), [n, h], because);
        }
    }
    if let Some(zoneout) = &options.zoneout {
        let [_, _, units] = zoneout.dims();
        let per_unit = if units == 1 { 1 } else { h };
        let name = "zoneout, of the layout of x with H features or 1,";
        expect(op, name, zoneout.dims(), [first, second, per_unit], because);
    }
    check_padding(op, &options.padding, [first, second], [n, t], layout);
    check_size(op, &[n, t, features.max(4 * h)]);
    let autodiff = check_places(names, x, options, weights);
    #[cfg(feature = "remote")]
    crate::backend::deferred::remote::expect_operator(op, &x.device());
    Checked { n, t, h, autodiff }
}

/// Checks the shapes of the weights against each other and against `x`; H.
fn check_weights(names: Names, x: &Tensor<3>, layout: &str, weights: &GruWeights) -> usize {
    let op = names.op;
    let [_, _, features] = x.dims();
    let [h, gates] = weights.w_hh.dims();
    let w_hh = names.weight("w_hh");
    assert!(
        h.checked_mul(3) == Some(gates),
        "{op}: {w_hh} must be [H, 3H], got [{h}, {gates}]"
    );
    let because = || format!("{w_hh} [H, 3H] is [{h}, {gates}]");
    match &weights.w_ih {
        Some(w_ih) => {
            let name = names.weight("w_ih [I, 3H]");
            expect(op, name, w_ih.dims(), [features, gates], || {
                format!("x {layout} is {:?} and {}", x.dims(), because())
            })
        }
        None => expect(
            op,
            "the last dimension of x, 3H without w_ih,",
            [features],
            [gates],
            || format!("x is {:?} and {}", x.dims(), because()),
        ),
    }
    if let Some(b_ih) = &weights.b_ih {
        let name = names.weight("b_ih [3H]");
        expect(op, name, b_ih.dims(), [gates], because);
    }
    if let Some(b_hh) = &weights.b_hh
        && b_hh.dims() != [h]
    {
        let name = names.weight("b_hh [3H] or [H]");
        expect(op, name, b_hh.dims(), [gates], because);
    }
    h
}

fn check_padding(op: &str, padding: &Padding, of_x: [usize; 2], [n, t]: [usize; 2], layout: &str) {
    match padding {
        Padding::None => {}
        Padding::Lengths(lengths) => {
            expect(op, "lengths [N]", [lengths.len()], [n], || {
                format!("x {layout} has {n} rows")
            });
            for (row, &len) in lengths.iter().enumerate() {
                assert!(
                    len <= t,
                    "{op}: lengths[{row}] must be at most T, expected 0 to {t}, got {len}"
                );
            }
        }
        Padding::Mask(mask) => expect(op, "mask", mask.dims(), of_x, || format!("x is {layout}")),
    }
}

/// Everything on the device of `x`, of its dtype, and with one way of checkpointing; whether anything is
/// under autodiff.
fn check_places(
    names: Names,
    x: &Tensor<3>,
    options: &SequenceOptions<2>,
    weights: &GruWeights,
) -> bool {
    let op = names.op;
    let argument = |name| Name { layer: None, name };
    let mut checkpointing = Checkpointing::of(argument("x"), x);
    let matrices = [
        (names.weight("w_ih"), weights.w_ih.as_ref()),
        (names.weight("w_hh"), Some(&weights.w_hh)),
        (argument(names.h0), options.state.as_ref()),
        (argument("recurrent_mask"), options.recurrent_mask.as_ref()),
    ];
    for (name, matrix) in matrices {
        if let Some(matrix) = matrix {
            expect_place(op, name, matrix, x);
            checkpointing.expect(op, name, matrix);
        }
    }
    for (name, bias) in [("b_ih", &weights.b_ih), ("b_hh", &weights.b_hh)] {
        if let Some(bias) = bias {
            expect_place(op, names.weight(name), bias, x);
            checkpointing.expect(op, names.weight(name), bias);
        }
    }
    if let Some(zoneout) = &options.zoneout {
        expect_place(op, "zoneout", zoneout, x);
        checkpointing.expect(op, argument("zoneout"), zoneout);
    }
    if let Padding::Mask(mask) = &options.padding {
        expect_device(op, "mask", mask, x);
        checkpointing.expect(op, argument("mask"), mask);
    }
    checkpointing.is_there()
}

/// What the tensors of a call under autodiff must agree in; Burn's own panic names no operation.
#[cfg(feature = "autodiff")]
struct Checkpointing<'a>(Option<(Name<'a>, GradientCheckpointingStrategy)>);

#[cfg(feature = "autodiff")]
impl<'a> Checkpointing<'a> {
    fn of<const D: usize, K: Autodiff>(name: Name<'a>, tensor: &Tensor<D, K>) -> Self {
        let strategy = tensor.gradient_checkpointing_strategy();
        Self(strategy.map(|strategy| (name, strategy)))
    }

    fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Panics unless `tensor` agrees; the first one under autodiff says with what.
    fn expect<const D: usize, K: Autodiff>(
        &mut self,
        op: &str,
        name: Name<'a>,
        tensor: &Tensor<D, K>,
    ) {
        let Self(Some((actual_name, actual))) = Self::of(name, tensor) else {
            return;
        };
        let (first, expected) = self.0.get_or_insert((actual_name, actual));
        assert!(
            actual == *expected,
            "{op}: {name} must have the gradient checkpointing of {first}, expected \
             {expected:?}, got {actual:?}"
        );
    }
}

#[cfg(not(feature = "autodiff"))]
struct Checkpointing;

#[cfg(not(feature = "autodiff"))]
impl Checkpointing {
    fn of<const D: usize, K: Autodiff>(_: Name, _: &Tensor<D, K>) -> Self {
        Self
    }

    fn is_there(&self) -> bool {
        false
    }

    fn expect<const D: usize, K: Autodiff>(&mut self, _: &str, _: Name, _: &Tensor<D, K>) {}
}

/// Panics unless `actual` is `expected`; `because` says where the expectation comes from.
pub(crate) fn expect<const D: usize>(
    op: &str,
    name: impl Display,
    actual: [usize; D],
    expected: [usize; D],
    because: impl FnOnce() -> String,
) {
    assert!(
        actual == expected,
        "{op}: {name} must be {expected:?}, got {actual:?}; {}",
        because()
    );
}

/// Panics unless `tensor` is on the device of `x` and of its dtype.
pub(crate) fn expect_place<const D: usize, const X: usize>(
    op: &str,
    name: impl Display,
    tensor: &Tensor<D>,
    x: &Tensor<X>,
) {
    expect_device(op, &name, tensor, x);
    let (expected, actual) = (x.dtype(), tensor.dtype());
    assert!(
        actual == expected,
        "{op}: {name} must have the dtype of x, expected {expected:?}, got {actual:?}"
    );
}

fn expect_device<const D: usize, const X: usize, K: Basic>(
    op: &str,
    name: impl Display,
    tensor: &Tensor<D, K>,
    x: &Tensor<X>,
) {
    let (expected, actual) = (x.device(), tensor.device());
    assert!(
        actual == expected,
        "{op}: {name} must be on the device of x, expected {expected:?}, got {actual:?}"
    );
}

/// Panics unless the state of a block is on the device of `x`, of its dtype, and with its way of
/// checkpointing.
pub(crate) fn expect_state<const X: usize>(op: &str, state: &Tensor<3>, x: &Tensor<X>) {
    expect_place(op, "state", state, x);
    let name = |name| Name { layer: None, name };
    Checkpointing::of(name("x"), x).expect(op, name("state"), state);
}

/// Panics if a buffer of these sizes, at eight bytes an element, cannot be addressed.
fn check_size(op: &str, sizes: &[usize]) {
    let bytes = sizes
        .iter()
        .try_fold(8usize, |all, &size| all.checked_mul(size));
    assert!(
        bytes.is_some_and(|bytes| bytes <= isize::MAX as usize),
        "{op}: a buffer of {sizes:?} elements is larger than memory can be addressed"
    );
}
