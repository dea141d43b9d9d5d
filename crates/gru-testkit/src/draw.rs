//! The values of a case, and the expected results.

use gru_spec::{Activations, Inputs, Layout, Sequence, Sizes, Weights};

use crate::{
    case::{Case, Edge, Given, Starts, Steps, Zoneout},
    close::{Outcome, Tensors},
    oracle::{Call, Skipped},
    random::numbers,
};

/// Minimum distance of every pre-activation and state from a kink of its function. Float32 moves a pre-activation by
/// about 1e-6.
const MARGIN: f64 = 1e-5;

/// Bound of the outputs. Some activations allow growth without bound, and large values would hide all others.
const BOUND: f64 = 4.0;

/// Maximum number of draws. Only a case with too many kinks for its size reaches it.
const ATTEMPTS: u64 = 20_000;

/// The inputs whose values are flags and shares.
const WITHOUT_GRADIENT: [&str; 4] = ["recurrent_mask", "step_mask", "zoneout", "starts"];

/// The values of a case, flat and row-major. They are exact in float32, and distinct in tensors with a gradient.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// The inputs. `x` is NaN at skipped steps, where it may hold anything.
    pub call: Call,
    /// The number of steps of each row, if rows have different lengths. `step_mask` is then the mask of these steps.
    pub lengths: Option<Vec<usize>>,
    /// Upstream gradient of every output, `[N,T,H]` or `[T,N,H]`.
    pub d_y: Vec<f64>,
    /// Upstream gradient of the final state, `[N,H]`.
    pub d_h_t: Vec<f64>,
    /// Whether all rows have one start state, whose gradient is the sum over all rows.
    pub shared_start: bool,
}

impl Case {
    /// Random values, equal for a case on every machine.
    ///
    /// # Panics
    /// If no draw keeps the values away from the kinks of the activations and clips.
    pub fn draw(&self) -> Drawn {
        self.draw_with_margin(MARGIN)
    }

    /// [`draw`](Self::draw) with another distance from kinks.
    pub(crate) fn draw_with_margin(&self, margin: f64) -> Drawn {
        let spec = &self.spec;
        let is_smooth = spec.activations == Activations::default()
            && spec.clip_gates.is_none()
            && spec.clip_state.is_none();
        let is_checkable = |drawn: &Drawn| {
            // Smooth and bounded functions need no check.
            is_smooth || {
                let run = drawn.call.forward();
                run.kink_distance() > margin && run.y.iter().all(|y| y.abs() < BOUND)
            }
        };
        let mut drawn = (0..ATTEMPTS)
            .map(|attempt| self.attempt(attempt))
            .find(is_checkable)
            .unwrap_or_else(|| panic!("{}: no draw keeps its distance from kinks", self.id()));
        drawn.apply(&self.edge);
        drawn.hide_skipped();
        drawn
    }

