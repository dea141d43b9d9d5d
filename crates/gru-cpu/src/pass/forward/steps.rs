//! The steps of a round, for the panels of one thread.
//!
//! Between two barriers a thread reads what was written before the first one. It writes only the units of
//! its own panels: in the states and gates of this step, in `p` and `rg`, and in `g` of the next step.

use super::{
    super::{Part, next, project::RoundRows, tile::GateRows, units},
    Group,
    step::Step,
};
use crate::{
    simd::Lanes,
    threads::{Member, tiles},
    tuning::{CANDIDATE_VECTORS, PANELS_OF_A_ROW},
};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// The steps of a round, for the panels of one thread.
pub(super) struct Steps<'a, 'b, 'c, E> {
    pub(super) group: &'a Group<'b, E>,
    pub(super) round: &'a RoundRows<'b>,
    pub(super) steps: Range<usize>,
    /// The members that share the panels: the first ones.
    pub(super) acting: usize,
    pub(super) member: &'a mut Member<'c>,
}

impl<E: Lanes> WithSimd for Steps<'_, '_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.group.after && self.round.at(self.steps.start) == 1 {
            self.of_row(simd)
        } else {
            self.of_tiles(simd)
        }
    }
}

impl<E: Lanes> Steps<'_, '_, '_, E> {
    /// The steps of a single row, the reset gate acting after the product.
    #[inline(always)]
    fn of_row<S: Simd>(self, simd: S) {
        let Self {
            group,
            round,
            steps,
            acting,
            member,
        } = self;
        let panels = member.share_of(acting, group.pass.weights.panels());
        let peers = member.peers(acting);
        let own = units(panels.clone(), E::lanes::<S>(), group.pass.call.sizes.h);
        for s in steps.clone() {
            let step = Step::new(group, round, s);
            // SAFETY: all previous states were written before the last barrier, and these panels belong to
            // this thread.
            unsafe { step.multiply_in_place(simd, 1, false, &own) };
            for first in panels.clone().step_by(PANELS_OF_A_ROW) {
                let some = first..panels.end.min(first + PANELS_OF_A_ROW);
                // SAFETY: all previous states were written before the last barrier, and these panels
                // belong to this thread.
                unsafe { step.row_after(simd, some, &panels) };
            }
            if s + 1 < steps.end {
                member.wait_for(&peers);
            }
        }
    }

    /// The steps of any other group.
    #[inline(always)]
    fn of_tiles<S: Simd>(self, simd: S) {
        let Self {
            group,
            round,
            steps,
            acting,
            member,
        } = self;
        let panels = member.share_of(acting, group.pass.weights.panels());
        let peers = member.peers(acting);
        let candidates = member.share_of(acting, group.pass.weights.candidates(group.after));
        let (h, lanes) = (group.pass.call.sizes.h, E::lanes::<S>());
        let own = units(panels.clone(), lanes, h);
        let of_candidate = units(candidates.clone(), CANDIDATE_VECTORS * lanes, h);
        let (mut all, mut count) = (group.tiles.clone(), group.tiles.len());
        for s in steps.clone() {
            let step = Step::new(group, round, s);
            if let Some(live) = round.live {
                all = tiles(0..live.live(s), group.pass.machine.tile_rows);
                count = all.len();
            }
            // SAFETY: as below.
            unsafe { step.multiply_in_place(simd, round.at(s), false, &own) };
            for panel in panels.clone() {
                for (index, tile) in all.clone().enumerate() {
                    let part = Part {
                        tile,
                        panel,
                        next: next(panel, &panels),
                        index,
                        count,
                    };
                    // SAFETY: all previous states were written before the last barrier, and this panel
                    // belongs to this thread.
                    unsafe {
                        if group.after {
                            step.tile_after(simd, part)
                        } else {
                            step.tile_before(simd, part)
                        }
                    }
                }
            }
            if !group.after {
                member.wait_for(&peers);
                // SAFETY: as below.
                unsafe { step.multiply_in_place(simd, round.at(s), true, &of_candidate) };
                for panel in candidates.clone() {
                    for tile in all.clone() {
                        // SAFETY: `rg` and the gates of this step were written before the last barrier,
                        // and this panel of the candidate belongs to this thread.
                        unsafe { step.tile_of_candidate(simd, tile, panel) };
                    }
                }
            }
            if s + 1 < steps.end {
                member.wait_for(&peers);
            }
        }
    }
}
