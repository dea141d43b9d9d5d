//! The matrices of a layer, in any form.

use crate::{
    call::{self, LayerCall},
    simd::Lanes,
    spec::{Reset, Sizes},
};
use core::{iter::once, ops::Range};

pub(super) struct LayerMatrices<M> {
    /// The input weight, all gates.
    pub(super) input: Option<M>,
    /// Reset after the product: all gates. Before it: r and z.
    pub(super) state: M,
    /// Reset before the product: n, which multiplies `r ⊙ g`.
    pub(super) candidate: Option<M>,
}

impl<M> LayerMatrices<M> {
    /// The matrices of a forward pass. `new` takes a weight, its rows, and some gates, counted r, z, n as 0, 1, 2.
    pub(super) fn new<'a, E: Lanes>(
        layer: &LayerCall<'a, E>,
        new: impl Fn(&'a [E], usize, Range<usize>) -> M,
    ) -> Self {
        let Sizes { i, h, .. } = layer.sizes;
        let call::Weights { w_ih, w_hh, .. } = layer.weights;
        let after = layer.spec.reset == Reset::AfterMatmul;
        Self {
            input: w_ih.map(|w_ih| new(w_ih, i, 0..3)),
            state: new(w_hh, h, if after { 0..3 } else { 0..2 }),
            candidate: (!after).then(|| new(w_hh, h, 2..3)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &M> {
        self.input
            .iter()
            .chain(once(&self.state))
            .chain(&self.candidate)
    }

    /// Each matrix with its weight.
    pub(super) fn with_weights<'a, E>(
        &mut self,
        weights: &call::Weights<'a, E>,
    ) -> impl Iterator<Item = (&mut M, &'a [E])> {
        let (w_ih, w_hh) = (weights.w_ih, weights.w_hh);
        let of_state = once(&mut self.state).chain(&mut self.candidate);
        let of_input = self.input.iter_mut().zip(w_ih);
        of_state.map(move |matrix| (matrix, w_hh)).chain(of_input)
    }
}
