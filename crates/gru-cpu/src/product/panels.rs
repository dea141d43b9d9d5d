//! Weights cut into panels: the columns that one tile multiplies, side by side for each k.

use super::Buffer;
use crate::{simd::Lanes, threads, tuning::PACK_TOGETHER_FROM};
use std::ops::Range;

/// A product's right side, as one tile reads it.
#[derive(Clone, Copy)]
pub(crate) struct Panel<E> {
    /// First vector of k = 0.
    pub(crate) at: *const E,
    /// Elements from one k to the next.
    pub(crate) per_k: usize,
    /// Where the vectors of a k stand, from its first on.
    pub(crate) vectors: [usize; MOST_VECTORS],
}

/// Most vectors of a panel.
pub(crate) const MOST_VECTORS: usize = 3;

impl<E> Panel<E> {
    /// The panel from row `k` on.
    #[inline(always)]
    pub(crate) fn skip(self, k: usize) -> Self {
        Self {
            at: self.at.wrapping_add(k * self.per_k),
            ..self
        }
    }
}

/// A matrix `[K, …]` in panels of some vectors of columns.
pub(crate) struct Panels<'a, E> {
    /// Row-major weights whose panels are read where they stand, and how many.
    direct: Option<(&'a [E], usize)>,
    packed: Buffer<E>,
    shape: Shape,
}

/// How columns of a row-major weight become panels.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Rows of the product's right side.
    pub(crate) k: usize,
    /// Elements of a vector.
    pub(crate) lanes: usize,
    /// Vectors of a panel.
    pub(crate) vectors: usize,
    /// Columns from one vector of a panel to the next.
    pub(crate) per_vector: usize,
    /// Whether the vectors of a panel are the same units of several gates, or several units.
    pub(crate) same_units: bool,
    /// Columns from one panel to the next.
    pub(crate) per_panel: usize,
    /// Units in all; the last panel is filled up with zeros.
    pub(crate) units: usize,
    /// First column.
    pub(crate) first: usize,
}

impl Shape {
    /// Panels of the same units in each of `gates`, counted r, z, n as 0, 1, 2.
    pub(crate) fn gates(k: usize, h: usize, lanes: usize, gates: Range<usize>) -> Self {
        Self {
            k,
            lanes,
            vectors: gates.len(),
            per_vector: h,
            same_units: true,
            per_panel: lanes,
            units: h,
            first: gates.start * h,
        }
    }

    /// Panels of `vectors·lanes` units that follow each other, from column `first` on.
    pub(crate) fn units(k: usize, h: usize, lanes: usize, vectors: usize, first: usize) -> Self {
        Self {
            k,
            lanes,
            vectors,
            per_vector: lanes,
            same_units: false,
            per_panel: vectors * lanes,
            units: h,
            first,
        }
    }

    pub(crate) fn panels(&self) -> usize {
        self.units.div_ceil(self.per_panel)
    }

    fn width(&self) -> usize {
        self.vectors * self.lanes
    }

    /// First column and number of columns of a vector; the rest of it is zero.
    fn columns(&self, panel: usize, vector: usize) -> (usize, usize) {
        let within = match self.same_units {
            true => panel * self.per_panel,
            false => panel * self.per_panel + vector * self.lanes,
        };
        let count = self.units.saturating_sub(within).min(self.lanes);
        (
            self.first + panel * self.per_panel + vector * self.per_vector,
            count,
        )
    }
}

impl<'a, E: Lanes> Panels<'a, E> {
    /// Packs a row-major matrix whose rows are `stride` long; with `read_in_place` only the panels
    /// that stick out of it.
    pub(crate) fn new(w: &'a [E], stride: usize, shape: Shape, read_in_place: bool) -> Self {
        // Without rows there is nothing to stand in.
        let whole = match read_in_place && shape.k > 0 {
            true => shape.units / shape.per_panel,
            false => 0,
        };
        let from = |panel: usize, vector: usize, k: usize, to: &mut [E]| {
            let (column, count) = shape.columns(panel, vector);
            if count > 0 {
                to[..count].copy_from_slice(&w[k * stride + column..][..count]);
            }
        };
        Self {
            direct: (whole > 0).then_some((w, stride)),
            packed: pack(&shape, whole, |panel, to| {
                for (k, to) in to.chunks_exact_mut(shape.width()).enumerate() {
                    for (vector, to) in to.chunks_exact_mut(shape.lanes).enumerate() {
                        from(panel, vector, k, to);
                    }
                }
            }),
            shape,
        }
    }

    /// Packs the transpose of columns `columns` of a row-major `[units, stride]`: k walks along
    /// the columns.
    pub(crate) fn transposed(w: &[E], stride: usize, first: usize, shape: Shape) -> Self {
        let width = shape.width();
        Self {
            direct: None,
            packed: pack(&shape, 0, |panel, to| {
                let units = panel * width..((panel + 1) * width).min(shape.units);
                // A block of columns at a time: every line of `w` is read once, every line of the
                // panel is written while it is at hand.
                for block in (0..shape.k).step_by(16) {
                    let columns = block..(block + 16).min(shape.k);
                    for (at, unit) in units.clone().enumerate() {
                        let from = &w[unit * stride + first..][columns.clone()];
                        let to = to[columns.start * width + at..].iter_mut().step_by(width);
                        to.zip(from).for_each(|(to, &from)| *to = from);
                    }
                }
            }),
            shape,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.shape.panels()
    }

    /// The panel `p`, of all k rows.
    #[inline(always)]
    pub(crate) fn panel(&self, p: usize) -> Panel<E> {
        let Shape { k, lanes, .. } = self.shape;
        let whole = match self.direct {
            Some((w, stride)) => {
                let whole = self.shape.units / self.shape.per_panel;
                if p < whole {
                    return Panel {
                        at: w[self.shape.first + p * self.shape.per_panel..].as_ptr(),
                        per_k: stride,
                        vectors: std::array::from_fn(|v| v * self.shape.per_vector),
                    };
                }
                whole
            }
            None => 0,
        };
        Panel {
            at: self.packed.as_ref()[(p - whole) * k * self.shape.width()..].as_ptr(),
            per_k: self.shape.width(),
            vectors: std::array::from_fn(|v| v * lanes),
        }
    }
}

fn pack<E: Lanes>(shape: &Shape, from: usize, each: impl Fn(usize, &mut [E]) + Sync) -> Buffer<E> {
    let size = shape.k * shape.width();
    let mut packed = Buffer::new((shape.panels() - from) * size);
    if size == 0 {
        return packed;
    }
    let mut panels = packed.as_mut().chunks_exact_mut(size).enumerate();
    let total = (shape.panels() - from) * size;
    if total < PACK_TOGETHER_FROM || threads::allowed() == 1 {
        panels.for_each(|(p, panel)| each(from + p, panel));
    } else {
        rayon::in_place_scope(|scope| {
            let each = &each;
            let own = panels.next();
            panels.for_each(|(p, panel)| scope.spawn(move |_| each(from + p, panel)));
            if let Some((p, panel)) = own {
                each(from + p, panel);
            }
        });
    }
    packed
}
