//! A round of a group, for the panels of one thread: the input product of all its steps, then the steps.
//!
//! Between two barriers a thread reads what was written before the first one. It writes only the units of
//! its own panels: in the states and gates of this step, in `p` and `rg`, and in `g` of the next step.

use super::{
    super::{
        Part, VectorRounds,
        gates_by_rows::GatesByRows,
        next,
        project::{Project, RoundRows},
        tile::GateTiles,
        units,
        weights::Matrices,
    },
    Group, Pass,
    step::Step,
};
use crate::{
    simd::{Lanes, Machine},
    threads::{Member, acting, tiles},
    tuning::{BARRIER_FROM, CANDIDATE_VECTORS, PANELS_OF_A_ROW},
};
use core::ops::Range;
use pulp::Simd;

impl<E: Lanes> VectorRounds for Group<'_, E> {
    fn machine(&self) -> &Machine {
        &self.pass.machine
    }

    #[inline(always)]
    fn vector_round<S: Simd>(&self, simd: S, round: usize, member: &mut Member<'_>) {
        let Pass { call, weights, .. } = self.pass;
        let (h, lanes) = (call.sizes.h, E::lanes::<S>());
        let steps = match self.live {
            None => {
                let first = round * self.steps;
                first..(first + self.steps).min(call.sizes.t)
            }
            Some((_, rounds)) => rounds[round].clone(),
        };
        let round = RoundRows {
            batch: self.rows.clone(),
            first_step: steps.start,
            live: self.live.map(|(live, _)| live),
        };
        let panels = member.share(weights.panels());
        Project {
            call,
            weights,
            rows: 0..round.before(steps.end),
            panels: panels.clone(),
            round: round.clone(),
            p: self.cells.p,
            memory: self.cells.memory,
        }
        .run(simd);
        let acting = acting(round.at(steps.start), h, BARRIER_FROM).min(member.team);
        let has_mask = steps.start == 0 && call.inputs.sequence.recurrent_mask.is_some();
        if has_mask {
            self.mask_initial(units(panels, lanes, h));
        }
        if has_mask || acting < member.team {
            member.wait();
        }
        self.steps(simd, &round, steps, acting, member);
    }
}

impl<E: Lanes> Group<'_, E> {
    /// The steps of a round. The first `acting` members share the panels.
    #[inline(always)]
    fn steps<S: Simd>(
        &self,
        simd: S,
        round: &RoundRows<'_>,
        steps: Range<usize>,
        acting: usize,
        member: &mut Member<'_>,
    ) {
        let (weights, after) = (self.pass.weights, self.cells.after);
        let panels = member.share_of(acting, weights.panels());
        let candidates = member.share_of(acting, weights.candidates(after));
        let peers = member.peers(acting);
        for s in steps.clone() {
            let (step, rows) = (Step::new(self, round, s), round.at(s));
            // SAFETY: all previous states were written before the last barrier, and these panels belong to this thread.
            // `rg` and the gates of this step were written before the barrier in between.
            unsafe {
                match &weights.matrices {
                    Matrices::ByRows(matrices) => {
                        step.by_rows(simd, matrices, 0..rows, false, panels.clone());
                        if !after {
                            member.wait_for(&peers);
                            let count = weights.panels();
                            let panels = units(candidates.clone(), CANDIDATE_VECTORS, count);
                            step.by_rows(simd, matrices, 0..rows, true, panels);
                        }
                    }
                    Matrices::Packed(_) if after && rows == 1 => {
                        for first in panels.clone().step_by(PANELS_OF_A_ROW) {
                            let some = first..panels.end.min(first + PANELS_OF_A_ROW);
                            step.row_after(simd, some, &panels);
                        }
                    }
                    Matrices::Packed(_) => {
                        let all = tiles(0..rows, self.pass.machine.tile_rows);
                        let count = all.len();
                        for panel in panels.clone() {
                            let next = next(panel, &panels);
                            for (index, tile) in all.clone().enumerate() {
                                let part = Part {
                                    tile,
                                    panel,
                                    next,
                                    index,
                                    count,
                                };
                                if after {
                                    step.tile_after(simd, part)
                                } else {
                                    step.tile_before(simd, part)
                                }
                            }
                        }
                        if !after {
                            member.wait_for(&peers);
                            for panel in candidates.clone() {
                                for tile in all.clone() {
                                    step.tile_of_candidate(simd, tile, panel);
                                }
                            }
                        }
                    }
                }
            }
            if s + 1 < steps.end {
                member.wait_for(&peers);
            }
        }
    }

    /// `m ⊙ h₀` of some units, and with starts `m ⊙` the start state. No other thread reads or writes them
    /// before the next barrier.
    fn mask_initial(&self, units: Range<usize>) {
        let sequence = &self.pass.call.inputs.sequence;
        let h = self.cells.h;
        let Some(mask) = sequence.recurrent_mask else {
            return;
        };
        let start_state = sequence.starts.map(|_| (2, sequence.start_state));
        for (slot, state) in [Some((0, sequence.h0)), start_state].into_iter().flatten() {
            for (at, n) in self.rows.clone().enumerate() {
                let row = slot * self.rows.len() + at;
                // SAFETY: no other thread reads or writes these units before the next barrier.
                let g = unsafe { self.g.cells_mut(row, units.clone()) };
                for (g, unit) in g.iter_mut().zip(units.clone()) {
                    let state = state.map_or(E::zero(), |state| state[n * h + unit]);
                    *g = state * mask[n * h + unit];
                }
            }
        }
    }
}
