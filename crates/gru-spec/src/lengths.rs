//! Rows of different lengths.

use crate::{
    order::{Layout, Order},
    sizes::Sizes,
    tensors::{Inputs, Sequence, Shape},
};
use alloc::sync::Arc;
use core::{error, fmt};

/// The lengths of the rows of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Lengths {
    /// Every row has T steps.
    #[default]
    All,
    /// Row `n` has `lengths[n]` of T steps. The steps after them are padding.
    Padded(Arc<[usize]>),
    /// Row `n` has `lengths[n]` steps. The rows follow each other without padding: M = Σ lengths, and
    /// every sequence is `[1,M,·]`, or `[M,1,·]` with [`Layout::TimeMajor`].
    Packed(Arc<[usize]>),
}

/// Why lengths do not fit the sizes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LengthsError {
    /// There is not one length for each row.
    Count {
        /// N.
        expected: usize,
        /// The number of lengths.
        actual: usize,
    },
    /// A length is larger than T.
    TooLong {
        /// The row.
        row: usize,
        /// T.
        steps: usize,
        /// Its length.
        actual: usize,
    },
}

impl fmt::Display for LengthsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { expected, actual } => {
                write!(f, "lengths [N] must be [{expected}], got [{actual}]")
            }
            Self::TooLong { row, steps, actual } => write!(
                f,
                "lengths[{row}] must be at most T, expected 0 to {steps}, got {actual}"
            ),
        }
    }
}

impl error::Error for LengthsError {}

impl Lengths {
    /// The length of each row, unless every row has T steps.
    pub fn of_rows(&self) -> Option<&[usize]> {
        match self {
            Self::All => None,
            Self::Padded(lengths) | Self::Packed(lengths) => Some(lengths),
        }
    }

    /// Checks that there is a length for each row, and that none is larger than T.
    ///
    /// # Errors
    /// The first problem.
    pub fn try_check(&self, sizes: &Sizes) -> Result<(), LengthsError> {
        let Some(lengths) = self.of_rows() else {
            return Ok(());
        };
        let (expected, actual) = (sizes.n, lengths.len());
        if actual != expected {
            return Err(LengthsError::Count { expected, actual });
        }
        match lengths.iter().position(|&length| length > sizes.t) {
            Some(row) => Err(LengthsError::TooLong {
                row,
                steps: sizes.t,
                actual: lengths[row],
            }),
            None => Ok(()),
        }
    }

    /// N and T of sequences with these first two dimensions in memory. T of packed rows is the largest length.
    #[doc(hidden)]
    pub fn batch(&self, layout: Layout, in_memory: [usize; 2]) -> [usize; 2] {
        match self {
            Self::All | Self::Padded(_) => layout.split(in_memory),
            Self::Packed(lengths) => {
                let longest = lengths.iter().max();
                [lengths.len(), longest.copied().unwrap_or(0)]
            }
        }
    }

    /// The sizes of every sequence in memory: `[1,M,·]` if the rows are packed.
    #[doc(hidden)]
    pub fn in_memory(&self, sizes: Sizes) -> Sizes {
        match self {
            Self::All | Self::Padded(_) => sizes,
            Self::Packed(lengths) => Sizes {
                n: 1,
                t: lengths.iter().fold(0, |sum, &len| sum.saturating_add(len)),
                ..sizes
            },
        }
    }

    /// For each row, the place of its last computed step among the steps in memory. `None` for a row without steps.
    #[doc(hidden)]
    pub fn last_places(&self, sizes: Sizes, order: Order) -> impl Iterator<Item = Option<usize>> {
        let Sizes { n, t, .. } = sizes;
        let mut begin = 0;
        (0..n).map(move |row| {
            let len = self.of_rows().map_or(t, |of_rows| of_rows[row]);
            let time = order.direction.time(len.checked_sub(1)?, len);
            let first = begin;
            begin += len;
            Some(match (self, order.layout) {
                (Self::Packed(_), _) => first + time,
                (_, Layout::BatchMajor) => row * t + time,
                (_, Layout::TimeMajor) => time * n + row,
            })
        })
    }

