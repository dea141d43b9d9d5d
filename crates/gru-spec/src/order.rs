//! The order of a sequence in memory and in time.

use core::ops::Range;

/// The order of the first two dimensions of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Layout {
    /// `[N, T, ·]`, Burn's own order.
    #[default]
    BatchMajor,
    /// `[T, N, ·]`, PyTorch's default.
    TimeMajor,
}

impl Layout {
    /// Converts the first two dimensions of a sequence to N and T. The function is its own inverse, so
    /// it also converts N and T to the dimensions.
    pub fn split<V>(self, [first, second]: [V; 2]) -> [V; 2] {
        match self {
            Self::BatchMajor => [first, second],
            Self::TimeMajor => [second, first],
        }
    }

    /// The index of the time dimension.
    pub fn time_dim(self) -> usize {
        let [_, time] = self.split([0, 1]);
        time
    }
}

/// The order of a sequence in memory, and the direction in which time is iterated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Order {
    /// Order of the first two dimensions.
    pub layout: Layout,
    /// Direction of time.
    pub direction: Direction,
}

/// The direction in which time is iterated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Direction {
    /// From the first step to the last.
    #[default]
    Forward,
    /// From the last step to the first. Output `t` still belongs to input `t`, and the final state is
    /// the state after step 0.
    Reverse,
}

impl Direction {
    /// The time index of step `s` of T steps. The function is its own inverse, so it also returns the
    /// step of time index `s`.
    ///
    /// # Panics
    /// In reverse, if `s` is not below `t`.
    pub fn time(self, s: usize, t: usize) -> usize {
        match self {
            Self::Forward => s,
            Self::Reverse => t - 1 - s,
        }
    }

    /// The time index whose start belongs to step `s` of T steps: a start is the boundary before its time. The
    /// first step in reverse has no boundary before it.
    #[doc(hidden)]
    pub fn boundary(self, s: usize, t: usize) -> Option<usize> {
        match self {
            Self::Forward => Some(s),
            Self::Reverse if s == 0 => None,
            Self::Reverse => Some(t - s),
        }
    }

    /// The time indices of some of T steps, from the lowest to the highest.
    #[doc(hidden)]
    pub fn times(self, steps: Range<usize>, t: usize) -> Range<usize> {
        match self {
            Self::Forward => steps,
            Self::Reverse => t - steps.end..t - steps.start,
        }
    }
}
