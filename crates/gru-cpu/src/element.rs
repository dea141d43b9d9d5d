//! The public passes: checked, and compiled in this crate for both float types.

use crate::{
    call::{Gradients, Gru, Inputs, Weights, check_backward, check_forward},
    pass::{self, Packed, Streams},
    simd::Lanes,
    spec::GruSpec,
};

/// A float type of the kernels: `f32` or `f64`.
pub trait Element: Lanes + Passes {}
impl Element for f32 {}
impl Element for f64 {}

impl Gru {
    /// Writes the state after every step to `states` (`[N,T,H]` or `[T,N,H]`).
    ///
    /// `saved` receives the gates for [`backward`](Self::backward): `[…,4H]` for reset-after, which holds r, z, n and
    /// the candidate's recurrent part q_n; `[…,3H]` for reset-before, which holds r, z, n.
    ///
    /// At a skipped step the state is kept, and the saved gates have no meaning.
    ///
    /// # Panics
    /// If the sizes exceed the address space, or a slice does not have the required length.
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
    /// `states` and `saved` are the results of [`forward`](Self::forward). Without `saved` the gates are recomputed
    /// from the states, some steps at a time. This costs about a third more arithmetic, and no memory that grows
    /// with T.
    ///
    /// At skipped steps `x` and `saved` may hold any value, NaN included.
    ///
    /// # Panics
    /// If the sizes exceed the address space, a slice does not have the required length, or a gradient is requested
    /// for an input that is absent.
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

/// The passes of a float type. They are compiled in this crate, and not in every crate that calls them.
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
                pass::forward(gru, inputs, states, saved);
            }

            fn backward(
                gru: &Gru,
                inputs: &Inputs<'_, Self>,
                states: &[Self],
                saved: Option<&[Self]>,
                d_states: &[Self],
                to: Gradients<'_, Self>,
            ) {
                pass::backward(gru, inputs, states, saved, d_states, to);
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
