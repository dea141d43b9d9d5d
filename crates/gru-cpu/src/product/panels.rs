//! Weights in panels: for each k, a panel stores the columns that one tile multiplies.

use super::{Buffer, prefetch};
use crate::{
    simd::Lanes,
    threads,
    tuning::{PACK_AHEAD, PACK_IN_PARALLEL_FROM, PANELS_AT_A_TIME},
};
use alloc::vec::Vec;
use core::ops::Range;

/// A product's right side, as one tile reads it.
#[derive(Clone, Copy)]
pub(crate) struct Panel<E> {
    /// First vector of k = 0.
    pub(crate) at: *const E,
    /// Elements from one k to the next.
    pub(crate) per_k: usize,
    /// Elements from the first vector of a k to each of its vectors.
    pub(crate) offsets: [usize; MOST_VECTORS],
    /// The number of vectors.
    pub(crate) count: usize,
}

/// The largest number of vectors of a panel.
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
pub(crate) struct Panels<E> {
    /// Elements from one row of the matrix to the next.
    stride: usize,
    /// Whether k runs along the rows of the matrix.
    is_transposed: bool,
    shape: PanelShape,
    /// The panels, after they are [packed](pack).
    packed: Buffer<E>,
}

/// How columns of a row-major weight become panels.
#[derive(Clone, Copy)]
pub(crate) struct PanelShape {
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
    /// Units in all. The last panel is padded with zeros.
    pub(crate) units: usize,
    /// First column.
    pub(crate) first: usize,
}

impl PanelShape {
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

    /// The number of vectors of a panel that hold units.
    #[inline(always)]
    fn vectors_of(&self, panel: usize) -> usize {
        if self.same_units {
            self.vectors
        } else {
            let vectors = self.units.div_ceil(self.lanes) - panel * self.vectors;
            vectors.min(self.vectors)
        }
    }

    /// Elements of a packed panel.
    fn size(&self) -> usize {
        self.k * self.width()
    }

    /// The first column of a vector and its number of columns. The rest of the vector is zero.
    fn columns(&self, panel: usize, vector: usize) -> (usize, usize) {
        let within = if self.same_units {
            panel * self.per_panel
        } else {
            panel * self.per_panel + vector * self.lanes
        };
        let count = self.units.saturating_sub(within).min(self.lanes);
        (
            self.first + panel * self.per_panel + vector * self.per_vector,
            count,
        )
    }
}

impl<E: Lanes> Panels<E> {
    /// Panels of a row-major matrix whose rows are `stride` long.
    pub(crate) fn new(stride: usize, shape: PanelShape) -> Self {
        Self::of(stride, false, shape)
    }

    /// Panels of the transpose of a row-major `[units, stride]`. k runs along its rows, from column `shape.first`
    /// to the last column and then from the first.
    pub(crate) fn transposed(stride: usize, shape: PanelShape) -> Self {
        Self::of(stride, true, shape)
    }

    fn of(stride: usize, is_transposed: bool, shape: PanelShape) -> Self {
        Self {
            stride,
            is_transposed,
            packed: Buffer::new(shape.panels() * shape.size()),
            shape,
        }
    }

    /// Rows of the product's right side.
    pub(crate) fn k(&self) -> usize {
        self.shape.k
    }

    /// Bytes of the packed panels.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.packed.as_ref())
    }

    /// Panel `p`, from k = 0 on.
    #[inline(always)]
    pub(crate) fn panel(&self, p: usize) -> Panel<E> {
        Panel {
            at: self.packed.as_ref()[p * self.shape.size()..].as_ptr(),
            per_k: self.shape.width(),
            offsets: multiples(self.shape.lanes),
            count: self.shape.vectors_of(p),
        }
    }

    /// All panels.
    #[inline(always)]
    pub(crate) fn packed(&self) -> &[E] {
        self.packed.as_ref()
    }

    /// The panels that must be packed from a matrix, in groups that are packed at the same time.
    pub(crate) fn unpacked<'a>(
        &'a mut self,
        elements: &'a [E],
    ) -> impl Iterator<Item = Unpacked<'a, E>> {
        let (stride, is_transposed, shape) = (self.stride, self.is_transposed, self.shape);
        let at_a_time = if is_transposed { 1 } else { PANELS_AT_A_TIME };
        // Without rows there is nothing to pack.
        let size = (at_a_time * shape.size()).max(1);
        let panels = self.packed.as_mut().chunks_mut(size).enumerate();
        panels.map(move |(at, to)| Unpacked {
            elements,
            stride,
            is_transposed,
            shape,
            first: at * at_a_time,
            to,
        })
    }
}

