//! TensorFlow's `GRUBlockCell` and `GRUBlockCellGrad`, under their own signatures.
//!
//! ```text
//! [r_bar u_bar] = [x h_prev]·w_ru + b_ru          r = σ(r_bar)    u = σ(u_bar)
//! c_bar = [x  h_prev ⊙ r]·w_c + b_c               c = tanh(c_bar)
//! h = (1−u) ⊙ c + u ⊙ h_prev
//!
//! d_c_bar = d_h ⊙ (1−u) ⊙ (1−c²)
//! d_u_bar = d_h ⊙ (h_prev−c) ⊙ u ⊙ (1−u)
//! [d_x_2  d_h_prevr] = d_c_bar·w_cᵀ
//! d_r_bar = d_h_prevr ⊙ h_prev ⊙ r ⊙ (1−r)
//! [d_x_1  d_h_prev_1] = [d_r_bar d_u_bar]·w_ruᵀ
//! d_x = d_x_1 + d_x_2
//! d_h_prev = d_h_prev_1 + d_h_prevr ⊙ r + d_h ⊙ u
//! d_w_ru = [x h_prev]ᵀ·[d_r_bar d_u_bar]          d_b_ru = column sums of [d_r_bar d_u_bar]
//! d_w_c  = [x h_prev⊙r]ᵀ·d_c_bar                  d_b_c  = column sums of d_c_bar
//! ```
//!
//! # Errors in the published page
//!
//! The page of `tf.raw_ops.GRUBlockCellGrad` (TensorFlow 2.21) differs in these lines. The operator computes the
//! equations above.
//!
//! | the page | correct |
//! |---|---|
//! | `d_w_ru = x_h_prevr^T * d_c_bar`, `d_w_c = x_h_prev^T * d_r_bar_u_bar` | swapped; as printed, the shapes are wrong |
//! | `d_h_prev = d_h_prev_component_1 + d_h_prevr \circ r + u` | the last term is `d_h ⊙ u` |
//! | `d_x_component_1 = d_r_bar * w_r_x^T + d_u_bar * w_r_x^T` | the second factor is `w_u_xᵀ` |
//! | `d_h_prev_componenet_1 = … + d_u_bar * w_r_h_prev^T` | the second factor is `w_u_h_prevᵀ` |
//! | `d_u_bar = d_h \circ (h-c) \circ u \circ (1-u)` | `h` is `h_prev`; the operator does not receive the new state |
//! | `d_r_bar` | used, never defined |
//! | `w_c = [w_c_x w_c_h_prevr]` | the parts are stacked as rows, not side by side |
//! | `b_ru = [b_ru_x b_ru_h]`, `b_c = [b_c_x b_c_h]` | `b_ru = [b_r b_u]`; biases have no parts for x and h |
//!
//! Sources: <https://www.tensorflow.org/api_docs/python/tf/raw_ops/GRUBlockCell> and
//! <https://www.tensorflow.org/api_docs/python/tf/raw_ops/GRUBlockCellGrad>

use crate::{
    backend::{GruBackend, GruCall, GruGradients, GruSaved, composed},
    op::check::Check,
    op::options::GruWeights,
    op::sequence::optional,
    op::shape::{self, one_step},
};
use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::{Device, Tensor},
};
use gru_spec::{GruSpec, Inputs, Layout, PerInput, Reset, Sequence, Weights};

/// The gradients that the caller of `GRUBlockCellGrad` computes itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WeightGradients {
    /// `[I+H,2H]`.
    pub d_w_ru: Tensor<2>,
    /// `[I+H,H]`.
    pub d_w_c: Tensor<2>,
    /// `[2H]`.
    pub d_b_ru: Tensor<1>,
    /// `[H]`.
    pub d_b_c: Tensor<1>,
}

