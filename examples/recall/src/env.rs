//! The task: name the first symbol of an episode.
//!
//! Every step shows one of four symbols, drawn independently. From the second step of an episode on, an action that
//! names the first symbol of the episode earns 1, any other action 0. After each step the episode ends with
//! probability 1/32, and the next step is the first step of a new episode. The agent sees only the symbol. It does
//! not see the reward, nor where an episode starts.

use rand::Rng;

/// Distinct symbols, and actions.
pub const SYMBOLS: usize = 4;
/// The probability that an episode ends after a step.
const END: f64 = 1.0 / 32.0;

/// N independent environments.
pub struct Environments {
    /// The symbol that each environment shows, N.
    pub shown: Vec<i32>,
    /// Whether the shown symbol is the first of an episode, N.
    pub starts: Vec<bool>,
    /// The first symbol of each episode, N.
    first: Vec<i32>,
}

impl Environments {
    /// `n` environments at the first step of an episode.
    pub fn new(n: usize, rng: &mut impl Rng) -> Self {
        let first: Vec<i32> = (0..n).map(|_| symbol(rng)).collect();
        Self {
            shown: first.clone(),
            starts: vec![true; n],
            first,
        }
    }

    /// Acts in every environment and shows the next symbols. Returns the rewards, N. Episodes that ended have
    /// [`starts`](Self::starts) set.
    pub fn step(&mut self, actions: &[i32], rng: &mut impl Rng) -> Vec<f32> {
        let mut rewards = vec![];
        for (n, &action) in actions.iter().enumerate() {
            let right = !self.starts[n] && action == self.first[n];
            rewards.push(f32::from(u8::from(right)));
            self.shown[n] = symbol(rng);
            self.starts[n] = rng.random_bool(END);
            if self.starts[n] {
                self.first[n] = self.shown[n];
            }
        }
        rewards
    }
}

fn symbol(rng: &mut impl Rng) -> i32 {
    rng.random_range(0..SYMBOLS as i32)
}
