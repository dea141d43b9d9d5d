//! One step: products, gates, new states.

use super::{
    super::{
        Part, WriteLines,
        gate_rows::{GateCells, GateRows},
        next,
        plain_row::{PlainStates, blend},
        project::RoundRows,
        tile::GateTiles,
        weights::Matrices,
    },
    Group, Pass,
};
use crate::{
    product::{Prefetch, Strided, Sums},
    simd::{Lanes, clip},
    threads::Tile,
    tuning::{PANELS_OF_A_ROW, PREFETCH_FROM},
};
use core::ops::Range;
use pulp::Simd;

/// One step of a group. Its rows are counted from the group's first.
pub(super) struct Step<'a, 'b, E> {
    group: &'a Group<'b, E>,
    /// The step, counted from the first of the sequence.
    s: usize,
    /// The row of the round for the group's first row.
    first_row: usize,
    /// The previous state, and the same with the mask.
    previous: Strided<'b, E>,
    source: Strided<'b, E>,
    /// The same pair for a row that starts here, if the call has starts.
    start: Option<[Strided<'b, E>; 2]>,
    /// What this step writes: the state, the same with the mask for the next step, and the gates.
    states: Strided<'b, E>,
    next_source: Option<Strided<'b, E>>,
    saved: Option<Strided<'b, E>>,
}

impl<'a, 'b, E: Lanes> Step<'a, 'b, E> {
    #[inline(always)]
    pub(super) fn new(group: &'a Group<'b, E>, round: &RoundRows<'_>, s: usize) -> Self {
        let Pass { call, states, .. } = group.pass;
        let (n, count, h) = (group.rows.start, group.rows.len(), call.sizes.h);
        let at_step = |rows, s| call.at_step(rows, group.rows.clone(), s);
        let previous = match (s, call.inputs.sequence.h0) {
            (0, Some(h0)) => Strided::reading(&h0[n * h..][..count * h], h, count),
            // Zeros are multiplied like any other state, so that a weight that is not finite shows at
            // the first step.
            (0, None) => Strided::reading(group.pass.zeros, h, count),
            _ => at_step(states, s - 1),
        };
        let sequence = &call.inputs.sequence;
        let masked_slot = |slot| {
            let mask = sequence.recurrent_mask;
            mask.map(|_| Strided::of(&group.g, slot * count, 1, count))
        };
        let masked = |s| masked_slot(s % 2);
        let start = sequence.starts.map(|_| {
            let state = match sequence.start_state {
                Some(state) => Strided::reading(&state[n * h..][..count * h], h, count),
                None => Strided::reading(group.pass.zeros, h, count),
            };
            [state, masked_slot(2).unwrap_or(state)]
        });
        Self {
            group,
            s,
            first_row: round.before(s),
            previous,
            source: masked(s).unwrap_or(previous),
            start,
            states: at_step(states, s),
            next_source: masked(s + 1),
            saved: group.pass.saved.as_ref().map(|saved| at_step(saved, s)),
        }
    }

    /// Whether a row starts here.
    #[inline(always)]
    fn starts(&self, row: usize) -> bool {
        let n = self.group.rows.start + row;
        self.group.pass.call.starts(n, self.s)
    }

    /// The previous state of a row.
    #[inline(always)]
    fn previous(&self, row: usize) -> &Strided<'b, E> {
        match &self.start {
            Some([start, _]) if self.starts(row) => start,
            _ => &self.previous,
        }
    }

    /// Some panels of the only row. All products come before the gates: a gate is a chain of dependent
    /// operations, and the processor overlaps the chains of several panels.
    ///
    /// On WebAssembly this is a separate function: V8 compiles one as large as a round with a simpler register allocator,
    /// which spills everything in each iteration.
    ///
    /// # Safety
    /// As for [`GateTiles::tile_after`].
    #[cfg_attr(target_family = "wasm", inline(never))]
    #[cfg_attr(not(target_family = "wasm"), inline(always))]
    pub(super) unsafe fn row_after<S: Simd>(
        &self,
        simd: S,
        some: Range<usize>,
        all: &Range<usize>,
    ) {
        let tile = Tile { first: 0, rows: 1 };
        // Not a constant: the compiler would set all of its bytes to zero.
        let mut sums: [_; PANELS_OF_A_ROW] = core::array::from_fn(|_| Sums::<E, S>::new());
        // SAFETY: the caller keeps the same promises.
        unsafe {
            for (panel, sums) in some.clone().zip(&mut sums) {
                let part = Part {
                    tile,
                    panel,
                    next: next(panel, all),
                    index: 0,
                    count: 1,
                };
                self.sums_after(simd, sums, part);
            }
            for (panel, sums) in some.zip(&sums) {
                self.gates_after(simd, sums, tile, panel);
            }
        }
    }