/// `GRUBlockCell`: one step, `(r, u, c, h)`, each `[N,H]`.
///
/// # Shapes
/// - `x`: `[N,I]`; `h_prev`: `[N,H]`.
/// - `w_ru`: `[I+H,2H]`, rows for `x` before rows for `h_prev`, columns for r before columns for u.
/// - `w_c`: `[I+H,H]`; `b_ru`: `[2H]`; `b_c`: `[H]`.
///
/// All four results are differentiable. If an argument is on an autodiff device, the cell runs in Burn's operations,
/// otherwise it is one call of the kernels. To train with kernels, use [`gru_cell`](crate::gru_cell) with [`weights()`], or
/// [`gru_block_cell_grad`].
///
/// # Panics
/// If shapes, devices or dtypes do not match.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use gru_op::tensorflow::{gru_block_cell, gru_block_cell_grad, gru_block_cell_weight_grad};
///
/// let (n, i, h, device) = (2, 3, 4, Device::flex());
/// let draw = |shape| Tensor::<2>::random(shape, Distribution::Default, &device);
/// let (x, h_prev) = (draw([n, i]), draw([n, h]));
/// let (w_ru, w_c) = (draw([i + h, 2 * h]), draw([i + h, h]));
/// let (b_ru, b_c) = (Tensor::zeros([2 * h], &device), Tensor::zeros([h], &device));
///
/// let (r, u, c, h_new) = gru_block_cell(
///     x.clone(), h_prev.clone(), w_ru.clone(), w_c.clone(), b_ru.clone(), b_c.clone(),
/// );
/// let d_h = h_new.ones_like();
/// let (d_x, d_h_prev, d_c_bar, d_r_bar_u_bar) = gru_block_cell_grad(
///     x.clone(), h_prev.clone(), w_ru.clone(), w_c, b_ru, b_c, r.clone(), u, c, d_h,
/// );
/// let d = gru_block_cell_weight_grad(x, h_prev, r, d_c_bar, d_r_bar_u_bar);
/// assert_eq!((d_x.dims(), d_h_prev.dims(), d.d_w_ru.dims()), ([n, i], [n, h], w_ru.dims()));
/// ```
pub fn gru_block_cell(
    x: Tensor<2>,
    h_prev: Tensor<2>,
    w_ru: Tensor<2>,
    w_c: Tensor<2>,
    b_ru: Tensor<1>,
    b_c: Tensor<1>,
) -> (Tensor<2>, Tensor<2>, Tensor<2>, Tensor<2>) {
    let h = check("gru_block_cell", &x, &h_prev, &w_ru, &w_c, &b_ru, &b_c);
    // The gates of the kernels are constants under autodiff.
    let matrices = [&x, &h_prev, &w_ru, &w_c].map(Tensor::device);
    let biases = [&b_ru, &b_c].map(Tensor::device);
    let run = if matrices.iter().chain(&biases).any(Device::is_autodiff) {
        composed::forward::<Dispatch>
    } else {
        Dispatch::gru_forward
    };
    let weights = join(w_ru, w_c, b_ru, b_c);
    let call = call(Inputs {
        sequence: Sequence {
            h0: optional(Some(h_prev)),
            ..Sequence::new(one_step(x).into_dispatch())
        },
        weights: weights.into_dispatch(),
    });
    let saved = run(call, true);
    let gates = rows(saved.gates.expect("the operation returns gates"));
    let gate = |k: usize| gates.clone().narrow(1, k * h, h);
    (gate(0), gate(1), gate(2), rows(saved.states))
}

