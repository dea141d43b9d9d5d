//! Sizes and conventions of one run, and the catalogue of test problems.

use std::fmt::Write;

use crate::activations::ACTIVATIONS;
use gru_spec::{
    Activation, Activations, Checkpointing, Direction, GruSpec, Layout, Order, Reset, Update,
};

/// Which biases a problem has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Biases {
    /// `b_ih` and `b_hh`.
    #[default]
    Both,
    /// Only `b_ih`.
    InputOnly,
    /// Only `b_hh`.
    HiddenOnly,
    /// None.
    None,
}

impl Biases {
    /// Whether `b_ih` exists.
    pub fn input(self) -> bool {
        matches!(self, Self::Both | Self::InputOnly)
    }

    /// Whether `b_hh` exists.
    pub fn hidden(self) -> bool {
        matches!(self, Self::Both | Self::HiddenOnly)
    }
}

/// One GRU run: sizes, optional tensors, conventions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Problem {
    /// The batch size.
    pub n: usize,
    /// The number of time steps.
    pub t: usize,
    /// The number of input features.
    pub i: usize,
    /// The number of hidden units.
    pub h: usize,
    /// Which biases exist.
    pub biases: Biases,
    /// Whether there is an initial state. Without it the state is zero.
    pub h0: bool,
    /// What a step computes.
    pub spec: GruSpec,
    /// Memory layout and time direction.
    pub order: Order,
    /// What training keeps for backward.
    pub checkpointing: Checkpointing,
}

impl Problem {
    /// The default GRU of these sizes, with both biases and an initial state.
    pub fn new(n: usize, t: usize, i: usize, h: usize) -> Self {
        Self {
            n,
            t,
            i,
            h,
            biases: Biases::Both,
            h0: true,
            spec: GruSpec::default(),
            order: Order::default(),
            checkpointing: Checkpointing::default(),
        }
    }

    /// Replaces the conventions.
    pub fn with_spec(self, spec: GruSpec) -> Self {
        Self { spec, ..self }
    }

    /// Replaces the order.
    pub fn with_order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Replaces the checkpointing.
    pub fn with_checkpointing(self, checkpointing: Checkpointing) -> Self {
        Self {
            checkpointing,
            ..self
        }
    }

    /// Replaces the choice of biases.
    pub fn with_biases(self, biases: Biases) -> Self {
        Self { biases, ..self }
    }

    /// Starts from zeros instead of an initial state.
    pub fn without_h0(self) -> Self {
        Self { h0: false, ..self }
    }

    /// Sizes, then the two rules, then all differences from the default:
    /// `N3-T5-I4-H7-before-takes-time-reverse`.
    pub fn id(&self) -> String {
        let spec = &self.spec;
        let mut id = format!("N{}-T{}-I{}-H{}", self.n, self.t, self.i, self.h);
        id += match spec.reset {
            Reset::AfterMatmul => "-after",
            Reset::BeforeMatmul => "-before",
        };
        id += match spec.update {
            Update::Keeps => "-keeps",
            Update::Takes => "-takes",
        };
        if self.order.layout == Layout::TimeMajor {
            id += "-time";
        }
        if self.order.direction == Direction::Reverse {
            id += "-reverse";
        }
        if self.checkpointing == Checkpointing::Recompute {
            id += "-lean";
        }
        id += match self.biases {
            Biases::Both => "",
            Biases::InputOnly => "-b_ih",
            Biases::HiddenOnly => "-b_hh",
            Biases::None => "-nobias",
        };
        if !self.h0 {
            id += "-noh0";
        }
        if spec.activations != Activations::default() {
            for gate in spec.activations.into_array() {
                id += "-";
                id += &activation_name(&gate);
            }
        }
        for (name, clip) in [
            ("clipgates", spec.clip_gates),
            ("clipstate", spec.clip_state),
        ] {
            if let Some(clip) = clip {
                write!(id, "-{name}{clip:?}").expect("writing to a String does not fail");
            }
        }
        id
    }

    /// Index of batch row `row` at time `time` among all rows of a sequence.
    pub fn row(&self, row: usize, time: usize) -> usize {
        match self.order.layout {
            Layout::BatchMajor => row * self.t + time,
            Layout::TimeMajor => time * self.n + row,
        }
    }

    /// Shape of a sequence with `features` features.
    pub fn sequence_shape(&self, features: usize) -> [usize; 3] {
        match self.order.layout {
            Layout::BatchMajor => [self.n, self.t, features],
            Layout::TimeMajor => [self.t, self.n, features],
        }
    }
}

/// The name of the variant in lower case.
fn activation_name(activation: &Activation) -> String {
    let name = format!("{activation:?}").to_lowercase();
    name.split(' ').next().unwrap_or_default().to_owned()
}

