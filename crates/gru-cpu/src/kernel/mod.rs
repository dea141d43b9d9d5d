//! The walks through time: packed weights, register tiles, gates as the epilogue.
//!
//! A product per step would pack `w_hh` T times and send `q` through memory. Here `w_hh` is
//! packed once per call, into panels that hold the gates of the same hidden units side by side;
//! one tile of rows by units gathers its gates in registers and turns them into the new state
//! before anything is stored.
//!
//! - [`lanes`], [`math`], [`gate`]: vectors of either float type, and the activations on them.
//! - [`panels`], [`tile`]: the product. [`rows`], [`blocks`], [`buffer`]: memory.
//! - [`denormals`]: what they count as meanwhile.
//! - [`plan`], [`team`]: rows are split between threads, which then meet only after the rounds of
//!   the backward pass; where rows are few or the weights of one thread would leave its cache,
//!   hidden units are split between threads that meet after each step.
//! - [`forward`], [`backward`]: the two passes. The options that nobody's hot loop uses (other
//!   activations, clips, blended states) are a second compilation of the same code.
//!
//! No closure stands between a dispatch and vector code: one that is not inlined is compiled
//! without the vector instructions, and runs some twenty times slower.

mod backward;
mod blocks;
mod buffer;
mod denormals;
mod forward;
mod gate;
mod isa;
pub(crate) mod lanes;
mod math;
mod panels;
mod plan;
mod prefetch;
mod rows;
mod sync;
mod team;
mod tile;
mod weights;

pub use self::isa::Isa;

use crate::{
    backward::Gradients,
    dims::{Dims, Inputs},
    spec::{Activations, GruSpec},
};

/// The walks of a float type. Compiled once, here: not in every crate that calls them.
pub trait Walks: Sized {
    /// Writes the states, and the gates to `saved` if that is there.
    #[doc(hidden)]
    fn walk(
        dims: &Dims,
        spec: &GruSpec,
        inputs: &Inputs<'_, Self>,
        states: &mut [Self],
        saved: Option<&mut [Self]>,
    );

    /// Writes the gradients; without `saved`, the gates are made anew from the states.
    #[doc(hidden)]
    fn back(
        dims: &Dims,
        spec: &GruSpec,
        inputs: &Inputs<'_, Self>,
        states: &[Self],
        saved: Option<&[Self]>,
        d_states: &[Self],
        to: Gradients<'_, Self>,
    );
}

macro_rules! walks {
    ($t:ty) => {
        impl Walks for $t {
            fn walk(
                dims: &Dims,
                spec: &GruSpec,
                inputs: &Inputs<'_, Self>,
                states: &mut [Self],
                saved: Option<&mut [Self]>,
            ) {
                forward::walk(dims, spec, inputs, states, saved);
            }

            fn back(
                dims: &Dims,
                spec: &GruSpec,
                inputs: &Inputs<'_, Self>,
                states: &[Self],
                saved: Option<&[Self]>,
                d_states: &[Self],
                to: Gradients<'_, Self>,
            ) {
                backward::back(dims, spec, inputs, states, saved, d_states, to);
            }
        }
    };
}
walks!(f32);
walks!(f64);

/// Whether every activation is the usual one, without a clip or a blend: known when the code is
/// compiled, so that no choice is left in its loops.
fn is_common<E>(spec: &GruSpec, inputs: &Inputs<'_, E>) -> bool {
    spec.activations == Activations::default()
        && spec.clip_gates.is_none()
        && spec.clip_state.is_none()
        && inputs.take.is_none()
}

/// Rows of weights from which packing pays: tiles times steps, each of which reads all of them.
const PACK_FROM: usize = 4;
