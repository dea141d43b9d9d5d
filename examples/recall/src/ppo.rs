//! Learning: proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347) over whole rows, so that
//! the memory is replayed from the state before the window.

use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData, activation::log_softmax};
use rand::Rng;
use rand::seq::SliceRandom;
use training_kit::clip::clip_norm;
use training_kit::error::Error;

use crate::agent::Agent;
use crate::config::Settings;
use crate::model::Network;
use crate::rollout::Window;

/// Adam with the epsilon that is usual for PPO.
pub fn adam() -> ModuleOptimizer {
    AdamConfig::new().with_epsilon(1e-5).init()
}

/// Some rows of a window on a device, R rows of T steps.
pub struct Minibatch {
    symbols: Tensor<2, Int>,
    state: Tensor<3>,
    starts: Tensor<2, Bool>,
    /// Action, its log-probability when acted, its advantage and its return, `[R·T]`.
    actions: Tensor<1, Int>,
    log_probs: Tensor<1>,
    advantages: Tensor<1>,
    returns: Tensor<1>,
}

/// What the network says about the actions of a minibatch.
pub struct Replay {
    /// Probability now divided by probability when acted, `[R·T]`.
    pub ratios: Tensor<1>,
    pub values: Tensor<1>,
    /// Mean entropy in nats.
    pub entropy: Tensor<1>,
}

impl Minibatch {
    /// The `rows` of a window for `agent`.
    pub fn new(
        window: &Window,
        advantages: &[f32],
        rows: &[usize],
        agent: Agent,
        device: &Device,
    ) -> Self {
        let (r, t) = (rows.len(), window.t);
        let floats = |all: &dyn Fn(usize) -> f32| -> Tensor<1> {
            let chosen = of_rows(rows, t).map(all).collect::<Vec<_>>();
            Tensor::from_data(TensorData::new(chosen, [r * t]), device)
        };
        let ints = |all: &[i32]| -> Tensor<1, Int> {
            let chosen = of_rows(rows, t).map(|at| all[at]).collect::<Vec<_>>();
            Tensor::from_data(TensorData::new(chosen, [r * t]), device)
        };
        let dones: Vec<bool> = of_rows(rows, t).map(|at| window.dones[at]).collect();
        let first: Vec<bool> = rows.iter().map(|&row| window.first[row]).collect();
        let dones = Tensor::from_bool(TensorData::new(dones, [r, t]), device);
        let first = Tensor::from_bool(TensorData::new(first, [r]), device);
        let index: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let index = Tensor::from_data(TensorData::new(index, [r]), &window.state.device());
        Self {
            symbols: ints(&window.symbols).reshape([r, t]),
            state: Tensor::from_inner(window.state.clone().select(1, index)),
            starts: agent.learns(dones, first),
            actions: ints(&window.actions),
            log_probs: floats(&|at| window.log_probs[at]),
            advantages: floats(&|at| advantages[at]),
            returns: floats(&|at| advantages[at] + window.values[at]),
        }
    }

    /// Runs the network over the minibatch.
    pub fn replay(&self, network: &Network) -> Replay {
        let (symbols, starts) = (self.symbols.clone(), self.starts.clone());
        let heads = network.window(symbols, self.state.clone(), starts);
        let log_probs = log_softmax(heads.logits, 1); // [R·T, SYMBOLS]
        let entropy = (log_probs.clone().exp() * log_probs.clone())
            .sum_dim(1)
            .mean()
            .neg();
        let of_action = log_probs.gather(1, self.actions.clone().unsqueeze_dim(1));
        Replay {
            ratios: (of_action.squeeze_dim(1) - self.log_probs.clone()).exp(),
            values: heads.values,
            entropy,
        }
    }

    /// The loss to minimize: `−min(ρ·a, clip(ρ)·a) + ½·c_v·(v − return)² − c_e·entropy`. The advantages `a` of the
    /// minibatch are shifted and scaled to mean 0 and deviation 1.
    fn loss(&self, replay: Replay, settings: &Settings) -> Tensor<1> {
        let advantages = self.advantages.clone();
        let centred = advantages.clone() - advantages.mean();
        let deviation = centred.clone().square().mean().sqrt();
        let advantages = centred / (deviation + 1e-8);
        let clip = settings.clip;
        let clipped = replay.ratios.clone().clamp(1.0 - clip, 1.0 + clip) * advantages.clone();
        let policy = (replay.ratios * advantages).min_pair(clipped).mean().neg();
        let value = (replay.values - self.returns.clone()).square().mean() * 0.5;
        policy + value * settings.value_weight - replay.entropy * settings.entropy_weight
    }
}

/// The indices of the steps of some rows.
fn of_rows(rows: &[usize], t: usize) -> impl Iterator<Item = usize> {
    rows.iter().flat_map(move |row| row * t..(row + 1) * t)
}

/// A network in training.
pub struct Learner {
    pub network: Network,
    pub optimizer: ModuleOptimizer,
}

/// The result of learning from a window.
pub struct Learned {
    /// Mean loss of the minibatches.
    pub loss: f64,
    /// Largest `|ρ − 1|` of the first minibatch, before the network changes. It is rounding error if the replay
    /// is what was acted.
    pub first_ratio: f64,
}

impl Learner {
    /// Learns from all rows of a window, several times in random order.
    pub fn learn(
        &mut self,
        window: &Window,
        agent: Agent,
        settings: &Settings,
        device: &Device,
        rng: &mut impl Rng,
    ) -> Result<Learned, Error> {
        let advantages = window.advantages(settings.gamma, settings.lambda);
        let mut rows: Vec<usize> = (0..window.n).collect();
        let mut losses = vec![];
        let mut first_ratio = None;
        for _ in 0..settings.epochs {
            rows.shuffle(rng);
            for rows in rows.chunks(window.n.div_ceil(settings.minibatches)) {
                let minibatch = Minibatch::new(window, &advantages, rows, agent, device);
                let replay = minibatch.replay(&self.network);
                first_ratio.get_or_insert_with(|| (replay.ratios.clone() - 1.0).abs().max());
                let loss = minibatch.loss(replay, settings);
                let gradients = GradientsParams::from_grads(loss.backward(), &self.network);
                let (gradients, _) = clip_norm(&self.network, gradients, settings.max_norm);
                let rate = settings.learning_rate;
                self.network = self.optimizer.step(rate, self.network.clone(), gradients);
                losses.push(read(loss)?);
            }
        }
        Ok(Learned {
            loss: losses.iter().sum::<f64>() / losses.len() as f64,
            first_ratio: read(first_ratio.expect("there is a minibatch"))?,
        })
    }
}

fn read(scalar: Tensor<1>) -> Result<f64, Error> {
    scalar
        .try_into_scalar::<f32>()
        .map(f64::from)
        .map_err(Error::device)
}
