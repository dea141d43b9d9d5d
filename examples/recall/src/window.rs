//! Acting: a window of T steps in N environments, with everything that learning needs.

use std::error::Error;

use burn::tensor::{Bool, Int, Tensor};
use gru_op::starts_after;
use rand::rngs::StdRng;

use crate::agent::Agent;
use crate::env::Environments;
use crate::network::Network;

/// T, the steps of a window: two episodes on average. Gradients stop at its start, the state is carried.
const STEPS: usize = 64;
/// Discount of later rewards. An action has no effect on later steps, so a short horizon is enough.
const GAMMA: f32 = 0.9;
/// Weight of later steps in the advantage.
const LAMBDA: f32 = 0.9;

/// N rows of T consecutive steps, `[N,T]`.
pub struct Window {
    pub symbols: Tensor<2, Int>,
    pub actions: Tensor<2, Int>,
    /// Log-probabilities of the actions.
    pub log_probs: Tensor<2>,
    pub advantages: Tensor<2>,
    /// Estimated discounted sums of rewards: the targets of the values.
    pub returns: Tensor<2>,
    /// The starts for learning.
    pub starts: Tensor<2, Bool>,
    /// The state before the window `[1,N,H]`, without a restart at its first step.
    pub state: Tensor<3>,
    /// The share of right answers among those that count: all but the first of each episode.
    pub right: f64,
}

impl Window {
    /// Acts for a window, and advances `state`.
    pub fn act(
        network: &Network,
        agent: Agent,
        environments: &mut Environments,
        state: &mut Tensor<3>,
        rng: &mut StdRng,
    ) -> Result<Self, Box<dyn Error>> {
        let (before, device) = (state.clone(), state.device());
        let shown = |of: &Environments| Tensor::<1, Int>::from_ints(&of.shown[..], &device);
        let starts = |of: &Environments| Tensor::<1, Bool>::from_bool(&of.starts[..], &device);
        let look =
            |of: &Environments, state| network.step(shown(of), state, agent.acts(starts(of)));
        let first = starts(environments);
        let (mut symbols, mut actions, mut log_probs) = (vec![], vec![], vec![]);
        let (mut values, mut rewards, mut dones) = (vec![], vec![], vec![]);
        for _ in 0..STEPS {
            let (heads, next) = look(environments, state.clone());
            *state = next;
            symbols.push(shown(environments));
            let action = heads.log_probs.clone().exp().categorical(1); // [N, 1]
            let earned = environments.step(&action.clone().try_into_vec_as::<i32>()?, rng);
            log_probs.push(heads.log_probs.gather(1, action.clone()));
            actions.push(action);
            values.push(heads.values);
            rewards.push(Tensor::<1>::from_floats(&earned[..], &device));
            dones.push(starts(environments));
        }
        let (heads, _) = look(environments, state.clone());
        let (values, rewards) = (Tensor::cat(values, 1), Tensor::stack::<2>(rewards, 1));
        let dones = Tensor::stack::<2>(dones, 1);
        let goes_on = dones.clone().bool_not().float();
        let advantages = advantages(&rewards, &values, &goes_on, heads.values);
        let counts = starts_after(dones.clone(), first.clone())
            .bool_not()
            .float();
        Ok(Self {
            symbols: Tensor::stack(symbols, 1),
            actions: Tensor::cat(actions, 1),
            log_probs: Tensor::cat(log_probs, 1),
            returns: advantages.clone() + values,
            advantages,
            starts: agent.learns(dones, first),
            state: before,
            right: (rewards.sum() / counts.sum())
                .try_into_scalar::<f32>()?
                .into(),
        })
    }

    /// Some of the rows.
    pub fn rows(&self, rows: &[i32]) -> Self {
        let device = self.symbols.device();
        let rows = || Tensor::<1, Int>::from_ints(rows, &device);
        Self {
            symbols: self.symbols.clone().select(0, rows()),
            actions: self.actions.clone().select(0, rows()),
            log_probs: self.log_probs.clone().select(0, rows()),
            advantages: self.advantages.clone().select(0, rows()),
            returns: self.returns.clone().select(0, rows()),
            // As integers, because Flex's select returns bytes for booleans.
            starts: self.starts.clone().int().select(0, rows()).bool(),
            state: self.state.clone().select(1, rows()),
            right: self.right,
        }
    }
}

/// Generalized advantage estimates `[N,T]`: `a_t = δ_t + γλ·a_{t+1}`, `δ_t = r_t + γ·v_{t+1} − v_t`. The terms of
/// `t + 1` are zero if the episode ends at `t`, where `goes_on` is 0. `next_values` `[N,1]` are the values of the step
/// after the window.
pub fn advantages(
    rewards: &Tensor<2>,
    values: &Tensor<2>,
    goes_on: &Tensor<2>,
    mut next_values: Tensor<2>,
) -> Tensor<2> {
    let mut next = next_values.zeros_like();
    let mut advantages = vec![];
    for t in (0..rewards.dims()[1]).rev() {
        let [reward, value, goes_on] =
            [rewards, values, goes_on].map(|of| of.clone().narrow(1, t, 1));
        let delta = reward + next_values * goes_on.clone() * GAMMA - value.clone();
        next = delta + next * goes_on * (GAMMA * LAMBDA);
        next_values = value;
        advantages.push(next.clone());
    }
    advantages.reverse();
    Tensor::cat(advantages, 1)
}
