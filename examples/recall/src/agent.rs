//! Five agents. They differ only in the starts that their memory gets.

use burn::tensor::{Bool, Tensor};
use clap::ValueEnum;
use gru_op::starts_after;

/// What an agent's memory knows about the starts of episodes, when it acts and when it learns.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum Agent {
    /// Restarts before every step, so it has no memory
    Memoryless,
    /// Never restarts
    Never,
    /// Acts with the right starts, learns with starts a step late
    Late,
    /// Acts with the right starts, learns with starts a step early
    Early,
    /// Acts and learns with the right starts
    Restarts,
}

impl Agent {
    /// The starts `[N]` for a step of acting, from the right starts.
    pub fn acts(self, starts: Tensor<1, Bool>) -> Tensor<1, Bool> {
        match self {
            Self::Memoryless => starts.full_like(true),
            Self::Never => starts.full_like(false),
            Self::Late | Self::Early | Self::Restarts => starts,
        }
    }

    /// The starts `[N,T]` for learning from a window. `dones` marks the last step of each episode, and `first` the
    /// rows whose window begins with a new episode.
    pub fn learns(self, dones: Tensor<2, Bool>, first: Tensor<1, Bool>) -> Tensor<2, Bool> {
        match self {
            Self::Memoryless => dones.full_like(true),
            Self::Never => dones.full_like(false),
            // The state before the window is the state of acting, which had the right starts.
            Self::Late => {
                let none = first.full_like(false);
                starts_after(starts_after(dones, first), none)
            }
            Self::Early => dones,
            Self::Restarts => starts_after(dones, first),
        }
    }
}
