//! The order of a sequence in memory and in time.

use std::ops::Range;

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
    /// N and T of the first two dimensions of a sequence; or those of N and T: it is its own inverse.
    pub fn split<V>(self, [first, second]: [V; 2]) -> [V; 2] {
        match self {
            Self::BatchMajor => [first, second],
            Self::TimeMajor => [second, first],
        }
    }

    /// Which dimension of a sequence is time.
    pub fn time_dim(self) -> usize {
        let [_, time] = self.split([0, 1]);
        time
    }
}

/// The direction in which time is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Direction {
    /// From the first step to the last.
    #[default]
    Forward,
    /// From the last step to the first; output `t` still belongs to input `t`, and the final
    /// state is the one after step 0.
    Reverse,
}

impl Direction {
    /// The time index of the `s`-th of T steps walked; or which step walks time index `s`: it is its
    /// own inverse.
    pub fn time(self, s: usize, t: usize) -> usize {
        match self {
            Self::Forward => s,
            Self::Reverse => t - 1 - s,
        }
    }

    /// The time indices of the `steps` walked of T, from the lowest to the highest.
    pub fn times(self, steps: Range<usize>, t: usize) -> Range<usize> {
        match self {
            Self::Forward => steps,
            Self::Reverse => t - steps.end..t - steps.start,
        }
    }
}
