//! The passes as others call them: checked, and compiled here once for either float type.

use crate::{
    call::{Gradients, Gru, Inputs, Weights, check_backward, check_forward},
    gru::{self, Packed, Streams},
    simd::Lanes,
    spec::GruSpec,
};

/// A float type that the kernels run in: `f32` or `f64`.
pub trait Element: Lanes + Passes {}
impl Element for f32 {}
impl Element for f64 {}

impl Gru {
    /// Writes the state after every step to `states` (`[N,T,H]` or `[T,N,H]`).
    ///
    /// With `saved` (`[…,4H]` for reset-after: r, z, n and the candidate's recurrent part q_n;
    /// `[…,3H]` for reset-before: r, z, n), keeps what [`backward`](Self::backward) needs.
    ///
    /// At a skipped step the state is kept, and the saved gates have no meaning.
    ///
    /// # Panics
    /// If the sizes are larger than memory can be, or a slice does not have the required length.
    pub fn forward<E: Element>(
        &self,
        inputs: &Inputs<'_, E>,
        states: &mut [E],
        saved: Option<&mut [E]>,
    ) {
        check_forward(self, inputs, states, saved.as_deref());
        if !states.is_empty() {
            E::forward(self, inputs, states, saved);
        }
    }

    /// Writes the requested gradients of `Σ states ⊙ d_states`.
    ///
    /// `states` and `saved` are the results of [`forward`](Self::forward). Without `saved` the gates are
    /// recomputed from the states, some steps at a time: about a third more arithmetic, and no memory that
    /// grows with T.
    ///
    /// At skipped steps `x` and `saved` may hold anything, NaN included.
    ///
    /// # Panics
    /// If the sizes are larger than memory can be, a slice does not have the required length, or a gradient
    /// is requested for an input that is absent.
    pub fn backward<E: Element>(
        &self,
        inputs: &Inputs<'_, E>,
        states: &[E],
        saved: Option<&[E]>,
        d_states: &[E],
        to: Gradients<'_, E>,
    ) {
        check_backward(self, inputs, states, saved, d_states, &to);
        if states.is_empty() {
            let all = to.into_array().into_iter().flatten();
            all.for_each(|d| d.fill(E::zero()));
        } else {
            E::backward(self, inputs, states, saved, d_states, to);
        }
    }
}

/// The passes of a float type. Compiled in this crate, not in every crate that calls them.
#[doc(hidden)]
pub trait Passes: Lanes {
    fn forward(
        gru: &Gru,
        inputs: &Inputs<'_, Self>,
        states: &mut [Self],
        saved: Option<&mut [Self]>,
    );

    fn backward(
        gru: &Gru,
        inputs: &Inputs<'_, Self>,
        states: &[Self],
        saved: Option<&[Self]>,
        d_states: &[Self],
        to: Gradients<'_, Self>,
    );

    fn pack(spec: &GruSpec, i: usize, h: usize, weights: Weights<'_, Self>) -> Packed<Self>;

    fn forward_packed(
        packed: &Packed<Self>,
        gru: &Gru,
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
                gru: &Gru,
                inputs: &Inputs<'_, Self>,
                states: &mut [Self],
                saved: Option<&mut [Self]>,
            ) {
                gru::forward(gru, inputs, states, saved);
            }

            fn backward(
                gru: &Gru,
                inputs: &Inputs<'_, Self>,
                states: &[Self],
                saved: Option<&[Self]>,
                d_states: &[Self],
                to: Gradients<'_, Self>,
            ) {
                gru::backward(gru, inputs, states, saved, d_states, to);
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
                gru: &Gru,
                inputs: &Inputs<'_, Self>,
                states: &mut [Self],
            ) {
                packed.forward(gru, inputs, states);
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