#[inline(always)]
fn multiples(distance: usize) -> [usize; MOST_VECTORS] {
    let mut multiples = [0; MOST_VECTORS];
    for (k, multiple) in multiples.iter_mut().enumerate() {
        *multiple = k * distance;
    }
    multiples
}

/// Panels that must be packed.
pub(crate) struct Unpacked<'a, E> {
    elements: &'a [E],
    stride: usize,
    is_transposed: bool,
    shape: PanelShape,
    /// The first of these panels.
    first: usize,
    /// Zeros, to be overwritten.
    to: &'a mut [E],
}

impl<E: Lanes> Unpacked<'_, E> {
    fn pack(self) {
        if self.is_transposed {
            self.pack_transposed()
        } else {
            self.pack_rows()
        }
    }

    /// Row by row of the weight, so that adjacent columns are read together.
    fn pack_rows(self) {
        match self.shape.lanes {
            16 => self.pack_rows_of::<16>(),
            8 => self.pack_rows_of::<8>(),
            4 => self.pack_rows_of::<4>(),
            _ => self.pack_rows_of::<1>(),
        }
    }

    /// The same for vectors of `LANES` elements. 1 means any number.
    fn pack_rows_of<const LANES: usize>(self) {
        let Self {
            elements, stride, ..
        } = self;
        let PanelShape { k, lanes, .. } = self.shape;
        let (size, width) = (self.shape.size(), self.shape.width());
        for k in 0..k {
            let ahead = elements.as_ptr().wrapping_add((k + PACK_AHEAD) * stride);
            for (at, to) in self.to.chunks_exact_mut(size).enumerate() {
                let to = to[k * width..][..width].chunks_exact_mut(lanes);
                for (vector, to) in to.enumerate() {
                    let (column, count) = self.shape.columns(self.first + at, vector);
                    if count == 0 {
                        break;
                    }
                    prefetch::to_read(ahead.wrapping_add(column));
                    let from = &elements[k * stride..][column..][..count];
                    match (to.first_chunk_mut::<LANES>(), from.first_chunk::<LANES>()) {
                        (Some(to), Some(from)) if LANES == lanes => *to = *from,
                        _ => to[..count].copy_from_slice(from),
                    }
                }
            }
        }
    }

    fn pack_transposed(self) {
        /// Columns at a time: each cache line of the weight is read once, and each line of the panel is written
        /// while it is in the cache.
        const COLUMNS: usize = 16;
        let Self {
            elements, stride, ..
        } = self;
        let PanelShape {
            k, units, first, ..
        } = self.shape;
        let width = self.shape.width();
        let units = self.first * width..((self.first + 1) * width).min(units);
        let before_wrap = k.min(stride - first);
        let parts = [(0..before_wrap, first), (before_wrap..k, 0)];
        for (part, first) in parts {
            for start in part.clone().step_by(COLUMNS) {
                let columns = first + start - part.start..;
                let count = COLUMNS.min(part.end - start);
                for (at, unit) in units.clone().enumerate() {
                    let from = &elements[unit * stride..][columns.clone()][..count];
                    let to = self.to[start * width + at..].iter_mut().step_by(width);
                    to.zip(from).for_each(|(to, &from)| *to = from);
                }
            }
        }
    }
}

/// Packs all of them, with all threads that a call may use if there is enough work.
pub(crate) fn pack<'a, E: Lanes>(panels: impl Iterator<Item = Unpacked<'a, E>>) {
    let panels: Vec<_> = panels.collect();
    let elements: usize = panels.iter().map(|panel| panel.to.len()).sum();
    let threads = if elements < PACK_IN_PARALLEL_FROM {
        1
    } else {
        threads::available().min(panels.len())
    };
    threads::for_each(threads, panels.into_iter(), Unpacked::pack);
}
