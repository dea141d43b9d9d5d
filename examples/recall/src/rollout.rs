//! Acting: a window of T steps in N environments, with everything that learning needs.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use rand::Rng;
use training_kit::error::Error;

use crate::agent::Agent;
use crate::env::{Environments, SYMBOLS};
use crate::model::Network;

/// N rows of T consecutive steps. Step `t` of row `n` is at `n·T + t`.
pub struct Window {
    pub n: usize,
    pub t: usize,
    pub symbols: Vec<i32>,
    pub actions: Vec<i32>,
    /// Log-probabilities of the actions.
    pub log_probs: Vec<f32>,
    pub values: Vec<f32>,
    pub rewards: Vec<f32>,
    pub dones: Vec<bool>,
    /// Rows that begin with a new episode, N.
    pub first: Vec<bool>,
    /// The state before the window `[1,N,H]`, without a restart at its first step.
    pub state: Tensor<3>,
    /// The expected value of the step after the window, N.
    pub last_values: Vec<f32>,
    /// Right answers, and all answers that count.
    pub right: f64,
    pub counted: f64,
    /// Mean entropy of the policy in nats.
    pub entropy: f64,
}

impl Window {
    /// Acts for `t` steps. Returns the window and the state after it.
    pub fn act(
        network: &Network,
        agent: Agent,
        environments: &mut Environments,
        state: Tensor<3>,
        t: usize,
        rng: &mut impl Rng,
    ) -> Result<(Self, Tensor<3>), Error> {
        let device = state.device();
        let n = environments.shown.len();
        let mut window = Self {
            n,
            t,
            symbols: vec![0; n * t],
            actions: vec![0; n * t],
            log_probs: vec![0.0; n * t],
            values: vec![0.0; n * t],
            rewards: vec![0.0; n * t],
            dones: vec![false; n * t],
            first: environments.starts.clone(),
            state: state.clone(),
            last_values: vec![],
            right: 0.0,
            counted: 0.0,
            entropy: 0.0,
        };
        let mut state = state;
        for step in 0..t {
            let (scores, values, next) = look(network, agent, environments, state, &device)?;
            state = next;
            let mut actions = Vec::with_capacity(n);
            for (row, scores) in scores.chunks_exact(SYMBOLS).enumerate() {
                let choice = Choice::draw(scores, rng);
                let at = row * t + step;
                window.symbols[at] = environments.shown[row] as i32;
                window.actions[at] = choice.action as i32;
                window.log_probs[at] = choice.log_prob;
                window.values[at] = values[row];
                window.entropy += choice.entropy / (n * t) as f64;
                actions.push(choice.action);
            }
            for (row, answer) in environments.step(&actions, rng).into_iter().enumerate() {
                let at = row * t + step;
                window.rewards[at] = answer.reward;
                window.dones[at] = answer.done;
                window.right += f64::from(answer.reward);
                window.counted += f64::from(u8::from(answer.counts));
            }
        }
        let (_, values, _) = look(network, agent, environments, state.clone(), &device)?;
        window.last_values = values;
        Ok((window, state))
    }

    /// Generalized advantage estimates: `a_t = δ_t + γλ·a_{t+1}`, `δ_t = r_t + γ·v_{t+1} − v_t`. The terms of
    /// `t + 1` are zero if the episode ends at `t`.
    pub fn advantages(&self, gamma: f32, lambda: f32) -> Vec<f32> {
        let mut advantages = vec![0.0; self.n * self.t];
        for row in 0..self.n {
            let (mut next_value, mut next) = (self.last_values[row], 0.0);
            for at in (row * self.t..(row + 1) * self.t).rev() {
                let goes_on = if self.dones[at] { 0.0 } else { 1.0 };
                let delta = self.rewards[at] + gamma * goes_on * next_value - self.values[at];
                next = delta + gamma * lambda * goes_on * next;
                next_value = self.values[at];
                advantages[at] = next;
            }
        }
        advantages
    }
}

/// The scores of all actions `[N·SYMBOLS]` and the values `[N]` for the shown symbols, and the next state.
fn look(
    network: &Network,
    agent: Agent,
    environments: &Environments,
    state: Tensor<3>,
    device: &Device,
) -> Result<(Vec<f32>, Vec<f32>, Tensor<3>), Error> {
    let shown: Vec<i32> = environments.shown.iter().map(|&s| s as i32).collect();
    let starts: Vec<bool> = environments.starts.iter().map(|&s| agent.acts(s)).collect();
    let n = shown.len();
    let symbols = Tensor::<1, Int>::from_data(TensorData::new(shown, [n]), device);
    let starts = Tensor::<1, Bool>::from_bool(TensorData::new(starts, [n]), device);
    let (heads, state) = network.step(symbols, state, starts);
    let scores = heads.logits.try_into_vec_as().map_err(Error::device)?;
    let values = heads.values.try_into_vec_as().map_err(Error::device)?;
    Ok((scores, values, state))
}

/// An action, drawn from the softmax of scores.
struct Choice {
    action: usize,
    log_prob: f32,
    entropy: f64,
}

impl Choice {
    fn draw(scores: &[f32], rng: &mut impl Rng) -> Self {
        let largest = scores.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        let shifted = scores.iter().map(|&s| f64::from(s - largest));
        let total = shifted.clone().map(f64::exp).sum::<f64>().ln();
        let log_probs: Vec<f64> = shifted.map(|s| s - total).collect();
        let mut left: f64 = rng.random();
        let found = log_probs.iter().position(|p| {
            left -= p.exp();
            left < 0.0
        });
        // Rounding may leave a little over.
        let action = found.unwrap_or(scores.len() - 1);
        Self {
            action,
            log_prob: log_probs[action] as f32,
            entropy: -log_probs.iter().map(|p| p * p.exp()).sum::<f64>(),
        }
    }
}
