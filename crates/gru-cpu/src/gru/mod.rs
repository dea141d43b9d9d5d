//! The two passes: packed weights, register tiles, gates as the epilogue.
//!
//! A product per step would pack `w_hh` T times and send `q` through memory. Here `w_hh` is
//! packed once per call, into panels that hold the gates of the same hidden units side by side;
//! one tile of rows by units gathers its gates in registers and turns them into the new state
//! before anything is stored.
//!
//! Vector code begins where a round, or a part of it, is dispatched to an instruction set; all
//! around it is compiled once for each float type. No closure stands between a dispatch and vector
//! code: one that is not inlined is compiled without the vector instructions, and runs some twenty
//! times slower.

mod backward;
mod forward;
mod packed;
mod weights;

pub(crate) use self::{
    backward::backward,
    forward::forward,
    packed::{Packed, Streams},
};

use std::ops::Range;

/// The units of a panel, or of several, that are `width` units wide.
#[inline(always)]
fn units(panels: Range<usize>, width: usize, h: usize) -> Range<usize> {
    (panels.start * width).min(h)..(panels.end * width).min(h)
}

/// The panel that is read after `panel`, by whoever walks `panels` again and again.
#[inline(always)]
fn next(panel: usize, panels: &Range<usize>) -> usize {
    if panel + 1 < panels.end {
        panel + 1
    } else {
        panels.start
    }
}
