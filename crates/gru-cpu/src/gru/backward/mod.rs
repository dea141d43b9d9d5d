//! Back-propagation through time, by hand: a walk back in rounds of some steps, each followed by the
//! products over its rows while they are in the cache.
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

mod bias;
mod input;
mod outer;
mod replay;
mod step;

use self::{
    bias::{Bias, BiasSums},
    input::InputGradients,
    outer::{Outer, Sides},
    replay::{Replay, Replayed},
    step::Walk,
};
use super::weights::Weights;
use crate::{
    call::{Call, Gradients, Gru, Inputs, features},
    product::{
        Ahead, Blocks, Buffer, Columns, Order, Panel, Panels, Product, Rows, Shape, Sums, WIDTH,
        pack,
    },
    simd::{Gates, Lanes, Machine},
    spec::{Reset, Sizes},
    threads::{Member, Plan, Rounds, split, together},
    tuning::{MEET_BACK_FROM, VECTORS_BACK},
};
use pulp::Simd;
use std::ops::Range;

/// Writes the gradients; without `saved`, the gates are made anew from the states.
pub(crate) fn backward<E: Lanes>(
    gru: &Gru,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: Option<&[E]>,
    d_states: &[E],
    to: Gradients<'_, E>,
) {
    let machine = Machine::here::<E>();
    let call = Call::new(gru, inputs);
    let sizes = &gru.sizes;
    let Sizes { n, t, i, h } = *sizes;
    let (width, after) = (call.saved_width(), gru.spec.reset == Reset::AfterMatmul);
    let weights = Transposed::new(&machine, &call, to.x.is_some());
    let (panels, size) = (weights.gates.count(), size_of::<E>());
    let plan = Plan::new(sizes, panels, machine.tile_rows, size, MEET_BACK_FROM);
    let steps = Plan::steps_back(sizes, size);
    let rows = steps * n;

    // Sizes that are not wanted are empty.
    let buffer = |wanted: bool, size: usize| Buffer::<E>::new(if wanted { size } else { 0 });
    let columns =
        |wanted: bool, len: usize| buffer(wanted, Columns::<E>::size(len, rows, machine.tile_rows));
    let mut own_dh = buffer(to.h0.is_none(), n * h);
    let mut d = Buffer::new(Blocks::<E>::size(gru.spec.saved_per_unit(), h, rows));
    let mut ds = buffer(!after, n * h);
    let zeros = buffer(inputs.sequence.h0.is_none(), h);
    let replays = saved.is_none();
    let mut replayed = buffer(replays, rows * width);
    let mut replayed_g = buffer(
        replays && inputs.sequence.recurrent_mask.is_some(),
        rows * h,
    );
    let mut replayed_rg = buffer(replays && !after, rows * h);
    let mut x = columns(to.w_ih.is_some(), i);
    let mut g = columns(to.w_hh.is_some(), h);
    let mut rg = columns(to.w_hh.is_some() && !after, h);
    let mut bias = Bias::buffer(&call, to.b_ih.is_some() || to.b_hh.is_some());

    let dh = match to.h0 {
        Some(dh) => {
            dh.fill(E::zero());
            dh
        }
        None => own_dh.as_mut(),
    };
    let side = |data| Columns::new(data, rows, machine.tile_rows);
    let pass = Pass {
        machine,
        weights: &weights,
        gates: Gates::new(&machine, &call.spec),
        plan,
        steps,
        after,
        states,
        saved,
        d_states,
        dh: Rows::new(dh, h),
        dx: to
            .x
            .map(|dx| Rows::new(dx, features(&inputs.weights, sizes))),
        dw_ih: to.w_ih.map(|dw| Rows::new(dw, 3 * h)),
        dw_hh: to.w_hh.map(|dw| Rows::new(dw, 3 * h)),
        bias: Bias::new(&mut bias, h),
        d: Blocks::new(d.as_mut(), h, rows),
        ds: Rows::new(ds.as_mut(), h),
        replay: replays.then(|| Replay {
            weights: Weights::for_call(&machine, &call),
            gates: Rows::new(replayed.as_mut(), width),
            g: Rows::new(replayed_g.as_mut(), h),
            rg: Rows::new(replayed_rg.as_mut(), h),
        }),
        zeros: zeros.as_ref(),
        sides: Sides {
            x: side(x.as_mut()),
            g: side(g.as_mut()),
            rg: side(rg.as_mut()),
        },
        call,
    };
    let (threads, patience) = (pass.plan.threads(), Plan::patience(sizes));
    together(threads, t.div_ceil(steps), patience, &pass);
    if let Some(sums) = bias.totals() {
        bias::write(sums, h, to.b_ih, to.b_hh);
    }
}

