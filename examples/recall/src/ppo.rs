//! Learning: proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347) over whole rows, so that the memory
//! is replayed from the state before the window.

use std::error::Error;

use burn::grad_clipping::GradientClippingConfig;
use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::agent::Agent;
use crate::env::Environments;
use crate::network::Network;
use crate::window::Window;

/// N, environments that act at the same time.
const ENVIRONMENTS: usize = 64;
/// Passes over a window.
const EPOCHS: usize = 2;
/// Whole rows of a minibatch.
const ROWS: usize = 32;
/// The largest change of a probability ratio that is rewarded.
const CLIP: f64 = 0.2;
const LEARNING_RATE: f64 = 1e-3;
const ENTROPY_WEIGHT: f64 = 0.01;
const VALUE_WEIGHT: f64 = 0.5;
/// The largest norm of the gradient of a parameter.
const MAX_NORM: f32 = 0.5;

/// An agent in training, with its environments.
pub struct Trainer {
    agent: Agent,
    network: Network,
    optimizer: ModuleOptimizer,
    environments: Environments,
    /// The state after the last window, `[1,N,H]`.
    state: Tensor<3>,
    rng: StdRng,
}

/// The result of an update.
pub struct Update {
    /// The share of right answers in the window.
    pub right: f64,
    /// The largest `|ρ − 1|` of the first minibatch, before the network changes, where ρ is the probability of an action
    /// in the replay divided by its probability when it was acted. Only rounding errors are left if the replay gets
    /// the starts that were acted.
    pub first_ratio: f64,
}

impl Trainer {
    /// An agent with random parameters on a device that supports autodiff.
    pub fn new(agent: Agent, seed: u64, device: &Device) -> Self {
        device.seed(seed);
        let mut rng = StdRng::seed_from_u64(seed);
        let clipping = GradientClippingConfig::Norm(MAX_NORM);
        Self {
            agent,
            network: Network::new(device),
            optimizer: AdamConfig::new()
                .with_epsilon(1e-5) // usual for PPO
                .with_grad_clipping(Some(clipping))
                .init(),
            environments: Environments::new(ENVIRONMENTS, &mut rng),
            state: Network::state(ENVIRONMENTS, &device.clone().inner()),
            rng,
        }
    }

    /// Acts for a window, and learns from all its rows, several times in random order.
    pub fn update(&mut self) -> Result<Update, Box<dyn Error>> {
        let network = self.network.valid();
        let (agent, environments) = (self.agent, &mut self.environments);
        let window = Window::act(
            &network,
            agent,
            environments,
            &mut self.state,
            &mut self.rng,
        )?;
        let mut rows: Vec<i32> = (0..ENVIRONMENTS as i32).collect();
        let mut first_ratio = None;
        for _ in 0..EPOCHS {
            rows.shuffle(&mut self.rng);
            for rows in rows.chunks(ROWS) {
                let (loss, ratios) = loss(&self.network, window.rows(rows));
                first_ratio.get_or_insert_with(|| (ratios - 1.0).abs().max());
                let gradients = GradientsParams::from_grads(loss.backward(), &self.network);
                let network = self.network.clone();
                self.network = self.optimizer.step(LEARNING_RATE, network, gradients);
            }
        }
        let first_ratio = first_ratio.expect("there is a minibatch");
        Ok(Update {
            right: window.right,
            first_ratio: first_ratio.try_into_scalar::<f32>()?.into(),
        })
    }

    /// The share of right answers with fixed parameters in new environments, over this many windows.
    ///
    /// In training, episodes continue while the parameters change. So even without memory, an answer may depend on the
    /// first symbol.
    pub fn evaluate(&mut self, windows: usize) -> Result<f64, Box<dyn Error>> {
        let network = self.network.valid();
        let mut environments = Environments::new(ENVIRONMENTS, &mut self.rng);
        let mut state = self.state.zeros_like();
        let mut right = 0.0;
        // The first window does not count, because all its episodes start together.
        for k in 0..=windows {
            let (agent, rng) = (self.agent, &mut self.rng);
            let window = Window::act(&network, agent, &mut environments, &mut state, rng)?;
            if k > 0 {
                right += window.right / windows as f64;
            }
        }
        Ok(right)
    }
}

/// The loss of a minibatch, `−min(ρ·a, clip(ρ)·a) + c_v·½·(v − return)² − c_e·entropy`, and the ratios ρ. The advantages
/// `a` of the minibatch are shifted and scaled to mean 0 and deviation 1.
fn loss(network: &Network, batch: Window) -> (Tensor<1>, Tensor<2>) {
    let column = |of: Tensor<2>| Tensor::from_inner(of.flatten::<1>(0, 1).unsqueeze_dim::<2>(1)); // [R·T, 1]
    let heads = network.window(batch.symbols, batch.state, batch.starts);
    let entropy = (heads.log_probs.clone().exp() * heads.log_probs.clone())
        .sum_dim(1)
        .mean()
        .neg();
    let actions = batch.actions.flatten::<1>(0, 1).unsqueeze_dim(1);
    let ratios = (heads.log_probs.gather(1, actions) - column(batch.log_probs)).exp();
    let advantages = column(batch.advantages);
    let centred = advantages.clone() - advantages.mean().unsqueeze();
    let deviation = centred.clone().square().mean().sqrt();
    let advantages = centred / (deviation + 1e-8).unsqueeze();
    let clipped = ratios.clone().clamp(1.0 - CLIP, 1.0 + CLIP) * advantages.clone();
    let policy = (ratios.clone() * advantages).min_pair(clipped).mean().neg();
    let value = (heads.values - column(batch.returns)).square().mean() * 0.5;
    let loss = policy + value * VALUE_WEIGHT - entropy * ENTROPY_WEIGHT;
    (loss, ratios)
}
