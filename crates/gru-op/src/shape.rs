//! Every check of shapes, devices and dtypes, and every panic text, in one place. All of them run
//! before any work.

use burn::tensor::{DType, Device, Tensor};

use crate::{
    GruWeights,
    spec::{GruSpec, Layout},
};

/// The sizes of a checked call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) n: usize,
    pub(crate) t: usize,
    pub(crate) h: usize,
}

/// Checks a whole call of `op`.
pub(crate) fn check_sequence(
    op: &str,
    x: &Tensor<3>,
    h0: Option<&Tensor<2>>,
    weights: &GruWeights,
    spec: &GruSpec,
) -> Sizes {
    spec.check();
    let [first, second, features] = x.dims();
    let (n, t) = match spec.layout {
        Layout::BatchMajor => (first, second),
        Layout::TimeMajor => (second, first),
    };
    let [h, gates] = weights.w_hh.dims();
    assert!(
        h.checked_mul(3) == Some(gates),
        "{op}: w_hh must be [H, 3H], got [{h}, {gates}]"
    );
    let layout = match spec.layout {
        Layout::BatchMajor => "[N, T, I]",
        Layout::TimeMajor => "[T, N, I]",
    };
    expect(
        op,
        "w_ih [I, 3H]",
        weights.w_ih.dims(),
        [features, gates],
        || {
            format!(
                "x {layout} is {:?} and w_hh [H, 3H] is [{h}, {gates}]",
                x.dims()
            )
        },
    );
    for (name, bias) in [("b_ih [3H]", &weights.b_ih), ("b_hh [3H]", &weights.b_hh)] {
        if let Some(bias) = bias {
            expect(op, name, bias.dims(), [gates], || {
                format!("w_hh [H, 3H] is [{h}, {gates}]")
            });
        }
    }
    if let Some(h0) = h0 {
        expect(op, "h0 [N, H]", h0.dims(), [n, h], || {
            format!(
                "x {layout} is {:?} and w_hh [H, 3H] is [{h}, {gates}]",
                x.dims()
            )
        });
    }
    check_size(op, &[n, t, features.max(gates).max(4 * h)]);

    let (device, dtype) = (x.device(), x.dtype());
    let same = |name: &str, other: (Device, DType)| {
        assert!(
            other.0 == device,
            "{op}: {name} must be on the device of x, expected {device:?}, got {:?}",
            other.0
        );
        assert!(
            other.1 == dtype,
            "{op}: {name} must have the dtype of x, expected {dtype:?}, got {:?}",
            other.1
        );
    };
    let place = |tensor: &Tensor<1>| (tensor.device(), tensor.dtype());
    same("w_ih", (weights.w_ih.device(), weights.w_ih.dtype()));
    same("w_hh", (weights.w_hh.device(), weights.w_hh.dtype()));
    weights
        .b_ih
        .as_ref()
        .into_iter()
        .for_each(|b| same("b_ih", place(b)));
    weights
        .b_hh
        .as_ref()
        .into_iter()
        .for_each(|b| same("b_hh", place(b)));
    h0.into_iter()
        .for_each(|h0| same("h0", (h0.device(), h0.dtype())));
    Sizes { n, t, h }
}

/// Panics unless `actual` is `expected`; `because` says where the expectation comes from.
pub(crate) fn expect<const D: usize>(
    op: &str,
    name: &str,
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