    fn attempt(&self, attempt: u64) -> Drawn {
        let Sizes { n, t, i, h } = self.sizes;
        let Given { steps, starts, .. } = self.given;
        let seed = self.seed();
        let uniform = |name: &str, len: usize, scale: f64| -> Vec<f64> {
            let values = numbers(&format!("{seed}/{name}/{attempt}"), len, scale);
            if self.is_16_bit {
                values.into_iter().map(round_to_8_bits).collect()
            } else {
                values
            }
        };
        let vector = |is_given: bool, name: &str, len: usize, scale: f64| {
            is_given.then(|| uniform(name, len, scale))
        };
        // Pre-activations of about ±2. They leave the linear range, so a wrong derivative is visible, and gradients
        // do not vanish.
        let weight = |inputs: usize| 2.0 / (inputs.max(1) as f64).sqrt();
        let per_step = |flag: &dyn Fn(usize, usize) -> bool| -> Vec<f64> {
            let place = |at: usize| match self.order.layout {
                Layout::BatchMajor => (at / t, at % t),
                Layout::TimeMajor => (at % n, at / n),
            };
            let places = (0..n * t).map(place);
            places
                .map(|(row, time)| f64::from(flag(row, time)))
                .collect()
        };
        let lengths: Option<Vec<usize>> = match steps {
            Steps::All | Steps::Mask => None,
            Steps::Lengths => Some((0..n).map(|row| length(row, n, t)).collect()),
            Steps::ShortLengths => Some((0..n).map(|row| length(row, n, t / 3)).collect()),
            Steps::SortedLengths => {
                let mut lengths: Vec<_> = (0..n).map(|row| length(row, n, t)).collect();
                lengths.sort_by(|a, b| b.cmp(a));
                Some(lengths)
            }
        };
        let is_valid = |row: usize, time: usize| match &lengths {
            Some(lengths) => time < lengths[row],
            // Row 1 has no valid step. Row 2 begins and ends with skipped steps.
            None => {
                row != 1
                    && !(row == 2 && (time == 0 || time == t - 1))
                    && !(row + 2 * time).is_multiple_of(3)
            }
        };
        let shared_start = starts == Starts::Shared;
        let sequence = Sequence {
            x: uniform("x", n * t * if self.given.w_ih { i } else { 3 * h }, 1.5),
            h0: vector(self.given.h0, "h0", n * h, 0.8),
            recurrent_mask: self.given.recurrent_mask.then(|| {
                let scale = |k: usize| {
                    if k.is_multiple_of(4) {
                        0.0
                    } else {
                        0.5 + share(k)
                    }
                };
                (0..n * h).map(scale).collect()
            }),
            step_mask: (steps != Steps::All).then(|| per_step(&is_valid)),
            zoneout: match self.given.zoneout {
                Zoneout::None => None,
                Zoneout::PerStep => Some((0..n * t).map(share).collect()),
                Zoneout::PerUnit => Some((0..n * t * h).map(share).collect()),
            },
            starts: (starts != Starts::None).then(|| {
                // Row 0 starts at time 0, row 3 twice in a row. A start past the end of a row has no effect.
                per_step(&|row, time| {
                    let starts = (row, time) == (0, 0)
                        || (row, time) == (3, 2)
                        || (row + time).is_multiple_of(4) && time > 0;
                    starts && (lengths.is_none() || is_valid(row, time))
                })
            }),
            start_state: match starts {
                Starts::None | Starts::Zeros => None,
                Starts::States => Some(uniform("start_state", n * h, 0.8)),
                Starts::Shared => Some(uniform("start_state", h, 0.8).repeat(n)),
            },
        };
        let weights = Weights {
            w_ih: vector(self.given.w_ih, "w_ih", i * 3 * h, weight(i)),
            w_hh: uniform("w_hh", h * 3 * h, weight(h)),
            b_ih: vector(self.given.b_ih, "b_ih", 3 * h, 0.5),
            b_hh: vector(self.given.b_hh, "b_hh", 3 * h, 0.5),
        };
        Drawn {
            call: Call {
                order: self.order,
                skipped: match lengths {
                    Some(_) => Skipped::Zero,
                    None => Skipped::Repeats,
                },
                ..Call::new(self.sizes, self.spec, Inputs { sequence, weights })
            },
            lengths,
            d_y: uniform("d_y", n * t * h, 1.0),
            d_h_t: uniform("d_h_t", n * h, 1.0),
            shared_start,
        }
    }
}

impl Drawn {
    /// A call with given values, without lengths.
    pub fn new(call: Call, d_y: Vec<f64>, d_h_t: Vec<f64>) -> Self {
        Self {
            call,
            lengths: None,
            d_y,
            d_h_t,
            shared_start: false,
        }
    }

    /// Fills a sequence, `[N,T,·]` or `[T,N,·]`, at skipped steps.
    pub fn fill_skipped<E: Copy>(&self, values: &mut [E], with: E) {
        let valid = self.call.inputs.sequence.step_mask.as_deref();
        let valid = valid.unwrap_or_default();
        let width = values.len() / valid.len().max(1);
        for (row, _) in valid.iter().enumerate().filter(|(_, valid)| **valid == 0.0) {
            values[row * width..][..width].fill(with);
        }
    }

