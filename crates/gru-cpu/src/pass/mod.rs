//! The two passes: packed weights, register tiles, and the gates computed while their products are in
//! registers. Calls of few rows read their weights in place instead.
//!
//! A matrix library would pack `w_hh` in each of T steps and write `q` to memory. Here `w_hh` is packed
//! once per call, into panels that hold all gates of the same hidden units. One tile of rows by units sums
//! its gates in registers and turns them into the new state before it stores anything.
//!
//! Vector code begins where a round, or a part of it, is dispatched to an instruction set. All other code
//! is compiled once for each float type. There is no closure between a dispatch and vector code: a closure
//! that is not inlined is compiled without the vector instructions, and runs about twenty times slower.

mod backward;
mod by_rows;
mod chain;
mod forward;
mod gate_rows;
mod gates_by_rows;
mod matrices;
mod plain_row;
mod prepared;
mod project;
mod quantized_step;
mod tile;
mod weights;

pub(crate) use self::{
    backward::{Targets, backward},
    forward::forward,
    prepared::{PreparedLayer, StepMemory},
};

use crate::{
    product::{Lines, ROWS},
    simd::Machine,
    threads::{Member, Rounds, Tile},
};
use core::ops::Range;
use pulp::{Simd, WithSimd};

/// [`Rounds`] in vector code.
trait VectorRounds: Sync {
    fn machine(&self) -> &Machine;

    /// Does the share of `member` in a round.
    fn vector_round<S: Simd>(&self, simd: S, round: usize, member: &mut Member<'_>);
}

struct Round<'a, 'b, W>(&'a W, usize, &'a mut Member<'b>);

impl<W: VectorRounds> WithSimd for Round<'_, '_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(work, round, member) = self;
        work.vector_round(simd, round, member);
    }
}

impl<W: VectorRounds> Rounds for W {
    fn round(&self, round: usize, member: &mut Member<'_>) {
        self.machine().arch.dispatch(Round(self, round, member));
    }
}

/// One tile of a panel, and its place in the loop over panels and tiles.
#[derive(Clone, Copy)]
struct Part {
    tile: Tile,
    panel: usize,
    /// The panel that is read after this one.
    next: usize,
    /// Which tile of the panel this is, and how many there are.
    index: usize,
    count: usize,
}

/// The cache lines that a tile writes: the state and four gates of each row.
type WriteLines<E> = Lines<E, { 5 * ROWS }>;

/// The hidden units of some panels, which are `width` units wide.
#[inline(always)]
fn units(panels: Range<usize>, width: usize, h: usize) -> Range<usize> {
    (panels.start * width).min(h)..(panels.end * width).min(h)
}

/// The panel that is read after `panel` by a loop over `panels` that starts again at the end.
#[inline(always)]
fn next(panel: usize, panels: &Range<usize>) -> usize {
    if panel + 1 < panels.end {
        panel + 1
    } else {
        panels.start
    }
}
