//! Back-propagation through time, by hand: one reverse walk, then a few large products.
//!
//! With the upstream gradient `dh = d_states[t] + (gradient from the step after)`:
//!
//! ```text
//! keeps: dz̄ = dh ⊙ (h₋₁ − n) ⊙ φz'    dn̄ = dh ⊙ (1−z) ⊙ φn'    carry = dh ⊙ z
//! takes: dz̄ = dh ⊙ (n − h₋₁) ⊙ φz'    dn̄ = dh ⊙ z ⊙ φn'        carry = dh ⊙ (1−z)
//! after : dr̄ = dn̄ ⊙ q_n ⊙ φr'         dq = [dr̄, dz̄, dn̄ ⊙ r]    dg = dq·w_hhᵀ
//! before: ds = dn̄·w_hnᵀ   dr̄ = ds ⊙ g ⊙ φr'
//!         dq = [dr̄, dz̄, dn̄]           dg = [dr̄, dz̄]·w_h(rz)ᵀ + ds ⊙ r
//! dh₋₁ = carry + m ⊙ dg               dp = [dr̄, dz̄, dn̄]
//! ```
//!
//! and over all T·N rows at once `dx = dp·w_ihᵀ`, `dw_ih = xᵀ·dp`, `db_ih = Σ dp`,
//! `dw_hh = gᵀ·dq` (before, n block: `(r ⊙ g)ᵀ·dn̄`), `db_hh = Σ dq`.

use crate::{
    dims::{Dims, Inputs, Walk, check_len},
    plain::{self, recurrent_inputs},
    product::{Element, Mat, MatMut, Write, product},
    spec::{GruSpec, Reset},
};

/// Where the gradients go: only those asked for are computed. Shapes are those of the inputs.
#[derive(Debug)]
pub struct Gradients<'a, E> {
    /// Of the sequence.
    pub x: Option<&'a mut [E]>,
    /// Of the initial state.
    pub h0: Option<&'a mut [E]>,
    /// Of the input weight.
    pub w_ih: Option<&'a mut [E]>,
    /// Of the recurrent weight.
    pub w_hh: Option<&'a mut [E]>,
    /// Of the input product's bias.
    pub b_ih: Option<&'a mut [E]>,
    /// Of the recurrent product's bias.
    pub b_hh: Option<&'a mut [E]>,
}

/// Writes the gradients of `Σ states ⊙ d_states`.
///
/// `states` and `saved` are what [`forward`](crate::forward()) made (or
/// [`recompute`](crate::recompute)); `saved` is used up: it ends as the gradients of the
/// pre-activations, so that backward needs no second buffer of that size.
///
/// # Panics
/// If a slice has not the length that `dims` and `spec` ask for, or a gradient is asked for an
/// input that is absent.
pub fn backward<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: &mut [E],
    d_states: &[E],
    mut to: Gradients<'_, E>,
) {
    const OP: &str = "gru_cpu::backward";
    spec.check();
    inputs.check(OP, dims);
    check_gradients(OP, dims, inputs, &to);
    check_len(OP, "states", Some(states), dims.rows() * dims.h);
    check_len(OP, "d_states", Some(d_states), dims.rows() * dims.h);
    let width = spec.saved_per_unit() * dims.h;
    check_len(OP, "saved", Some(saved), dims.rows() * width);
    if states.is_empty() {
        let all = [to.x, to.h0, to.w_ih, to.w_hh, to.b_ih, to.b_hh];
        all.into_iter().flatten().for_each(|d| d.fill(E::zero()));
        return;
    }

    let wants_w_hh = to.w_hh.is_some();
    let wants_rg = wants_w_hh && spec.reset == Reset::BeforeMatmul;
    let walk_back = match plain::is_forced() {
        true => plain::walk_back,
        false => E::walk_back,
    };
    let walked = walk_back(dims, spec, inputs, states, saved, d_states, wants_rg);

    if let Some(d_h0) = to.h0.take() {
        d_h0.copy_from_slice(&walked.dh);
    }
    bias_gradients(dims, &walked.bias, &mut to);
    input_gradients(dims, inputs, saved, width, &mut to);
    recurrent_gradients(dims, spec, inputs, states, saved, &walked.rg, &mut to);
}

/// db_ih and db_hh from the column sums of `dr̄ | dz̄ | dn̄`, and `dn̄ ⊙ r` behind them where the
/// reset gate acts after the product.
fn bias_gradients<E: Element>(dims: &Dims, sums: &[E], to: &mut Gradients<'_, E>) {
    let h = dims.h;
    if let Some(db_ih) = to.b_ih.take() {
        db_ih.copy_from_slice(&sums[..3 * h]);
    }
    if let Some(db_hh) = to.b_hh.take() {
        db_hh[..2 * h].copy_from_slice(&sums[..2 * h]);
        db_hh[2 * h..].copy_from_slice(&sums[sums.len() - h..]);
    }
}

