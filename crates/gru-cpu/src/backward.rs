//! Back-propagation through time, by hand: a reverse walk, and products over its rows.
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
    dims::{Dims, Inputs, check_len},
    element::Element,
    plain,
    spec::GruSpec,
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
/// `states` and `saved` are what [`forward`](crate::forward()) made. Without `saved` the gates are
/// made anew from the states, some steps at a time: about a third more arithmetic, and no memory
/// that grows with T.
///
/// What is skipped by `valid` may hold anything in `x` and `saved`, NaN included.
///
/// # Panics
/// If the sizes are larger than memory can be, a slice has not the length that `dims` and `spec` ask
/// for, or a gradient is asked for an input that is absent.
pub fn backward<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: Option<&[E]>,
    d_states: &[E],
    to: Gradients<'_, E>,
) {
    const OP: &str = "gru_cpu::backward";
    spec.check();
    inputs.check(OP, dims);
    check_gradients(OP, dims, inputs, &to);
    check_len(OP, "states", Some(states), dims.rows() * dims.h);
    check_len(OP, "d_states", Some(d_states), dims.rows() * dims.h);
    let width = spec.saved_per_unit() * dims.h;
    check_len(OP, "saved", saved, dims.rows() * width);
    if states.is_empty() {
        let all = [to.x, to.h0, to.w_ih, to.w_hh, to.b_ih, to.b_hh];
        all.into_iter().flatten().for_each(|d| d.fill(E::zero()));
        return;
    }
    match plain::is_forced() {
        true => plain::back(dims, spec, inputs, states, saved, d_states, to),
        false => E::back(dims, spec, inputs, states, saved, d_states, to),
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

/// Both biases' gradients from the sums of the pre-activations' gradients: `dr̄ | dz̄ | dn̄`, and, where
/// the reset gate acts after the product, `dn̄ ⊙ r`, which is the last block for the recurrent bias.
pub(crate) fn write_bias<E: Element>(
    sums: &[E],
    h: usize,
    d_b_ih: Option<&mut [E]>,
    d_b_hh: Option<&mut [E]>,
) {
    if let Some(d_b_ih) = d_b_ih {
        d_b_ih.copy_from_slice(&sums[..3 * h]);
    }
    if let Some(d_b_hh) = d_b_hh {
        d_b_hh[..2 * h].copy_from_slice(&sums[..2 * h]);
        d_b_hh[2 * h..].copy_from_slice(&sums[sums.len() - h..]);
    }
}
