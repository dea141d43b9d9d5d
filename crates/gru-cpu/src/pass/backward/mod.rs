//! Back-propagation through time, written by hand. It runs in rounds of some steps, from the last step to
//! the first. Each round ends with the products over its rows, which are in the cache then.
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
mod recompute;
mod reset_before;
mod step;
mod weights;

use self::{
    bias::Bias,
    outer::LhsColumns,
    recompute::{Recompute, RecomputeRows},
    weights::{Transposed, transposed},
};
use super::{
    VectorRounds,
    by_rows::RowMemory,
    forward::initial_zeros,
    gate_rows::GateCells,
    project::{InputProduct, RoundRows},
    weights::ForwardWeights,
};
use crate::{
    call::{Call, Gru, Inputs, LiveRows, Ragged, Sorted, features},
    memory::overwritten,
    product::{Blocks, Buffer, Columns, Rows, Strided, WIDTH},
    simd::{Gates, Lanes, Machine},
    spec::{Lengths, PerInput, Reset, Sizes},
    threads::{Member, Plan, run_team, split},
    tuning::BARRIER_BACK_FROM,
};
use alloc::vec::Vec;
use core::{mem::MaybeUninit, ops::Range};
use pulp::Simd;

/// Where the gradients are written. What they contained is never read.
pub(crate) type Targets<'a, E> = PerInput<Option<&'a mut [MaybeUninit<E>]>>;

/// Writes every element of the gradients, except of x past the end of a row. Without `saved` the gates are recomputed from
/// the states.
pub(crate) fn backward<E: Lanes>(
    gru: &Gru,
    lengths: &Lengths,
    inputs: &Inputs<'_, E>,
    states: &[E],
    saved: Option<&[E]>,
    d_states: &[E],
    to: Targets<'_, E>,
) {
    let call = Call::new(gru, inputs);
    if lengths.of_rows().is_none() {
        return gradients(call, None, states, saved, d_states, to);
    }
    let h = gru.sizes.h;
    let ragged = Ragged::new(&gru.sizes, gru.order, lengths, 1);
    let sorted = Sorted::new(&ragged, inputs, h);
    let inputs = &sorted.inputs(inputs);
    let call = call.with_rows(&ragged, inputs);
    let (d_h0, d_start) = (to.h0.map(zeroed), to.start_state.map(zeroed));
    let [mut h0, mut start_state] = [&d_h0, &d_start].map(|d| Some(d.as_deref()?.to_vec()));
    let [h0_in_slots, start_in_slots] = [&mut h0, &mut start_state].map(|d| {
        // SAFETY: `gradients` writes elements.
        d.as_mut().map(|d| unsafe { overwritten(d) })
    });
    let in_slots = Targets {
        h0: h0_in_slots,
        start_state: start_in_slots,
        ..to
    };
    let live = Some(&ragged.groups()[0]);
    gradients(call, live, states, saved, d_states, in_slots);
    for (to, sorted) in [(d_h0, h0), (d_start, start_state)] {
        if let (Some(to), Some(sorted)) = (to, sorted) {
            ragged.unsorted(&sorted, to, h);
        }
    }
}

fn zeroed<E: Lanes>(to: &mut [MaybeUninit<E>]) -> &mut [E] {
    to.fill(MaybeUninit::new(E::zero()));
    // SAFETY: every element was written.
    unsafe { to.assume_init_mut() }
}

