//! The weights of the forward passes, packed.

use super::{
    PACK_FROM,
    buffer::Buffer,
    panels::{Panels, Shape},
    tile::tile_rows,
};
use crate::{
    dims::{Dims, Inputs},
    element::Element,
    spec::{GruSpec, Reset},
};
use pulp::Simd;

/// Panels of every weight.
pub(super) struct Weights<'a, E> {
    /// Of the input product, all gates.
    pub(super) input: Option<Panels<'a, E>>,
    /// Reset after the product: all gates. Before it: r and z.
    pub(super) state: Panels<'a, E>,
    /// Reset before the product: n, of `r ⊙ g`.
    pub(super) candidate: Option<Panels<'a, E>>,
    /// For each panel of `state` four vectors: what is added to the input product of r, z and n,
    /// and to the candidate's recurrent product.
    bias: Buffer<E>,
}

/// Vectors of a panel of the candidate's own product.
pub(super) const CANDIDATE_VECTORS: usize = 2;

impl<'a, E: Element> Weights<'a, E> {
    #[inline(always)]
    pub(super) fn new<S: Simd>(dims: &Dims, spec: &GruSpec, inputs: &Inputs<'a, E>) -> Self {
        let Dims { n, t, i, h } = *dims;
        let lanes = E::lanes::<S>();
        let in_place = t * n.div_ceil(tile_rows::<S>()) < PACK_FROM;
        let after = spec.reset == Reset::AfterMatmul;
        let packed = if after { 0..3 } else { 0..2 };
        Self {
            input: inputs
                .w_ih
                .map(|w_ih| Panels::new(w_ih, 3 * h, Shape::gates(i, h, lanes, 0..3), in_place)),
            state: Panels::new(
                inputs.w_hh,
                3 * h,
                Shape::gates(h, h, lanes, packed),
                in_place,
            ),
            candidate: (!after).then(|| {
                let shape = Shape::units(h, h, lanes, CANDIDATE_VECTORS, 2 * h);
                Panels::new(inputs.w_hh, 3 * h, shape, in_place)
            }),
            bias: bias(h, after, inputs, lanes),
        }
    }

    /// The four bias vectors of a panel.
    #[inline(always)]
    pub(super) fn bias<S: Simd>(&self, simd: S, panel: usize) -> [E::V<S>; 4] {
        let lanes = E::lanes::<S>();
        let bias = &self.bias.as_ref()[panel * 4 * lanes..][..4 * lanes];
        let mut vectors = [E::real(simd, 0.0); 4];
        for (vector, from) in vectors.iter_mut().zip(bias.chunks_exact(lanes)) {
            // SAFETY: the slice is a vector long.
            *vector = unsafe { E::load(simd, from.as_ptr()) };
        }
        vectors
    }
}

/// See [`Weights::bias`].
fn bias<E: Element>(h: usize, after: bool, inputs: &Inputs<'_, E>, lanes: usize) -> Buffer<E> {
    let Inputs { b_ih, b_hh, .. } = *inputs;
    let mut bias = Buffer::new(h.div_ceil(lanes) * 4 * lanes);
    for (panel, bias) in bias.as_mut().chunks_exact_mut(4 * lanes).enumerate() {
        let units = panel * lanes..((panel + 1) * lanes).min(h);
        let mut add = |slot: usize, b: Option<&[E]>, gate: usize| {
            let Some(b) = b else { return };
            let to = bias[slot * lanes..].iter_mut();
            to.zip(&b[gate * h..][units.clone()])
                .for_each(|(to, &b)| *to = *to + b);
        };
        for gate in 0..3 {
            add(gate, b_ih, gate);
        }
        add(0, b_hh, 0);
        add(1, b_hh, 1);
        // After the product, r multiplies b_hn too; then it cannot join p.
        add(if after { 3 } else { 2 }, b_hh, 2);
    }
    bias
}
