//! Every check of shapes, devices and dtypes, and every panic text, in one place. All of them run
//! before any work.

use burn::tensor::Tensor;

use crate::{
    GruOptions, GruWeights,
    spec::{GruSpec, Layout},
    steps::Steps,
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
    options: &GruOptions,
    weights: &GruWeights,
    spec: &GruSpec,
) -> Sizes {
    spec.check();
    let [first, second, features] = x.dims();
    let (n, t) = match spec.layout {
        Layout::BatchMajor => (first, second),
        Layout::TimeMajor => (second, first),
    };
    let layout = match spec.layout {
        Layout::BatchMajor => "[N, T, I]",
        Layout::TimeMajor => "[T, N, I]",
    };
    let sizes = Sizes {
        n,
        t,
        h: check_weights(op, x, layout, weights),
    };
    let Sizes { h, .. } = sizes;
    let because = || {
        format!(
            "x {layout} is {:?} and w_hh [H, 3H] is {:?}",
            x.dims(),
            weights.w_hh.dims()
        )
    };
    for (name, rows) in [("h0", &options.h0), ("mask", &options.mask)] {
        if let Some(rows) = rows {
            expect(op, &format!("{name} [N, H]"), rows.dims(), [n, h], because);
        }
    }
    if let Some(take) = &options.take {
        let [_, _, units] = take.dims();
        let per_unit = if units == 1 { 1 } else { h };
        let name = "take, of the layout of x with H features or 1,";
        expect(op, name, take.dims(), [first, second, per_unit], because);
    }
    check_steps(op, &options.steps, [first, second], &sizes, layout);
    check_size(op, &[n, t, features.max(4 * h)]);
    check_places(op, x, options, weights);
    sizes
}

/// Checks the shapes of the weights against each other and against `x`; H.
fn check_weights(op: &str, x: &Tensor<3>, layout: &str, weights: &GruWeights) -> usize {
    let [_, _, features] = x.dims();
    let [h, gates] = weights.w_hh.dims();
    assert!(
        h.checked_mul(3) == Some(gates),
        "{op}: w_hh must be [H, 3H], got [{h}, {gates}]"
    );
    let because = || format!("w_hh [H, 3H] is [{h}, {gates}]");
    match &weights.w_ih {
        Some(w_ih) => expect(op, "w_ih [I, 3H]", w_ih.dims(), [features, gates], || {
            format!("x {layout} is {:?} and {}", x.dims(), because())
        }),
        None => expect(
            op,
            "the last dimension of x, 3H without w_ih,",
            [features],
            [gates],
            || format!("x is {:?} and {}", x.dims(), because()),
        ),
    }
    if let Some(b_ih) = &weights.b_ih {
        expect(op, "b_ih [3H]", b_ih.dims(), [gates], because);
    }
    if let Some(b_hh) = &weights.b_hh
        && b_hh.dims() != [h]
    {
        expect(op, "b_hh [3H] or [H]", b_hh.dims(), [gates], because);
    }
    h
}

fn check_steps(op: &str, steps: &Steps, of_x: [usize; 2], sizes: &Sizes, layout: &str) {
    match steps {
        Steps::All => {}
        Steps::Lengths(lengths) => {
            expect(op, "lengths [N]", [lengths.len()], [sizes.n], || {
                format!("x {layout} has {} rows", sizes.n)
            });
            for (row, &len) in lengths.iter().enumerate() {
                assert!(
                    len <= sizes.t,
                    "{op}: lengths[{row}] must be at most T, expected 0 to {}, got {len}",
                    sizes.t
                );
            }
        }
        Steps::Mask(mask) => expect(op, "the mask of steps", mask.dims(), of_x, || {
            format!("x is {layout}")
        }),
    }
}

/// Everything on the device of `x`, and of its dtype.
fn check_places(op: &str, x: &Tensor<3>, options: &GruOptions, weights: &GruWeights) {
    let matrices = [
        ("w_ih", weights.w_ih.as_ref()),
        ("w_hh", Some(&weights.w_hh)),
        ("h0", options.h0.as_ref()),
        ("mask", options.mask.as_ref()),
    ];
    for (name, matrix) in matrices {
        matrix
            .into_iter()
            .for_each(|m| expect_place(op, name, m, x));
    }
    for (name, bias) in [("b_ih", &weights.b_ih), ("b_hh", &weights.b_hh)] {
        bias.iter().for_each(|b| expect_place(op, name, b, x));
    }
    options
        .take
        .iter()
        .for_each(|t| expect_place(op, "take", t, x));
    if let Steps::Mask(mask) = &options.steps {
        let (expected, actual) = (x.device(), mask.device());
        assert!(
            actual == expected,
            "{op}: the mask of steps must be on the device of x, expected {expected:?}, got \
             {actual:?}"
        );
    }
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

/// Panics unless `tensor` is on the device of `x` and of its dtype.
pub(crate) fn expect_place<const D: usize, const X: usize>(
    op: &str,
    name: &str,
    tensor: &Tensor<D>,
    x: &Tensor<X>,
) {
    let (expected, actual) = (x.device(), tensor.device());
    assert!(
        actual == expected,
        "{op}: {name} must be on the device of x, expected {expected:?}, got {actual:?}"
    );
    let (expected, actual) = (x.dtype(), tensor.dtype());
    assert!(
        actual == expected,
        "{op}: {name} must have the dtype of x, expected {expected:?}, got {actual:?}"
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