/// The gradients of a call. If its rows have different lengths, `live` lists the live rows of each step.
fn gradients<E: Lanes>(
    call: Call<'_, E>,
    live: Option<&LiveRows>,
    states: &[E],
    saved: Option<&[E]>,
    d_states: &[E],
    to: Targets<'_, E>,
) {
    let machine = Machine::here::<E>();
    let (sizes, inputs) = (call.sizes, call.inputs);
    let Sizes { n, t, i, h } = *sizes;
    let (width, after) = (call.saved_width(), call.spec.reset == Reset::AfterMatmul);
    let weights = transposed(&machine, &call, to.x.is_some());
    let (panels, size) = (weights.state.count(machine.lanes), size_of::<E>());
    let plan = Plan::new(sizes, panels, size, BARRIER_BACK_FROM);
    let steps = Plan::steps_back(sizes, size);
    let rows = steps * n;
    let all = live.map(|live| live.rounds(rows));
    let count = all.as_ref().map_or(t.div_ceil(steps), Vec::len);

    // A buffer that is not needed is empty.
    let buffer = |needed: bool, size: usize| Buffer::<E>::new(if needed { size } else { 0 });
    let columns =
        |needed: bool, len: usize| buffer(needed, Columns::<E>::size(len, rows, machine.tile_rows));
    let mut own_dh = buffer(to.h0.is_none(), n * h);
    let mut d = Buffer::new(Blocks::<E>::size(call.spec.saved_per_unit(), h, rows));
    let mut ds = buffer(!after, n * h);
    let zeros = initial_zeros(&call);
    let recomputes = saved.is_none();
    let mut gates = buffer(recomputes, rows * width);
    let mut masked = buffer(
        recomputes && inputs.sequence.recurrent_mask.is_some(),
        rows * h,
    );
    let mut reset = buffer(recomputes && !after, rows * h);
    let mut x = columns(to.w_ih.is_some(), i);
    let mut g = columns(to.w_hh.is_some(), h);
    let mut rg = columns(to.w_hh.is_some() && !after, h);
    let has_bias = to.b_ih.is_some() || to.b_hh.is_some();
    let [mut bias, mut bias_errors] = [(); 2].map(|()| buffer(has_bias, width));

    let needs_first = to.h0.is_some() || to.start_state.is_some();
    let dh = match to.h0 {
        Some(dh) => zeroed(dh),
        None => own_dh.as_mut(),
    };
    let forward_gates = &Gates::new(&machine, &call.spec);
    let forward_weights = recomputes.then(|| ForwardWeights::packed(&machine, &call.layer()));
    let d = Rows::new(d.as_mut(), WIDTH);
    let lhs = |data| Columns::new(data, rows, machine.tile_rows);
    let pass = Pass {
        machine,
        weights: &weights,
        gates: forward_gates,
        plan,
        steps,
        live: live.zip(all.as_deref()),
        after,
        states,
        saved,
        d_states,
        dh: Rows::new(dh, h),
        d_start: to.start_state.map(|d_start| Rows::new(zeroed(d_start), h)),
        dx: to
            .x
            .map(|dx| Rows::unwritten(dx, features(&inputs.weights, sizes))),
        dw_ih: to.w_ih.map(|dw| Rows::unwritten(dw, 3 * h)),
        dw_hh: to.w_hh.map(|dw| Rows::unwritten(dw, 3 * h)),
        bias: Bias::new([&mut bias, &mut bias_errors], h),
        d: Blocks::new(d, h, rows),
        ds: Rows::new(ds.as_mut(), h),
        recompute: forward_weights.as_ref().map(|weights| Recompute {
            cells: GateCells {
                weights,
                gates: forward_gates,
                h,
                after,
                p: InputProduct {
                    cells: d.with_width(3 * machine.lanes),
                    per_panel: rows,
                },
                rg: Rows::new(reset.as_mut(), h),
                memory: RowMemory {
                    products: Rows::new(&mut [], 0),
                    encoded: Rows::new(&mut [], 0),
                },
            },
            gates: Rows::new(gates.as_mut(), width),
            g: Rows::new(masked.as_mut(), h),
        }),
        needs_first,
        zeros: &zeros,
        lhs: LhsColumns {
            x: lhs(x.as_mut()),
            g: lhs(g.as_mut()),
            rg: lhs(rg.as_mut()),
        },
        call,
    };
    let threads = pass.plan.threads();
    run_team(threads, count, Plan::helper_wait(sizes, rows), &pass);
    bias::write(bias.as_mut(), bias_errors.as_ref(), h, to.b_ih, to.b_hh);
}

/// The gates of `d`, which holds the gradients of the pre-activations: `dn̄`, `dr̄`, `dz̄`, and `dn̄ ⊙ r` where
/// the reset gate acts after the product. In this order the gates of each product are adjacent.
mod gate_of_d {
    pub(super) const N: usize = 0;
    pub(super) const R: usize = 1;
    pub(super) const Z: usize = 2;
    pub(super) const N_TIMES_R: usize = 3;