    /// A new state with the options that are not plain: the state clip, zoneout and the step mask. At a skipped step it is
    /// the previous state, bit by bit.
    #[inline(always)]
    fn with_options<S: Simd>(
        &self,
        simd: S,
        mut new: E::V<S>,
        old: E::V<S>,
        row: usize,
        units: &Range<usize>,
    ) -> E::V<S> {
        let call = &self.group.pass.call;
        let place = call.row(self.group.rows.start + row, self.s);
        if let Some(c) = call.spec.clip_state {
            new = clip::<E, S>(simd, new, c);
        }
        if let Some(zoneout) = call.inputs.sequence.zoneout {
            let kept = E::read(simd, &zoneout[place * call.sizes.h..][units.clone()]);
            let taken = E::vsub(simd, E::real(simd, 1.0), kept);
            new = E::vfma(simd, new, taken, E::vmul(simd, old, kept));
        }
        if call.is_skipped(place) {
            old
        } else {
            E::without_subnormals(simd, new)
        }
    }
}

// SAFETY: `g` and `rg` are rows of H elements, which `Strided` and `Rows` checked.
unsafe impl<E: Lanes> GateRows<E> for Step<'_, '_, E> {
    #[inline(always)]
    fn cells(&self) -> &GateCells<'_, E> {
        &self.group.cells
    }

    #[inline(always)]
    fn first_row(&self) -> usize {
        self.first_row
    }

    #[inline(always)]
    fn saved(&self) -> Option<&Strided<'_, E>> {
        self.saved.as_ref()
    }

    #[inline(always)]
    fn g(&self, row: usize) -> *const E {
        match &self.start {
            Some([_, source]) if self.starts(row) => source.at(row),
            _ => self.source.at(row),
        }
    }

    /// The weights of the next panel, and the lines that the tile writes: without the prefetch each store
    /// waits for its line.
    #[inline(always)]
    fn prefetch<'l>(
        &self,
        part: Part,
        vectors: usize,
        lines: &'l mut WriteLines<E>,
    ) -> Prefetch<'l, E> {
        // WebAssembly has no prefetch, but V8 computes the addresses.
        if cfg!(target_family = "wasm") {
            return Prefetch::NOTHING;
        }
        let (h, lanes) = (self.cells().h, self.group.pass.machine.lanes);
        if let Some(saved) = self.saved
            && part.tile.rows >= PREFETCH_FROM
        {
            let unit = (part.panel + 1) * lanes - 1;
            for row in part.tile.range() {
                lines.push(self.states.at(row).wrapping_add(unit));
                for gate in 0..self.group.pass.call.spec.saved_per_unit() {
                    lines.push(saved.at(row).wrapping_add(gate * h + unit));
                }
            }
        }
        match &self.cells().weights.matrices {
            Matrices::Packed(packed) => {
                let panel = packed.state.panel(part.next);
                Prefetch::next(panel, h * vectors * lanes, (part.index, part.count))
                    .with_near(lines)
            }
            Matrices::ByRows(_) => Prefetch::NOTHING,
        }
    }

    #[inline(always)]
    fn plain_states(&self, row: usize) -> Option<PlainStates<E>> {
        let (group, update) = (self.group, self.group.pass.call.spec.update);
        let is_plain = group.is_plain && self.next_source.is_none() && self.saved.is_none();
        (is_plain && group.cells.after).then(|| PlainStates {
            old: self.previous(row).at(row).cast_const(),
            new: self.states.at(row),
            update,
        })
    }

    #[inline(always)]
    unsafe fn new_state<S: Simd>(
        &self,
        simd: S,
        z: [E::V<S>; 2],
        n: E::V<S>,
        row: usize,
        units: &Range<usize>,
    ) {
        let call = &self.group.pass.call;
        // SAFETY: the previous state is complete, and no thread writes it again.
        let old = E::read(simd, unsafe { self.previous(row).cells(row, units) });
        let new = blend::<E, S>(simd, call.spec.update, z, old, n);
        let new = if self.group.is_plain {
            E::without_subnormals(simd, new)
        } else {
            self.with_options(simd, new, old, row, units)
        };
        // SAFETY: these units of this step's state belong to this thread until the next barrier.
        E::write(simd, unsafe { self.states.cells_mut(row, units) }, new);
        if let (Some(g), Some(mask)) = (self.next_source, call.inputs.sequence.recurrent_mask) {
            let n = self.group.rows.start + row;
            let mask = E::read(simd, &mask[n * call.sizes.h..][units.clone()]);
            // SAFETY: the same units of the next step's `g` belong to this thread too.
            let g = unsafe { g.cells_mut(row, units) };
            E::write(simd, g, E::vmul(simd, new, mask));
        }
    }
}
