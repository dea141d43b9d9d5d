//! Tests of acting and learning together.

use std::sync::{Mutex, PoisonError};

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use clap::Parser;
use rand::{SeedableRng, rngs::StdRng};

use crate::agent::{Agent, MEMORYLESS, NEVER_RESTARTED};
use crate::config::{Cli, Settings};
use crate::model::Network;
use crate::rollout::Window;
use crate::train::{POINT, Trainer};

/// Rounding in float32 of the log-probability of an action, and of a loss, which is a mean of such numbers of order 1.
/// Two ways to sum 3·2·16 products of at most 1, and states whose errors do not grow: 100 units in the last place of 1.
const ROUNDING: f64 = 1e-5;

fn small() -> Settings {
    Settings {
        environments: 10,
        steps: 33,
        hidden: 16,
        minibatches: 3, // of 4, 4 and 2 rows
        learning_rate: 1e-2,
        ..Settings::default()
    }
}

/// An agent of a seed. All threads share one generator of random parameters, so one thread draws at a time.
fn new(agent: Agent, settings: Settings, seed: u64) -> Trainer {
    static DRAWING: Mutex<()> = Mutex::new(());
    let _alone = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    Trainer::new(agent, settings, seed, &Device::flex().autodiff())
}

/// An agent after some updates, so that its states and scores are not small.
fn trained(agent: Agent) -> Trainer {
    let mut trainer = new(agent, small(), 5);
    for _ in 0..5 {
        trainer.update().unwrap();
    }
    trainer
}

/// With fewer updates than a point has, the chart would be empty.
#[test]
fn a_run_has_a_point() {
    assert!(Cli::try_parse_from(["recall", "--updates", "9"]).is_err());
    let mut trainer = trained(Agent::Restarts);
    for _ in 5..POINT {
        trainer.update().unwrap();
    }
    assert_eq!(trainer.progress.points.len(), 1);
}

#[test]
fn ratios_are_one_before_the_network_changes() {
    for agent in [Agent::Restarts, Agent::Never, Agent::Memoryless] {
        let off = trained(agent).update().unwrap().learned.first_ratio;
        assert!(off < ROUNDING, "{agent:?}: {off}");
    }
    // The same test finds starts that are a step off.
    for agent in [Agent::Late, Agent::Early] {
        let off = trained(agent).update().unwrap().learned.first_ratio;
        assert!(off > 100.0 * ROUNDING, "{agent:?}: {off}");
    }
}

/// Each episode that lies in a window, run by itself from the state zero.
#[test]
fn episodes_replayed_alone_have_the_probabilities_that_were_acted() {
    let mut trainer = trained(Agent::Restarts);
    let window = trainer.act(&mut StdRng::seed_from_u64(3)).unwrap();
    let network = trainer.learner.network.valid();
    let mut episodes = 0;
    for row in 0..window.n {
        let at = |t: usize| row * window.t + t;
        let starts = |t: usize| match t {
            0 => window.first[row],
            _ => window.dones[at(t - 1)],
        };
        for start in (0..window.t).filter(|&t| starts(t)) {
            let next = (start + 1..window.t).find(|&t| starts(t));
            let range = at(start)..at(next.unwrap_or(window.t) - 1) + 1;
            let found = alone(&network, &window, range.clone());
            for (found, &acted) in found.iter().zip(&window.log_probs[range]) {
                assert!(
                    (f64::from(found - acted)).abs() < ROUNDING,
                    "{found} {acted}"
                );
            }
            episodes += 1;
        }
    }
    assert!(episodes >= 5, "{episodes}");
}

/// The log-probabilities of the actions of an episode.
fn alone(network: &Network, window: &Window, range: std::ops::Range<usize>) -> Vec<f32> {
    let device = window.state.device();
    let t = range.len();
    let ints = |all: &[i32]| {
        let data = TensorData::new(all[range.clone()].to_vec(), [1, t]);
        Tensor::<2, Int>::from_data(data, &device)
    };
    let hidden = window.state.dims()[2];
    let state = Tensor::zeros([1, 1, hidden], &device);
    let none = Tensor::<2, Int>::zeros([1, t], &device).bool();
    let heads = network.window(ints(&window.symbols), state, none);
    let log_probs = burn::tensor::activation::log_softmax(heads.logits, 1);
    let of_action = log_probs.gather(1, ints(&window.actions).reshape([t, 1]));
    of_action.into_data().try_into_vec().unwrap()
}

#[test]
fn advantages_are_discounted_sums_of_errors() {
    let mut trainer = trained(Agent::Restarts);
    let mut window = trainer.act(&mut StdRng::seed_from_u64(3)).unwrap();
    window.dones[5] = true;
    let (gamma, lambda) = (0.9, 0.8);
    let found = window.advantages(gamma, lambda);
    for row in 0..window.n {
        for start in 0..window.t {
            let (mut expected, mut weight) = (0.0f64, 1.0);
            for t in start..window.t {
                let at = row * window.t + t;
                let next = match (window.dones[at], t + 1 < window.t) {
                    (true, _) => 0.0,
                    (false, true) => window.values[at + 1],
                    (false, false) => window.last_values[row],
                };
                let error = window.rewards[at] + gamma * next - window.values[at];
                expected += weight * f64::from(error);
                weight *= f64::from(gamma * lambda);
                if window.dones[at] {
                    break;
                }
            }
            let found = f64::from(found[row * window.t + start]);
            assert!((found - expected).abs() < ROUNDING, "{found} {expected}");
        }
    }
}

/// A short seeded run, and 80,000 answers in 2500 episodes. If all answers of an episode were equal, the standard
/// deviation of their share would be √(0.25·0.75/2500) = 0.0087. Allowed are four.
#[test]
fn an_agent_with_restarts_learns_and_one_without_memory_does_not() {
    let share = |agent| {
        let mut trainer = new(agent, Settings::default(), 1);
        for _ in 0..50 {
            trainer.update().unwrap();
        }
        trainer.evaluate(20).unwrap()
    };
    let memoryless = share(Agent::Memoryless);
    assert!((memoryless - MEMORYLESS).abs() < 0.035, "{memoryless}");
    let restarts = share(Agent::Restarts);
    assert!(restarts > NEVER_RESTARTED + 0.035, "{restarts}");
}