/// dx and dw_ih from `dp`, columns `0..3H` of `saved`.
fn input_gradients<E: Element>(
    dims: &Dims,
    inputs: &Inputs<'_, E>,
    saved: &[E],
    width: usize,
    to: &mut Gradients<'_, E>,
) {
    let (rows, i, h) = (dims.rows(), dims.i, dims.h);
    let dp = Mat::new(saved, rows, 3 * h, width);
    if let Some(dx) = to.x.take() {
        match inputs.w_ih {
            Some(w_ih) => product(
                MatMut::new(dx, rows, i, i),
                Write::Set,
                dp,
                Mat::new(w_ih, i, 3 * h, 3 * h).transposed(),
            ),
            None => {
                let per_row = dx.chunks_exact_mut(3 * h).zip(saved.chunks_exact(width));
                per_row.for_each(|(dx, dp)| dx.copy_from_slice(&dp[..3 * h]));
            }
        }
    }
    if let Some(dw_ih) = to.w_ih.take() {
        product(
            MatMut::new(dw_ih, i, 3 * h, 3 * h),
            Write::Set,
            Mat::new(inputs.x, rows, i, i).transposed(),
            dp,
        );
    }
}

/// dw_hh. The n block of `dq` is `dn̄ ⊙ r`, columns `3H..4H`, where the reset gate acts
/// after the product, and `dn̄`, columns `2H..3H`, where it acts before.
fn recurrent_gradients<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: &mut [E],
    rg: &[E],
    to: &mut Gradients<'_, E>,
) {
    let h = dims.h;
    let width = spec.saved_per_unit() * h;
    let Some(dw_hh) = to.w_hh.take() else {
        return;
    };
    match spec.reset {
        Reset::AfterMatmul => {
            states_times(dims, spec, inputs, states, saved, (0, 2 * h), &mut *dw_hh);
            states_times(
                dims,
                spec,
                inputs,
                states,
                saved,
                (3 * h, h),
                &mut dw_hh[2 * h..],
            );
        }
        Reset::BeforeMatmul => {
            states_times(dims, spec, inputs, states, saved, (0, 2 * h), &mut *dw_hh);
            product(
                MatMut::new(&mut dw_hh[2 * h..], h, h, 3 * h),
                Write::Set,
                Mat::new(rg, dims.rows(), h, h).transposed(),
                Mat::new(&saved[2 * h..], dims.rows(), h, width),
            );
        }
    }
}

/// `dw = gᵀ·saved[:, from..from + cols]` over all rows, without a copy of the shifted states.
///
/// In both layouts the state before a step stands a fixed number of rows away, so the product
/// runs over two shifted views of the same buffers. The first steps walked come after the initial
/// state instead: their rows are taken out, multiplied on their own, and zeroed, which also
/// silences the pairs that the shift makes across two rows of the batch.
fn states_times<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: &mut [E],
    (from, cols): (usize, usize),
    dw: &mut [E],
) {
    let (rows, n, h) = (dims.rows(), dims.n, dims.h);
    let width = spec.saved_per_unit() * h;
    if inputs.mask.is_some() {
        let g = recurrent_inputs(dims, spec, inputs, states);
        return product(
            MatMut::new(dw, h, cols, 3 * h),
            Write::Set,
            Mat::new(&g, rows, h, h).transposed(),
            Mat::new(&saved[from..], rows, cols, width),
        );
    }

    let place = dims.place(spec.layout);
    let walk = Walk::new(dims, spec);
    let mut first = vec![E::zero(); n * cols];
    for (k, first) in first.chunks_exact_mut(cols).enumerate() {
        let row = &mut saved[place.row(k, walk.time(0)) * width + from..][..cols];
        first.copy_from_slice(row);
        row.fill(E::zero());
    }
    let shift = place.per_t;
    let pairs = rows - shift;
    let (before, after) = match spec.direction {
        crate::spec::Direction::Forward => (0, shift),
        crate::spec::Direction::Reverse => (shift, 0),
    };
    product(
        MatMut::new(dw, h, cols, 3 * h),
        Write::Set,
        Mat::new(&states[before * h..], pairs, h, h).transposed(),
        Mat::new(
            &saved[(after * width + from).min(saved.len())..],
            pairs,
            cols,
            width,
        ),
    );
    if let Some(h0) = inputs.h0 {
        product(
            MatMut::new(dw, h, cols, 3 * h),
            Write::Add,
            Mat::new(h0, n, h, h).transposed(),
            Mat::new(&first, n, cols, cols),
        );
    }
}

fn check_gradients<E>(op: &str, dims: &Dims, inputs: &Inputs<'_, E>, to: &Gradients<'_, E>) {
    let h = dims.h;
    check_len(op, "gradient of x", to.x.as_deref(), inputs.x.len());
    check_len(op, "gradient of h0", to.h0.as_deref(), dims.n * h);
    check_len(op, "gradient of w_ih", to.w_ih.as_deref(), dims.i * 3 * h);
    check_len(op, "gradient of w_hh", to.w_hh.as_deref(), h * 3 * h);
    check_len(op, "gradient of b_ih", to.b_ih.as_deref(), 3 * h);
    check_len(op, "gradient of b_hh", to.b_hh.as_deref(), 3 * h);
    assert!(
        inputs.w_ih.is_some() || to.w_ih.is_none(),
        "{op}: a gradient of w_ih is asked for, but the input is already projected"
    );
}
