//! Tests of acting and learning together.

use burn::tensor::{Device, Distribution, Tensor};
use rand::{SeedableRng, rngs::StdRng};

use crate::agent::Agent;
use crate::env::{Environments, SYMBOLS};
use crate::ppo::Trainer;
use crate::window::advantages;

/// Rounding in float32 of a log-probability and of an advantage, which are sums of 200 products of at most 1: 100 units
/// in the last place of 1.
const ROUNDING: f64 = 1e-5;
/// The share of right answers without memory: the shown symbol is independent of the first.
const MEMORYLESS: f64 = 1.0 / SYMBOLS as f64;

fn trained(agent: Agent, updates: usize) -> Trainer {
    let mut trainer = Trainer::new(agent, 1, &Device::flex().autodiff());
    for _ in 0..updates {
        trainer.update().unwrap();
    }
    trainer
}

#[test]
fn the_first_symbol_earns_a_reward_after_the_first_step() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut environments = Environments::new(3, &mut rng);
    let mut first = environments.shown.clone();
    let mut episodes = 3;
    for step in 0..20_000 {
        // Right, wrong, right, wrong …
        let name = |symbol: &i32| (symbol + step % 2) % SYMBOLS as i32;
        let actions: Vec<i32> = first.iter().map(name).collect();
        let starts = environments.starts.clone();
        let rewards = environments.step(&actions, &mut rng);
        for (n, reward) in rewards.into_iter().enumerate() {
            assert_eq!(reward == 1.0, !starts[n] && step % 2 == 0);
            if environments.starts[n] {
                first[n] = environments.shown[n];
                episodes += 1;
            }
        }
    }
    // 60,000 steps of episodes with mean 32 and deviation 31.5: five deviations.
    assert!((episodes as f64 - 1875.0).abs() < 213.0, "{episodes}");
}

#[test]
fn ratios_are_one_before_the_network_changes() {
    for agent in [Agent::Restarts, Agent::Never, Agent::Memoryless] {
        let off = trained(agent, 5).update().unwrap().first_ratio;
        assert!(off < ROUNDING, "{agent:?}: {off}");
    }
    // The same test finds starts that are a step off.
    for agent in [Agent::Late, Agent::Early] {
        let off = trained(agent, 5).update().unwrap().first_ratio;
        assert!(off > 100.0 * ROUNDING, "{agent:?}: {off}");
    }
}

#[test]
fn advantages_are_discounted_sums_of_errors() {
    let device = Device::flex();
    let random =
        |columns| Tensor::<2>::random([3, columns], Distribution::Uniform(0.0, 1.0), &device);
    let (rewards, values, last) = (random(9), random(9), random(1));
    let goes_on = random(9).greater_elem(0.3).float();
    let found = advantages(&rewards, &values, &goes_on, last.clone());
    let list = |of: Tensor<2>| of.try_into_vec_as::<f64>().unwrap();
    let values = list(Tensor::cat(vec![values, last], 1));
    let [rewards, goes_on, found] = [rewards, goes_on, found].map(list);
    for (row, start) in (0..3).flat_map(|row| (0..9).map(move |start| (row, start))) {
        let (mut expected, mut weight) = (0.0, 1.0);
        for t in start..9 {
            let (at, value) = (row * 9 + t, row * 10 + t);
            let next = 0.9 * goes_on[at] * values[value + 1];
            expected += weight * (rewards[at] + next - values[value]);
            weight *= 0.81 * goes_on[at];
        }
        let found = found[row * 9 + start];
        assert!((found - expected).abs() < ROUNDING, "{found} {expected}");
    }
}

/// 80,000 answers in 2500 episodes. If all answers of an episode were equal, the standard deviation of their share
/// would be √(0.25·0.75/2500) = 0.0087. Allowed are four.
#[test]
fn an_agent_with_restarts_learns_and_one_without_memory_does_not() {
    let share = |agent| trained(agent, 50).evaluate(20).unwrap();
    let memoryless = share(Agent::Memoryless);
    assert!((memoryless - MEMORYLESS).abs() < 0.035, "{memoryless}");
    let restarts = share(Agent::Restarts);
    assert!(restarts > 0.352, "{restarts}");
}
