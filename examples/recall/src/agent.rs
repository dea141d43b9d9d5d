//! Five agents. They differ only in the starts that their memory gets.

use burn::tensor::{Bool, Tensor};
use clap::ValueEnum;
use gru_op::starts_after;

use crate::env::SYMBOLS;

/// The share of right answers of any agent without memory: the shown symbol is independent of the first.
pub const MEMORYLESS: f64 = 1.0 / SYMBOLS as f64;
/// The largest share of an agent that does not know where episodes start, computed by a Bayes filter.
pub const NEVER_RESTARTED: f64 = 0.317;

/// What an agent's memory knows about the starts of episodes, when it acts and when it learns.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The label in the chart.
    pub fn label(self) -> &'static str {
        match self {
            Self::Memoryless => "no memory",
            Self::Never => "never restarted",
            Self::Late => "learns with starts a step late",
            Self::Early => "learns with starts a step early",
            Self::Restarts => "restarted where episodes start",
        }
    }

    /// Whether the state restarts before a step of acting.
    pub fn acts(self, starts: bool) -> bool {
        match self {
            Self::Memoryless => true,
            Self::Never => false,
            Self::Late | Self::Early | Self::Restarts => starts,
        }
    }

    /// The starts `[N,T]` for learning from a window. `dones` marks the last step of each episode, and `first`
    /// the rows whose window begins with a new episode.
    pub fn learns(self, dones: Tensor<2, Bool>, first: Tensor<1, Bool>) -> Tensor<2, Bool> {
        match self {
            Self::Memoryless => dones.full_like(true),
            Self::Never => dones.full_like(false),
            // The state at the start of the window is the actor's, whose starts are right.
            Self::Late => {
                let none = first.full_like(false);
                starts_after(starts_after(dones, first), none)
            }
            Self::Early => dones,
            Self::Restarts => starts_after(dones, first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn wrong_starts_are_one_step_off() {
        let device = Device::flex();
        let learns = |agent: Agent| {
            let dones = Tensor::from_bool([[false, true, false, false, true]], &device);
            let first = Tensor::from_bool([true], &device);
            let starts = agent.learns(dones, first).into_data();
            let starts = starts.try_into_vec::<bool>().unwrap();
            starts.into_iter().map(u8::from).collect::<Vec<_>>()
        };
        assert_eq!(learns(Agent::Restarts), [1, 0, 1, 0, 0]);
        assert_eq!(learns(Agent::Late), [0, 1, 0, 1, 0]);
        assert_eq!(learns(Agent::Early), [0, 1, 0, 0, 1]);
        assert_eq!(learns(Agent::Never), [0; 5]);
        assert_eq!(learns(Agent::Memoryless), [1; 5]);
    }
}
