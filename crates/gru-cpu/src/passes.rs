//! The two passes as others call them: checked, and compiled here for either float type.

use crate::{
    call::{Dims, Gradients, Inputs, Weights, check_backward, check_forward},
    gru::{self, Packed, Streams},
    simd::Lanes,
    spec::GruSpec,
};

/// A float type that the kernels run in: `f32` or `f64`.
pub trait Element: Lanes + Passes {}
impl Element for f32 {}
impl Element for f64 {}

/// The passes of a float type. Compiled once, here: not in every crate that calls them.
#[doc(hidden)]
pub trait Passes: Lanes {
    fn forward(
        dims: &Dims,
        spec: &GruSpec,
        inputs: &Inputs<'_, Self>,
        states: &mut [Self],
        saved: Option<&mut [Self]>,
    );

    fn backward(
        dims: &Dims,
        spec: &GruSpec,
        inputs: &Inputs<'_, Self>,
        states: &[Self],
        saved: Option<&[Self]>,
        d_states: &[Self],
        to: Gradients<'_, Self>,
    );

    fn pack(spec: &GruSpec, i: usize, h: usize, weights: Weights<'_, Self>) -> Packed<Self>;

    fn forward_packed(
        packed: &Packed<Self>,
        spec: &GruSpec,
        dims: &Dims,
        inputs: &Inputs<'_, Self>,
        states: &mut [Self],
    );

    fn streams(packed: &Packed<Self>, n: usize) -> Streams<Self>;

    fn step(packed: &Packed<Self>, streams: &mut Streams<Self>, x: &[Self]);
}

macro_rules! passes {
    ($t:ty) => {
        impl Passes for $t {
            fn forward(
                dims: &Dims,
                spec: &GruSpec,
                inputs: &Inputs<'_, Self>,
                states: &mut [Self],
                saved: Option<&mut [Self]>,
            ) {
                gru::forward(dims, spec, inputs, states, saved);
            }

            fn backward(
                dims: &Dims,
                spec: &GruSpec,
                inputs: &Inputs<'_, Self>,
                states: &[Self],
                saved: Option<&[Self]>,
                d_states: &[Self],
                to: Gradients<'_, Self>,
            ) {
                gru::backward(dims, spec, inputs, states, saved, d_states, to);
            }

            fn pack(
                spec: &GruSpec,
                i: usize,
                h: usize,
                weights: Weights<'_, Self>,
            ) -> Packed<Self> {
                Packed::new(spec, i, h, weights)
            }

            fn forward_packed(
                packed: &Packed<Self>,
                spec: &GruSpec,
                dims: &Dims,
                inputs: &Inputs<'_, Self>,
                states: &mut [Self],
            ) {
                packed.forward(spec, dims, inputs, states);
            }

            fn streams(packed: &Packed<Self>, n: usize) -> Streams<Self> {
                Streams::new(packed, n)
            }

            fn step(packed: &Packed<Self>, streams: &mut Streams<Self>, x: &[Self]) {
                streams.step(packed, x);
            }
        }
    };
}
passes!(f32);
passes!(f64);

/// Writes the state after every step to `states` (`[N,T,H]` or `[T,N,H]`).
///
/// With `saved` (`[…,4H]` for reset-after: r, z, n and the candidate's recurrent part q_n;
/// `[…,3H]` for reset-before: r, z, n), keeps what [`backward`] needs. Without it nothing is kept
/// but the states.
///
/// At a step that `valid` skips the state is carried on and the saved gates have no meaning.
///
/// # Panics
/// If the sizes are larger than memory can be, or a slice has not the length that `dims` and `spec`
/// ask for.
///
/// An example of both passes stands on the front page.
pub fn forward<E: Element>(
    dims: &Dims,
    spec: &GruSpec,
    inputs: &Inputs<'_, E>,
    states: &mut [E],
    saved: Option<&mut [E]>,
) {
    check_forward(dims, spec, inputs, states, saved.as_deref());
    if !states.is_empty() {
        <E as Passes>::forward(dims, spec, inputs, states, saved);
    }
}

/// Writes the gradients of `Σ states ⊙ d_states`, those that `to` asks for.
///
/// `states` and `saved` are what [`forward`] made. Without `saved` the gates are made anew from the
/// states, some steps at a time: about a third more arithmetic, and no memory that grows with T.
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
    check_backward(dims, spec, inputs, states, saved, d_states, &to);
    match states.is_empty() {
        true => to.clear(),
        false => <E as Passes>::backward(dims, spec, inputs, states, saved, d_states, to),
    }
}