/// `GRUBlockCellGrad`: `(d_x [N,I], d_h_prev [N,H], d_c_bar [N,H], d_r_bar_u_bar [N,2H])`.
///
/// The operator has bias arguments, but ignores their values. The results are on the device without autodiff.
/// [`gru_block_cell`] has an example.
///
/// # Panics
/// If shapes, devices or dtypes do not match.
#[allow(clippy::too_many_arguments)] // TensorFlow's signature.
pub fn gru_block_cell_grad(
    x: Tensor<2>,
    h_prev: Tensor<2>,
    w_ru: Tensor<2>,
    w_c: Tensor<2>,
    b_ru: Tensor<1>,
    b_c: Tensor<1>,
    r: Tensor<2>,
    u: Tensor<2>,
    c: Tensor<2>,
    d_h: Tensor<2>,
) -> (Tensor<2>, Tensor<2>, Tensor<2>, Tensor<2>) {
    const OP: &str = "gru_block_cell_grad";
    let [x, h_prev, w_ru, w_c] = [x, h_prev, w_ru, w_c].map(Tensor::inner);
    let [r, u, c, d_h] = [r, u, c, d_h].map(Tensor::inner);
    let [b_ru, b_c] = [b_ru, b_c].map(Tensor::inner);
    let h = check(OP, &x, &h_prev, &w_ru, &w_c, &b_ru, &b_c);
    let [n, _] = x.dims();
    let because = || format!("x is {:?} and h_prev {:?}", x.dims(), h_prev.dims());
    let mut check = Check::new(OP, ("x", &x), &because);
    for (name, tensor) in [("r", &r), ("u", &u), ("c", &c), ("d_h", &d_h)] {
        check.argument(name, "[N, H]", Some(tensor), [n, h]);
    }
    // Without w_ih, the gradient of x is the gradient of the pre-activations.
    let GruWeights { w_ih, w_hh, .. } = join(w_ru, w_c, b_ru, b_c);
    let gates = one_step(shape::cat(vec![r, u, c], 1));
    let call = call(Inputs {
        sequence: Sequence {
            h0: optional(Some(h_prev.clone())),
            ..Sequence::new(gates.clone().into_dispatch())
        },
        weights: Weights::new(None, w_hh.into_dispatch()),
    });
    let saved = GruSaved {
        // Backward does not read the state after a single step.
        states: one_step(h_prev).into_dispatch(),
        gates: optional(Some(gates)),
    };
    let wanted = PerInput {
        x: true,
        h0: true,
        ..PerInput::default()
    };
    let d_states = one_step(d_h).into_dispatch();
    let GruGradients(d) = Dispatch::gru_gradients(call, saved, d_states, wanted);
    const REQUESTED: &str = "this gradient was requested";
    let d_bar = rows(d.x.expect(REQUESTED));
    let d_h_prev = Tensor::<2>::from_dispatch(d.h0.expect(REQUESTED));
    let w_ih = w_ih.expect("the block cell has an input weight");
    let d_x = product(d_bar.clone(), w_ih.transpose());
    let d_c_bar = d_bar.clone().narrow(1, 2 * h, h);
    (d_x, d_h_prev, d_c_bar, d_bar.narrow(1, 0, 2 * h))
}

/// The gradients of weights and biases, from the results of [`gru_block_cell_grad`]. [`gru_block_cell`] has an
/// example.
///
/// # Panics
/// If shapes, devices or dtypes do not match.
pub fn gru_block_cell_weight_grad(
    x: Tensor<2>,
    h_prev: Tensor<2>,
    r: Tensor<2>,
    d_c_bar: Tensor<2>,
    d_r_bar_u_bar: Tensor<2>,
) -> WeightGradients {
    const OP: &str = "gru_block_cell_weight_grad";
    let ([n, _], [_, h]) = (x.dims(), h_prev.dims());
    let because = || format!("x is {:?} and h_prev {:?}", x.dims(), h_prev.dims());
    let mut check = Check::new(OP, ("x", &x), &because);
    check.argument("h_prev", "[N, H]", Some(&h_prev), [n, h]);
    check.argument("r", "[N, H]", Some(&r), [n, h]);
    check.argument("d_c_bar", "[N, H]", Some(&d_c_bar), [n, h]);
    check.argument("d_r_bar_u_bar", "[N, 2H]", Some(&d_r_bar_u_bar), [n, 2 * h]);
    let columns = |h: Tensor<2>| shape::cat(vec![x.clone(), h], 1).transpose();
    let sums = |d: &Tensor<2>| match d.dims() {
        // ndarray divides by the number of rows.
        [0, width] => Tensor::zeros([width], (&d.device(), d.dtype())),
        _ => d.clone().sum_dim(0).squeeze_dim::<1>(0),
    };
    WeightGradients {
        d_w_ru: product(columns(h_prev.clone()), d_r_bar_u_bar.clone()),
        d_w_c: product(columns(h_prev * r), d_c_bar.clone()),
        d_b_ru: sums(&d_r_bar_u_bar),
        d_b_c: sums(&d_c_bar),
    }
}