/// The transposed weights.
struct Transposed<'a, E> {
    /// Reset after the product: of all gates. Before it: of r and z.
    gates: Panels<'a, E>,
    /// Reset before the product: of n.
    candidate: Option<Panels<'a, E>>,
    /// Of the input product, if the gradient of the input is wanted.
    input: Option<Panels<'a, E>>,
}

impl<'a, E: Lanes> Transposed<'a, E> {
    fn new(machine: &Machine, call: &Call<'a, E>, of_input: bool) -> Self {
        let Sizes { i, h, .. } = *call.sizes;
        let (w_hh, after) = (
            call.inputs.weights.w_hh,
            call.spec.reset == Reset::AfterMatmul,
        );
        let transposed = |w: &'a [E], first: usize, k: usize, units: usize| {
            let shape = Shape::units(k, units, machine.lanes, VECTORS_BACK, first);
            Panels::transposed(w, 3 * h, shape)
        };
        let mut weights = Self {
            gates: transposed(w_hh, 0, if after { 3 * h } else { 2 * h }, h),
            candidate: (!after).then(|| transposed(w_hh, 2 * h, h, h)),
            input: match call.inputs.weights.w_ih {
                // In the order of `dp`.
                Some(w_ih) if of_input => Some(transposed(w_ih, 2 * h, 3 * h, i)),
                _ => None,
            },
        };
        let all = [
            Some(&mut weights.gates),
            weights.candidate.as_mut(),
            weights.input.as_mut(),
        ];
        pack(all.into_iter().flatten().flat_map(Panels::unpacked));
        weights
    }
}

/// The gates of `d`, the gradients of the pre-activations: `dn̄`, `dr̄`, `dz̄`, and, where the reset
/// gate acts after the product, `dn̄ ⊙ r`. In this order those of either product are neighbours,
/// which it reads one after the other.
mod gate_of_d {
    use std::ops::Range;

    pub(super) const N: usize = 0;
    pub(super) const R: usize = 1;
    pub(super) const Z: usize = 2;
    pub(super) const N_TIMES_R: usize = 3;

    /// Of `dp`, of `dq` where the reset gate acts after the product, and of its first two blocks.
    pub(super) const DP: Range<usize> = N..Z + 1;
    pub(super) const DQ: Range<usize> = R..N_TIMES_R + 1;
    pub(super) const R_AND_Z: Range<usize> = R..Z + 1;

    /// Those in the order of everything else, where `dn̄ ⊙ r` comes last.
    pub(super) const PACKED: [usize; 4] = [R, Z, N, N_TIMES_R];
}

