//! The passes, compiled here once for either float type.

use crate::{
    call::{Gradients, Gru, Inputs, Weights},
    gru::{self, Packed, Streams},
    simd::Lanes,
    spec::GruSpec,
};

/// A float type that the kernels run in: `f32` or `f64`.
pub trait Element: Lanes + Passes {}
impl Element for f32 {}
impl Element for f64 {}

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