    /// [`Sizes::shapes`] for rows of these lengths.
    #[doc(hidden)]
    pub fn shapes(&self, sizes: Sizes, layout: Layout) -> Inputs<Shape> {
        let rows = sizes.shapes(layout);
        let places = self.in_memory(sizes).shapes(layout).sequence;
        Inputs {
            sequence: Sequence {
                x: places.x,
                step_mask: places.step_mask,
                zoneout: places.zoneout,
                starts: places.starts,
                ..rows.sequence
            },
            ..rows
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        n: 3,
        t: 5,
        i: 2,
        h: 4,
    };

    #[test]
    fn a_length_for_each_row_and_none_above_t() {
        for of in [Lengths::Padded, Lengths::Packed] {
            assert_eq!(of([5, 0, 2].into()).try_check(&SIZES), Ok(()));
            let error = of([5, 0].into()).try_check(&SIZES).unwrap_err();
            assert_eq!(error.to_string(), "lengths [N] must be [3], got [2]");
            let error = of([5, 0, 6].into()).try_check(&SIZES).unwrap_err();
            let expected = "lengths[2] must be at most T, expected 0 to 5, got 6";
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(Lengths::All.try_check(&SIZES), Ok(()));
    }

    #[test]
    fn the_last_step_of_a_row_depends_on_lengths_and_order() {
        use crate::order::Direction::{Forward, Reverse};
        let (padded, packed) = (
            Lengths::Padded([5, 0, 2].into()),
            Lengths::Packed([5, 0, 2].into()),
        );
        for (lengths, layout, direction, expected) in [
            (
                &Lengths::All,
                Layout::BatchMajor,
                Forward,
                [Some(4), Some(9), Some(14)],
            ),
            (
                &Lengths::All,
                Layout::TimeMajor,
                Reverse,
                [Some(0), Some(1), Some(2)],
            ),
            (
                &padded,
                Layout::BatchMajor,
                Forward,
                [Some(4), None, Some(11)],
            ),
            (
                &padded,
                Layout::TimeMajor,
                Forward,
                [Some(12), None, Some(5)],
            ),
            (
                &packed,
                Layout::BatchMajor,
                Forward,
                [Some(4), None, Some(6)],
            ),
            (
                &packed,
                Layout::TimeMajor,
                Reverse,
                [Some(0), None, Some(5)],
            ),
        ] {
            let places = lengths.last_places(SIZES, Order { layout, direction });
            assert_eq!(
                places.collect::<Vec<_>>(),
                expected,
                "{lengths:?} {layout:?}"
            );
        }
    }

    #[test]
    fn packed_rows_have_no_padding_in_memory() {
        let packed = Lengths::Packed([5, 0, 2].into());
        let shapes = packed.shapes(SIZES, Layout::BatchMajor);
        assert_eq!(*shapes.sequence.x, [1, 7, 2]);
        assert_eq!(*shapes.sequence.zoneout.unwrap(), [1, 7, 4]);
        assert_eq!(*shapes.sequence.starts.unwrap(), [1, 7]);
        assert_eq!(*shapes.sequence.step_mask.unwrap(), [1, 7]);
        assert_eq!(*shapes.sequence.h0.unwrap(), [3, 4]);
        assert_eq!(*shapes.sequence.start_state.unwrap(), [3, 4]);
        let padded = Lengths::Padded([5, 0, 2].into());
        let shapes = padded.shapes(SIZES, Layout::TimeMajor);
        assert_eq!(*shapes.sequence.x, [5, 3, 2]);
        let huge = Lengths::Packed([usize::MAX, 2].into());
        assert_eq!(huge.in_memory(SIZES).t, usize::MAX);
        assert_eq!(packed.batch(Layout::BatchMajor, [1, 7]), [3, 5]);
        assert_eq!(padded.batch(Layout::TimeMajor, [5, 3]), [3, 5]);
    }
}