/// What all threads of a call share.
struct Pass<'a, E> {
    call: Call<'a, E>,
    machine: Machine,
    weights: &'a Transposed<'a, E>,
    gates: Gates<E>,
    plan: Plan,
    /// Steps of a round.
    steps: usize,
    /// Whether the reset gate acts after the product.
    after: bool,
    states: &'a [E],
    saved: Option<&'a [E]>,
    d_states: &'a [E],
    /// The gradient of the state, `[N,H]`: of the state before the step last walked.
    dh: Rows<'a, E>,
    dx: Option<Rows<'a, E>>,
    dw_ih: Option<Rows<'a, E>>,
    dw_hh: Option<Rows<'a, E>>,
    bias: Option<Bias<'a, E>>,
    /// The gradients of the pre-activations of a round: for each step, every row of the batch.
    d: Blocks<'a, E>,
    /// Reset before the product: `ds ⊙ r`.
    ds: Rows<'a, E>,
    /// Where no gates were kept, those of a round.
    replay: Option<Replay<'a, E>>,
    /// Left sides of the products over rows.
    sides: Sides<'a, E>,
    /// H of them, where there is no initial state.
    zeros: &'a [E],
}

impl<E: Lanes> Rounds for Pass<'_, E> {
    fn round(&self, round: usize, member: &mut Member<'_>) {
        let Sizes { n, t, .. } = *self.call.sizes;
        let arch = self.machine.arch;
        let steps = t.saturating_sub((round + 1) * self.steps)..t - round * self.steps;
        let rows = steps.len() * n;
        let (first, own) = (
            steps.start,
            split(rows, member.team, self.machine.tile_rows, member.index),
        );
        if let Some(replay) = &self.replay {
            arch.dispatch(Replayed {
                pass: self,
                replay,
                first,
                rows: own.clone(),
            });
            member.meet();
        }
        arch.dispatch(Walk {
            pass: self,
            steps,
            member,
        });
        self.pack(first, own.clone());
        member.meet();
        for product in self.products().into_iter().flatten() {
            arch.dispatch(Outer {
                pass: self,
                share: member.share(product.tiles(self)),
                product,
                rows,
                is_first: round == 0,
            });
        }
        arch.dispatch(InputGradients {
            pass: self,
            first,
            rows: own,
        });
        arch.dispatch(BiasSums {
            pass: self,
            rows,
            vectors: member.share(BiasSums::vectors(self)),
        });
    }
}

impl<E: Lanes> Pass<'_, E> {
    /// The row of the batch, and the step, of row `row` of a round that begins with step `first`.
    #[inline(always)]
    fn of_round(&self, first: usize, row: usize) -> (usize, usize) {
        let n = self.call.sizes.n;
        (row % n, first + row / n)
    }

    /// The state of a row of the batch before step `s`.
    #[inline(always)]
    fn previous(&self, n: usize, s: usize) -> &[E] {
        let (call, h) = (&self.call, self.call.sizes.h);
        match (s, call.inputs.sequence.h0) {
            (0, Some(h0)) => &h0[n * h..][..h],
            (0, None) => self.zeros,
            _ => &self.states[call.row(n, s - 1) * h..][..h],
        }
    }

    /// Adds `d·b` to the sums: rows of a round from `row` on, the units of some gates one after the
    /// other.
    ///
    /// # Safety
    /// These rows and gates of `d` were written before the threads last met, nobody writes them
    /// before they meet again, and the panel has a row for each unit of each gate.
    #[inline(always)]
    unsafe fn add_product<S: Simd>(
        &self,
        simd: S,
        (sums, vectors): (&mut Sums<E, S>, usize),
        row: usize,
        gates: Range<usize>,
        panel: Panel<E>,
        ahead: Ahead<'_, E>,
    ) {
        let h = self.call.sizes.h;
        // Where no block sticks out of a gate they are one.
        let (count, k) = if h.is_multiple_of(WIDTH) {
            (1, gates.len() * h)
        } else {
            (gates.len(), h)
        };
        for at in 0..count {
            let product = Product {
                left: &self.d.left(gates.start + at, row),
                k,
                panel: panel.skip(at * k),
                vectors,
                order: Order::Free,
                ahead: if at == 0 { ahead } else { Ahead::NOTHING },
            };
            // SAFETY: `d` has these rows, which the caller keeps from being written, and the panel
            // a row for each of their elements.
            unsafe { product.add_to_small(simd, sums) };
        }
    }
}