/// Every problem of the gradient checks.
///
/// Sizes are small, because finite differences need four forward passes per value. They are odd, because
/// kernels tend to fail at the remainders of tiles.
pub fn catalogue() -> Vec<Problem> {
    let mut problems = conventions();
    problems.extend(sizes());
    problems.extend(optional_tensors());
    problems.extend(activations());
    problems.extend(clips());
    problems
}

/// Both reset forms, update rules, layouts and directions, with one size.
fn conventions() -> Vec<Problem> {
    let mut problems = Vec::new();
    for layout in [Layout::BatchMajor, Layout::TimeMajor] {
        for direction in [Direction::Forward, Direction::Reverse] {
            for rules in rules() {
                let problem = Problem::new(3, 5, 4, 7).with_spec(rules);
                problems.push(problem.with_order(Order { layout, direction }));
            }
        }
    }
    problems
}

/// The four combinations of reset and update.
fn rules() -> [GruSpec; 4] {
    let after = GruSpec::default().with_reset(Reset::AfterMatmul);
    let before = GruSpec::default().with_reset(Reset::BeforeMatmul);
    [
        after.with_update(Update::Keeps),
        after.with_update(Update::Takes),
        before.with_update(Update::Keeps),
        before.with_update(Update::Takes),
    ]
}

/// Single rows, steps, features and units, and sizes just above a vector or a tile.
fn sizes() -> Vec<Problem> {
    let mut problems = Vec::new();
    for [n, t, i, h] in [
        [1, 1, 1, 1],
        [2, 1, 3, 5],
        [4, 1, 2, 9],
        [1, 6, 3, 4],
        [2, 4, 1, 3],
        [2, 4, 3, 1],
        [9, 2, 2, 3],
        [2, 3, 19, 4],
        [2, 3, 3, 17],
        [1, 2, 2, 33],
    ] {
        let [after_keeps, _, _, before_takes] = rules();
        for spec in [after_keeps, before_takes] {
            problems.push(Problem::new(n, t, i, h).with_spec(spec));
        }
    }
    problems
}

/// Every choice of biases, with and without an initial state.
fn optional_tensors() -> Vec<Problem> {
    let mut problems = Vec::new();
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let problem = Problem::new(2, 3, 3, 5).with_spec(GruSpec::default().with_reset(reset));
        for biases in [
            Biases::Both,
            Biases::InputOnly,
            Biases::HiddenOnly,
            Biases::None,
        ] {
            problems.push(problem.with_biases(biases).without_h0());
            if biases != Biases::Both {
                problems.push(problem.with_biases(biases));
            }
        }
        // A single step without a state must not use the recurrent weight.
        problems.push(
            Problem::new(3, 1, 2, 5)
                .with_spec(problem.spec)
                .without_h0(),
        );
    }
    problems
}

/// Every activation once in every gate. The parameters are far from the defaults, so that ignored
/// parameters are visible.
fn activations() -> Vec<Problem> {
    const ALL: [Activation; ACTIVATIONS.len()] = ACTIVATIONS;
    let rules = rules();
    (0..ALL.len())
        .map(|k| {
            let activations = [0, 4, 8].map(|gate| ALL[(k + gate) % ALL.len()]);
            let spec = rules[k % rules.len()].with_activations(activations.into());
            Problem::new(2, 4, 3, 5).with_spec(spec)
        })
        .collect()
}

/// Each clip by itself and both together, low enough that some values are clipped and some are not. And infinite clips.
fn clips() -> Vec<Problem> {
    let mut problems = Vec::new();
    for rules in rules() {
        for (gates, state) in [
            (Some(0.75), None),
            (None, Some(0.25)),
            (Some(0.5), Some(0.375)),
        ] {
            let spec = rules.with_clip_gates(gates).with_clip_state(state);
            problems.push(Problem::new(2, 4, 3, 5).with_spec(spec));
        }
    }
    problems.extend(infinite_clips());
    problems
}

/// Clips that are infinite in float32, which means no clip, and activations that would be NaN at infinity:
/// `∞ / (1 + ∞)` and `0 · ∞`.
fn infinite_clips() -> [Problem; 2] {
    let none = Activation::LeakyRelu { alpha: 0.0 };
    let after = [none, Activation::Sigmoid, Activation::Softsign];
    let before = [Activation::Softsign, Activation::Softsign, none];
    let [rule_after, .., rule_before, _] = rules();
    [
        (rule_after, after, [f64::INFINITY, 1e39]),
        (rule_before, before, [1e39, f64::INFINITY]),
    ]
    .map(|(rules, activations, [gates, state])| {
        let spec = rules
            .with_activations(activations.into())
            .with_clip_gates(Some(gates))
            .with_clip_state(Some(state));
        Problem::new(2, 3, 2, 5).with_spec(spec)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique() {
        let problems = catalogue();
        let ids: BTreeSet<_> = problems.iter().map(Problem::id).collect();
        assert_eq!(ids.len(), problems.len());
    }
}