    /// The gates of `dp`, of `dq` where the reset gate acts after the product, and of the two parts of `dq` where it
    /// acts before. Each has its gate in the columns of a weight, whose order is r, z, n.
    pub(super) const DP: &[(usize, usize)] = &[(N, 2), (R, 0), (Z, 1)];
    pub(super) const DQ: &[(usize, usize)] = &[(R, 0), (Z, 1), (N_TIMES_R, 2)];
    pub(super) const R_AND_Z: &[(usize, usize)] = &[(R, 0), (Z, 1)];
    pub(super) const CANDIDATE: &[(usize, usize)] = &[(N, 2)];

    /// The gates in the order r, z, n of all other tensors, with `dn̄ ⊙ r` last.
    pub(super) const PACKED: [usize; 4] = [R, Z, N, N_TIMES_R];
}

/// What all threads of a call share.
struct Pass<'a, E> {
    call: Call<'a, E>,
    machine: Machine,
    weights: &'a Transposed<'a, E>,
    gates: &'a Gates<E>,
    plan: Plan,
    /// Steps of a round.
    steps: usize,
    /// If rows have different lengths: the live rows of each step, and the steps of each round.
    live: Option<(&'a LiveRows, &'a [Range<usize>])>,
    /// Whether the reset gate acts after the product.
    after: bool,
    states: &'a [E],
    saved: Option<&'a [E]>,
    d_states: &'a [E],
    /// The gradient `[N,H]` of the state before the step that was computed last.
    dh: Rows<'a, E>,
    /// The gradient `[N,H]` of the start state.
    d_start: Option<Rows<'a, E>>,
    dx: Option<Rows<'a, E>>,
    dw_ih: Option<Rows<'a, E>>,
    dw_hh: Option<Rows<'a, E>>,
    bias: Option<Bias<'a, E>>,
    /// The pre-activation gradients of a round: for each step, every row of the batch.
    d: Blocks<'a, E>,
    /// Reset before the product: `ds ⊙ r`.
    ds: Rows<'a, E>,
    /// The gates of a round, if the forward pass did not keep any.
    recompute: Option<Recompute<'a, E>>,
    /// Left sides of the products over rows.
    lhs: LhsColumns<'a, E>,
    /// Whether the gradient of the state before the first step is requested.
    needs_first: bool,
    /// See [`initial_zeros`].
    zeros: &'a [E],
}

impl<E: Lanes> VectorRounds for Pass<'_, E> {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    #[inline(always)]
    fn vector_round<S: Simd>(&self, simd: S, round: usize, member: &mut Member<'_>) {
        let is_first = round == 0;
        let Sizes { n, t, .. } = *self.call.sizes;
        let steps = match self.live {
            None => t.saturating_sub((round + 1) * self.steps)..t - round * self.steps,
            Some((_, rounds)) => rounds[rounds.len() - 1 - round].clone(),
        };
        let round = RoundRows {
            batch: 0..n,
            first_step: steps.start,
            live: self.live.map(|(live, _)| live),
        };
        let rows = round.before(steps.end);
        let own = split(rows, member.team, member.index);
        if let Some(recompute) = &self.recompute {
            RecomputeRows {
                pass: self,
                recompute,
                round: round.clone(),
                rows: own.clone(),
                saved: Strided::of(&recompute.gates, 0, 1, rows),
            }
            .run(simd);
            member.wait();
        }
        self.steps_back(simd, &round, steps, member);
        self.pack(&round, own.clone());
        member.wait();
        for product in self.outer_products(rows, is_first).into_iter().flatten() {
            product.run(simd, member.share(product.parts()));
        }
        self.input_gradients(simd, &round, own);
        self.add_biases(simd, rows, member.share(self.bias_vectors()));
    }
}

impl<E: Lanes> Pass<'_, E> {
    /// The state of a row of the batch before step `s`: the start state if the row starts there.
    #[inline(always)]
    fn previous(&self, n: usize, s: usize) -> &[E] {
        let (call, h) = (&self.call, self.call.sizes.h);
        let sequence = &call.inputs.sequence;
        let given = if call.starts(n, s) {
            sequence.start_state
        } else if s == 0 {
            sequence.h0
        } else {
            return &self.states[call.row(n, s - 1) * h..][..h];
        };
        match given {
            Some(states) => &states[n * h..][..h],
            None => self.zeros,
        }
    }
}
