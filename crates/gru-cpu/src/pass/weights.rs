//! The weights of the forward pass in panels, and the input product.

use crate::{
    call::{Call, Inputs},
    product::{Buffer, Lhs, Order, Panels, Prefetch, Product, ROWS, Shape, Sums, pack},
    simd::{Lanes, Machine},
    spec::{Reset, Sizes},
    tuning::{CANDIDATE_VECTORS, PACK_FROM, ROW_GRANULE},
};
use pulp::Simd;

/// Panels of every weight.
pub(super) struct Weights<'a, E> {
    /// The input weight, all gates.
    input: Option<Panels<'a, E>>,
    /// Reset after the product: all gates. Before it: r and z.
    pub(super) state: Panels<'a, E>,
    /// Reset before the product: n, which multiplies `r ⊙ g`.
    pub(super) candidate: Option<Panels<'a, E>>,
    /// Four vectors for each panel of `state`: the biases of the input product of r, z and n, and of the
    /// candidate's recurrent product.
    bias: Buffer<E>,
}

impl<'a, E: Lanes> Weights<'a, E> {
    /// For one call: packed, or read in place if the call reads them too rarely.
    pub(super) fn for_call(machine: &Machine, call: &Call<'a, E>) -> Self {
        let Sizes { n, t, .. } = *call.sizes;
        let in_place = t * n.div_ceil(machine.tile_rows) < PACK_FROM;
        Self::new(machine, call, in_place)
    }

    pub(super) fn new(machine: &Machine, call: &Call<'a, E>, in_place: bool) -> Self {
        let Sizes { i, h, .. } = *call.sizes;
        let lanes = machine.lanes;
        let after = call.spec.reset == Reset::AfterMatmul;
        let w_hh = |shape| Panels::new(call.inputs.weights.w_hh, 3 * h, shape, in_place);
        let state_gates = if after { 0..3 } else { 0..2 };
        let mut weights = Self {
            input: call
                .inputs
                .weights
                .w_ih
                .map(|w_ih| Panels::new(w_ih, 3 * h, Shape::gates(i, h, lanes, 0..3), in_place)),
            state: w_hh(Shape::gates(h, h, lanes, state_gates)),
            candidate: (!after).then(|| w_hh(Shape::units(h, h, lanes, CANDIDATE_VECTORS, 2 * h))),
            bias: bias(h, after, call.inputs, lanes),
        };
        let all = [
            weights.input.as_mut(),
            Some(&mut weights.state),
            weights.candidate.as_mut(),
        ];
        pack(all.into_iter().flatten().flat_map(Panels::unpacked));
        weights
    }

    /// The same without the slices that they were packed from.
    pub(super) fn into_owned(self) -> Weights<'static, E> {
        Weights {
            input: self.input.map(Panels::into_owned),
            state: self.state.into_owned(),
            candidate: self.candidate.map(Panels::into_owned),
            bias: self.bias,
        }
    }

    /// Bytes of the packed panels and biases.
    pub(super) fn bytes(&self) -> usize {
        let panels = [
            self.input.as_ref(),
            Some(&self.state),
            self.candidate.as_ref(),
        ];
        let panels: usize = panels.into_iter().flatten().map(Panels::bytes).sum();
        panels + size_of_val(self.bias.as_ref())
    }

    /// The packed panels of the input weight and of the state's, and the biases.
    #[inline(always)]
    pub(super) fn packed(&self) -> [&[E]; 3] {
        let input = self.input.as_ref().map_or(&[][..], Panels::packed);
        [input, self.state.packed(), self.bias.as_ref()]
    }

    /// The four bias vectors of a panel.
    #[inline(always)]
    pub(super) fn bias<S: Simd>(&self, simd: S, panel: usize) -> [E::V<S>; 4] {
        let lanes = E::lanes::<S>();
        let bias = &self.bias.as_ref()[panel * 4 * lanes..][..4 * lanes];
        let mut vectors = [E::real(simd, 0.0); 4];
        for (vector, from) in vectors.iter_mut().zip(bias.chunks_exact(lanes)) {
            *vector = E::read(simd, from);
        }
        vectors
    }

    /// Computes the input product with biases of some rows of the sequence: r, z and n of a panel.
    #[inline(always)]
    pub(super) fn project<S: Simd>(
        &self,
        simd: S,
        call: &Call<'_, E>,
        x: &[&[E]; ROWS],
        panel: usize,
        sums: &mut Sums<E, S>,
    ) {
        let Sizes { i, h, .. } = *call.sizes;
        let [b_r, b_z, b_n, _] = self.bias(simd, panel);
        sums.iter_mut().for_each(|sums| *sums = [b_r, b_z, b_n]);
        let Some(w_ih) = &self.input else {
            let lanes = E::lanes::<S>();
            let units = super::units(panel..panel + 1, lanes, h);
            for (sums, x) in sums.iter_mut().zip(x) {
                for (gate, sum) in sums.iter_mut().enumerate() {
                    let x = E::read(simd, &x[gate * h..][units.clone()]);
                    *sum = E::vadd(simd, *sum, x);
                }
            }
            return;
        };
        let mut rows = [std::ptr::null(); ROWS];
        for (row, x) in rows.iter_mut().zip(&x[..sums.len()]) {
            assert!(x.len() >= i);
            *row = x.as_ptr();
        }
        let product = Product {
            lhs: &Lhs::dense(rows),
            k: i,
            panel: w_ih.panel(panel),
            vectors: 3,
            // The rows of a small tile depend on the number of threads, so the order of their sums must
            // not. A call with very few rows runs on one thread and uses the fastest order.
            order: if call.sizes.rows() < ROW_GRANULE {
                Order::Free
            } else {
                Order::Strict
            },
            prefetch: Prefetch::NOTHING,
        };
        // SAFETY: each row of the sums has a borrowed row of I elements, and the panel has I rows.
        unsafe { product.add_to(simd, sums) };
    }
}

/// See [`Weights::bias`].
fn bias<E: Lanes>(h: usize, after: bool, inputs: &Inputs<'_, E>, lanes: usize) -> Buffer<E> {
    let (b_ih, b_hh) = (inputs.weights.b_ih, inputs.weights.b_hh);
    let mut bias = Buffer::new(h.div_ceil(lanes) * 4 * lanes);
    for (panel, bias) in bias.as_mut().chunks_exact_mut(4 * lanes).enumerate() {
        let units = super::units(panel..panel + 1, lanes, h);
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
        // With reset-after, r multiplies b_hn too, so b_hn cannot be added to p.
        add(if after { 3 } else { 2 }, b_hh, 2);
    }
    bias
}
