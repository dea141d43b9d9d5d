//! The task: name the first symbol of an episode.
//!
//! Every step shows one of four symbols, drawn independently. From the second step of an episode on, an
//! action that names the first symbol of the episode earns 1, any other action 0. After each step the
//! episode ends with probability 1/32, and the next step is the first step of a new episode. The agent sees
//! only the symbol: neither the reward, nor where an episode starts.

use rand::Rng;

/// Distinct symbols, and actions.
pub const SYMBOLS: usize = 4;
/// The probability that an episode ends after a step.
pub const END: f64 = 1.0 / 32.0;

/// N independent environments.
#[derive(Clone, Debug, PartialEq)]
pub struct Environments {
    /// The symbol that each environment shows, N.
    pub shown: Vec<usize>,
    /// Whether the shown symbol is the first of an episode, N.
    pub starts: Vec<bool>,
    /// The first symbol of each episode, N.
    first: Vec<usize>,
}

/// What follows from an action in one environment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// 1 if the action named the first symbol, after the first step.
    pub reward: f32,
    /// Whether an answer was possible: not in the first step.
    pub counts: bool,
    /// Whether the episode ended. The shown symbol then belongs to the next episode.
    pub done: bool,
}

impl Environments {
    /// `n` environments at the first step of an episode.
    pub fn new(n: usize, rng: &mut impl Rng) -> Self {
        let first: Vec<usize> = (0..n).map(|_| symbol(rng)).collect();
        Self {
            shown: first.clone(),
            starts: vec![true; n],
            first,
        }
    }

    /// Acts in every environment, and shows the next symbols.
    pub fn step(&mut self, actions: &[usize], rng: &mut impl Rng) -> Vec<Answer> {
        assert!(
            actions.len() == self.first.len(),
            "Environments::step: expected {} actions, got {}",
            self.first.len(),
            actions.len()
        );
        let step = |(n, &action): (usize, &usize)| {
            let counts = !self.starts[n];
            let right = counts && action == self.first[n];
            let done = rng.random_bool(END);
            self.shown[n] = symbol(rng);
            self.starts[n] = done;
            if done {
                self.first[n] = self.shown[n];
            }
            Answer {
                reward: if right { 1.0 } else { 0.0 },
                counts,
                done,
            }
        };
        actions.iter().enumerate().map(step).collect()
    }
}

fn symbol(rng: &mut impl Rng) -> usize {
    rng.random_range(0..SYMBOLS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::NEVER_RESTARTED;
    use rand::{SeedableRng, rngs::StdRng};

    #[test]
    fn the_first_symbol_earns_a_reward_after_the_first_step() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut environments = Environments::new(3, &mut rng);
        let mut first = environments.shown.clone();
        let mut lengths = vec![];
        let mut age = [0; 3];
        for step in 0..20_000 {
            // Right, wrong, right, wrong …
            let actions: Vec<usize> = first.iter().map(|f| (f + step % 2) % SYMBOLS).collect();
            let answers = environments.step(&actions, &mut rng);
            for (n, answer) in answers.into_iter().enumerate() {
                assert_eq!(answer.counts, age[n] > 0);
                let right = answer.counts && step % 2 == 0;
                assert_eq!(answer.reward, f32::from(u8::from(right)));
                assert_eq!(answer.done, environments.starts[n]);
                age[n] += 1;
                if answer.done {
                    first[n] = environments.shown[n];
                    lengths.push(age[n]);
                    age[n] = 0;
                }
            }
        }
        // The mean of about 1900 geometric lengths with mean 32 and deviation 31.5: five deviations.
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((mean - 32.0).abs() < 3.6, "{mean}");
    }

    /// The best agent that does not know where episodes start: the forward algorithm over the hidden states
    /// (first symbol of the episode, shown symbol, whether this is its first step), and the most probable
    /// first symbol as the action.
    #[test]
    fn no_agent_without_starts_exceeds_the_bound() {
        const HIDDEN: usize = SYMBOLS * SYMBOLS * 2;
        let parts = |state: usize| (state / (SYMBOLS * 2), state / 2 % SYMBOLS, state % 2 == 1);
        // P(next | previous) of the chain, which does not depend on the actions.
        let transition = |previous: usize, next: usize| {
            let (first, _, _) = parts(previous);
            let (new_first, shown, starts) = parts(next);
            let symbol = 1.0 / SYMBOLS as f64;
            match starts {
                true if new_first == shown => END * symbol,
                false if new_first == first => (1.0 - END) * symbol,
                _ => 0.0,
            }
        };
        let (n, steps) = (64, 4000);
        let mut rng = StdRng::seed_from_u64(7);
        let mut environments = Environments::new(n, &mut rng);
        let mut beliefs = vec![[1.0 / HIDDEN as f64; HIDDEN]; n];
        let (mut right, mut counted) = (0.0, 0.0);
        for step in 0..steps {
            let mut actions = vec![];
            for (belief, &seen) in beliefs.iter_mut().zip(&environments.shown) {
                let mut next = [0.0; HIDDEN];
                for (k, probability) in next.iter_mut().enumerate() {
                    if parts(k).1 == seen {
                        *probability = (0..HIDDEN).map(|j| belief[j] * transition(j, k)).sum();
                    }
                }
                let total: f64 = next.iter().sum();
                *belief = next.map(|p| p / total);
                // Only answers after the first step count.
                let mut of_symbol = [0.0; SYMBOLS];
                for (k, p) in belief.iter().enumerate().filter(|&(k, _)| !parts(k).2) {
                    of_symbol[parts(k).0] += p;
                }
                let best = (0..SYMBOLS).max_by(|&a, &b| of_symbol[a].total_cmp(&of_symbol[b]));
                actions.push(best.expect("there are symbols"));
            }
            let answers = environments.step(&actions, &mut rng);
            // The first steps have the advantage that all episodes start together.
            if step >= 200 {
                right += answers.iter().map(|a| f64::from(a.reward)).sum::<f64>();
                counted += answers.iter().filter(|a| a.counts).count() as f64;
            }
        }
        // A share of 0.317 in 235,000 answers. Answers of one episode are correlated, so about 7600 episodes
        // count: one standard deviation is at most √(0.317·0.683/7600) = 0.0053. Allowed are three.
        let share = right / counted;
        assert!((share - NEVER_RESTARTED).abs() < 0.016, "{share}");
    }
}