    fn hide_skipped(&mut self) {
        let mut x = std::mem::take(&mut self.call.inputs.sequence.x);
        self.fill_skipped(&mut x, f64::NAN);
        self.call.inputs.sequence.x = x;
    }

    fn apply(&mut self, edge: &Edge) {
        let call = &mut self.call;
        match edge {
            Edge::None => {}
            Edge::Zero => call.each_input(|_, values| values.fill(0.0)),
            Edge::Subnormal => call.each_input(|name, values| {
                if !WITHOUT_GRADIENT.contains(&name) {
                    let small = |value: &mut f64| *value = f64::from((*value * 1e-39) as f32);
                    values.iter_mut().for_each(small);
                }
            }),
            Edge::Saturated => call.each_input(|name, values| {
                if name == "w_ih" {
                    values.iter_mut().for_each(|weight| *weight *= 16.0);
                }
            }),
            Edge::Value {
                tensor,
                value,
                last,
            } => {
                let mut is_there = false;
                let mut set = |values: &mut [f64]| {
                    let middle = values.len() * 5 / 9;
                    values[if *last { values.len() - 1 } else { middle }] = *value;
                    is_there = true;
                };
                call.each_input(|name, values| {
                    if name == tensor {
                        set(values);
                    }
                });
                if tensor == "d_y" {
                    set(&mut self.d_y);
                }
                assert!(is_there, "{tensor}: expected a tensor of the case");
            }
        }
    }

    /// The same for a kernel, which returns the state after every step. A skipped step has the previous state, or with
    /// lengths zero, and only states have an upstream gradient.
    pub(crate) fn for_kernel(mut self) -> Self {
        self.d_h_t.fill(0.0);
        if self.lengths.is_some() {
            let mut d_y = std::mem::take(&mut self.d_y);
            self.fill_skipped(&mut d_y, 0.0);
            self.d_y = d_y;
        } else {
            self.call.skipped = Skipped::State;
        }
        self
    }

    /// The results of the oracle, by name: outputs `y` and `h_t`, and the gradients of all inputs that have one.
    pub fn expected(&self) -> Outcome {
        let mut outcome = self.call.outcome(&self.d_y, &self.d_h_t);
        if let (true, Some(d)) = (self.shared_start, outcome.gradients.get_mut("start_state")) {
            let h = self.call.sizes.h;
            let of_unit = |unit| d.iter().skip(unit).step_by(h).sum();
            *d = (0..h).map(of_unit).collect();
        }
        outcome
    }

    /// The results of the oracle for a kernel: the states, and the gates as kernels save them.
    pub(crate) fn expected_of_kernel(&self) -> Outcome {
        let forward = self.call.forward();
        let gradients = forward.gradients(&self.d_y, &[]);
        let gates = forward.saved(&self.call);
        Outcome {
            outputs: Tensors::from([("states".into(), forward.y), ("gates".into(), gates)]),
            gradients,
        }
    }
}

/// Lengths in no order, with zero, repeated and full ones. A single row is shorter than the sequence.
fn length(row: usize, n: usize, t: usize) -> usize {
    match n {
        1 => (2 * t).div_ceil(3),
        _ => [4, 0, 6, 1, 4][row % 5] * t / 6,
    }
}

/// Multiples of 1/16 from 0 to 1.
fn share(k: usize) -> f64 {
    ((k * 37 + 11) % 17) as f64 / 16.0
}

/// Rounds to 8 significant bits. Values that float16 would not hold exactly become zero.
fn round_to_8_bits(value: f64) -> f64 {
    if value.abs() < 1.0 / 16384.0 {
        return 0.0;
    }
    let unit = f64::exp2(value.abs().log2().floor() - 7.0);
    (value / unit).round_ties_even() * unit
}