/// The weights for [`gru_cell`](crate::gru_cell) and
/// [`GruBlockConfig::init_with`](crate::GruBlockConfig::init_with), with [`Reset::BeforeMatmul`].
///
/// # Shapes
/// As for [`gru_block_cell`].
///
/// # Panics
/// If shapes, devices or dtypes do not match, or I is zero.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use gru_op::tensorflow::weights;
///
/// let (i, h, device) = (3, 4, Device::flex());
/// let (w_ru, w_c) = (Tensor::zeros([i + h, 2 * h], &device), Tensor::zeros([i + h, h], &device));
/// let (b_ru, b_c) = (Tensor::zeros([2 * h], &device), Tensor::zeros([h], &device));
/// let weights = weights(w_ru, w_c, b_ru, b_c);
/// assert_eq!(weights.w_hh.dims(), [h, 3 * h]);
/// ```
pub fn weights(w_ru: Tensor<2>, w_c: Tensor<2>, b_ru: Tensor<1>, b_c: Tensor<1>) -> GruWeights {
    const OP: &str = "tensorflow::weights";
    let [rows, h] = w_c.dims();
    assert!(
        rows > h,
        "{OP}: w_c [I+H, H] must have more rows than columns, got {:?}",
        w_c.dims()
    );
    let because = || format!("w_c is {:?}", w_c.dims());
    let mut check = Check::new(OP, ("w_c", &w_c), &because);
    check.argument("w_ru", "[I+H, 2H]", Some(&w_ru), [rows, 2 * h]);
    check.argument("b_ru", "[2H]", Some(&b_ru), [2 * h]);
    check.argument("b_c", "[H]", Some(&b_c), [h]);
    join(w_ru, w_c, b_ru, b_c)
}

/// [`weights()`] without checks.
fn join(w_ru: Tensor<2>, w_c: Tensor<2>, b_ru: Tensor<1>, b_c: Tensor<1>) -> GruWeights {
    let [rows, h] = w_c.dims();
    let w = Tensor::cat(vec![w_ru, w_c], 1);
    GruWeights {
        w_ih: Some(w.clone().narrow(0, 0, rows - h)),
        w_hh: w.narrow(0, rows - h, h),
        b_ih: Some(Tensor::cat(vec![b_ru, b_c], 0)),
        b_hh: None,
    }
}

/// A product of matrices, which may be empty. On ndarray an empty one divides by zero.
fn product(lhs: Tensor<2>, rhs: Tensor<2>) -> Tensor<2> {
    let ([rows, k], [_, columns]) = (lhs.dims(), rhs.dims());
    if rows * k * columns == 0 {
        return Tensor::zeros([rows, columns], (&lhs.device(), lhs.dtype()));
    }
    lhs.matmul(rhs)
}

/// The inverse of [`one_step`].
fn rows(step: DispatchTensor) -> Tensor<2> {
    shape::at(Tensor::<3>::from_dispatch(step), 0, 0)
}

/// A call of one step.
fn call(inputs: Inputs<DispatchTensor>) -> GruCall<Dispatch> {
    let spec = GruSpec::default().with_reset(Reset::BeforeMatmul);
    let mut call = GruCall::new(inputs, spec);
    call.order.layout = Layout::TimeMajor;
    call
}

/// Checks the common arguments of both operators and returns H.
fn check(
    op: &str,
    x: &Tensor<2>,
    h_prev: &Tensor<2>,
    w_ru: &Tensor<2>,
    w_c: &Tensor<2>,
    b_ru: &Tensor<1>,
    b_c: &Tensor<1>,
) -> usize {
    let ([n, i], [_, h]) = (x.dims(), h_prev.dims());
    let because = || format!("x is {:?} and h_prev {:?}", x.dims(), h_prev.dims());
    let mut check = Check::new(op, ("x", x), &because);
    check.argument("h_prev", "[N, H]", Some(h_prev), [n, h]);
    check.argument("w_ru", "[I+H, 2H]", Some(w_ru), [i + h, 2 * h]);
    check.argument("w_c", "[I+H, H]", Some(w_c), [i + h, h]);
    check.argument("b_ru", "[2H]", Some(b_ru), [2 * h]);
    check.argument("b_c", "[H]", Some(b_c), [h]);
    #[cfg(feature = "remote")]
    crate::backend::deferred::remote::expect_operator(op, &x.device());
    h
}
