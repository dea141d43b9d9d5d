//! What a test case is: one call of a GRU, in words.
//!
//! | words | meaning |
//! |---|---|
//! | `N5` `T6` `I3` `H7` | sizes, these if absent |
//! | `before` `takes` `time` `reverse` `lean` | the reset before the product, the other update, time-major, backward in time, recomputed gates |
//! | `clip-gates` `clip-state` `clips-infinite` | clips that some values reach, and clips that are infinite in float32 |
//! | `activations-0` … `activations-11` | each activation in each gate |
//! | `projected` `no-b_ih` `no-b_hh` `no-h0` | without `w_ih`, a bias or the initial state |
//! | `mask` | a recurrent mask |
//! | `skips` `lengths` `short-lengths` `sorted-lengths` | skipped steps, or rows of different lengths |
//! | `zoneout-per-step` `zoneout-per-unit` | zoneout `[N,T,1]` or `[N,T,H]` |
//! | `start-zeros` `start-states` `start-shared` | starts from zeros, from a state for each row, or from one state |
//! | `zero` `subnormal` `saturated` | all values are so |
//! | `nan-in-x` `inf-in-w_hh` `neginf-in-last-of-h0` | one value in the middle or at the end of an input, or of `d_y` |
//! | `16-bits` | all values are exact in float16 and bfloat16 |
//! | `+…` | how a backend runs the case. It does not change the case |

use gru_spec::{
    Activation, Checkpointing, Direction, GruSpec, Layout, Order, Reset, Sizes, Update,
};

use crate::activations::ACTIVATIONS;

/// Which steps are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// All.
    All,
    /// Those of a mask. One row has no valid step.
    Mask,
    /// Those before the end of each row. One row has no step.
    Lengths,
    /// As `Lengths`, and no row is longer than a third of the sequence.
    ShortLengths,
    /// As `Lengths`, and the longest row comes first.
    SortedLengths,
}

/// The shape of the zoneout tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zoneout {
    /// There is none.
    None,
    /// `[N,T,1]`.
    PerStep,
    /// `[N,T,H]`.
    PerUnit,
}

/// The states with which rows start new sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// There are no starts.
    None,
    /// Zeros.
    Zeros,
    /// A state for each row.
    States,
    /// One state for all rows, whose gradient is the sum over all rows.
    Shared,
}

/// Which optional tensors a case has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names of the tensors.
pub struct Given {
    pub w_ih: bool,
    pub b_ih: bool,
    pub b_hh: bool,
    pub h0: bool,
    pub recurrent_mask: bool,
    pub steps: Steps,
    pub zoneout: Zoneout,
    pub starts: Starts,
}

/// Special values.
#[derive(Debug, Clone, PartialEq)]
pub enum Edge {
    /// There are none.
    None,
    /// All values are zero.
    Zero,
    /// All inputs are subnormal in float32.
    Subnormal,
    /// Pre-activations of tens, from the input product.
    Saturated,
    /// One value of a tensor.
    Value {
        /// The name of an input, or `d_y`.
        tensor: String,
        /// The value.
        value: f64,
        /// Whether it is the last value instead of a value in the middle.
        last: bool,
    },
}

/// One call of a GRU.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    words: Vec<String>,
    /// Batch size, steps, features and units.
    pub sizes: Sizes,
    /// What a step computes.
    pub spec: GruSpec,
    /// Memory layout and time direction.
    pub order: Order,
    /// What training keeps for backward.
    pub checkpointing: Checkpointing,
    /// Which optional tensors exist.
    pub given: Given,
    /// Special values.
    pub edge: Edge,
    /// Whether all values are exact in float16 and bfloat16.
    pub is_16_bit: bool,
}

impl Case {
    /// The case of these words, which spaces separate.
    ///
    /// # Panics
    /// If a word has no meaning.
    pub fn new(words: &str) -> Self {
        let mut case = Self {
            words: Vec::new(),
            sizes: Sizes {
                n: 5,
                t: 6,
                i: 3,
                h: 7,
            },
            spec: GruSpec::default(),
            order: Order::default(),
            checkpointing: Checkpointing::KeepGates,
            given: Given {
                w_ih: true,
                b_ih: true,
                b_hh: true,
                h0: true,
                recurrent_mask: false,
                steps: Steps::All,
                zoneout: Zoneout::None,
                starts: Starts::None,
            },
            edge: Edge::None,
            is_16_bit: false,
        };
        for word in words.split_whitespace() {
            let is_known = word.starts_with('+')
                || case.set(word).is_some()
                || case.set_size(word).is_some()
                || case.set_activations(word).is_some()
                || case.set_value(word).is_some();
            assert!(is_known, "{words}: expected a word of a case, got {word}");
            case.words.push(word.into());
        }
        case
    }

    /// The same with more words.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn with(&self, words: &str) -> Self {
        Self::new(&format!("{} {words}", self.words.join(" ")))
    }

    /// Whether the case has a word.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|own| own == word)
    }

    /// All words, joined.
    pub fn id(&self) -> String {
        if self.words.is_empty() {
            return "plain".into();
        }
        self.words.join("-").replace('+', "")
    }

    /// The words that determine the values.
    pub(crate) fn seed(&self) -> String {
        let own = self.words.iter().filter(|word| !word.starts_with('+'));
        own.map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    fn set(&mut self, word: &str) -> Option<()> {
        let (spec, given) = (&mut self.spec, &mut self.given);
        match word {
            "before" => spec.reset = Reset::BeforeMatmul,
            "takes" => spec.update = Update::Takes,
            "time" => self.order.layout = Layout::TimeMajor,
            "reverse" => self.order.direction = Direction::Reverse,
            "lean" => self.checkpointing = Checkpointing::Recompute,
            "clip-gates" => spec.clip_gates = Some(0.75),
            "clip-state" => spec.clip_state = Some(0.25),
            "clips-infinite" => {
                // `∞ / (1 + ∞)` and `0 · ∞` would be NaN.
                let none = Activation::LeakyRelu { alpha: 0.0 };
                spec.activations = [none, Activation::Softsign, Activation::Softsign].into();
                (spec.clip_gates, spec.clip_state) = (Some(f64::INFINITY), Some(1e39));
            }
            "projected" => given.w_ih = false,
            "no-b_ih" => given.b_ih = false,
            "no-b_hh" => given.b_hh = false,
            "no-h0" => given.h0 = false,
            "mask" => given.recurrent_mask = true,
            "skips" => given.steps = Steps::Mask,
            "lengths" => given.steps = Steps::Lengths,
            "short-lengths" => given.steps = Steps::ShortLengths,
            "sorted-lengths" => given.steps = Steps::SortedLengths,
            "zoneout-per-step" => given.zoneout = Zoneout::PerStep,
            "zoneout-per-unit" => given.zoneout = Zoneout::PerUnit,
            "start-zeros" => given.starts = Starts::Zeros,
            "start-states" => given.starts = Starts::States,
            "start-shared" => given.starts = Starts::Shared,
            "zero" => self.edge = Edge::Zero,
            "subnormal" => self.edge = Edge::Subnormal,
            "saturated" => self.edge = Edge::Saturated,
            "16-bits" => self.is_16_bit = true,
            _ => return None,
        }
        Some(())
    }

    fn set_size(&mut self, word: &str) -> Option<()> {
        let (name, size) = word.split_at_checked(1)?;
        let of_case = match name {
            "N" => &mut self.sizes.n,
            "T" => &mut self.sizes.t,
            "I" => &mut self.sizes.i,
            "H" => &mut self.sizes.h,
            _ => return None,
        };
        *of_case = size.parse().ok()?;
        Some(())
    }

    fn set_activations(&mut self, word: &str) -> Option<()> {
        let first: usize = word.strip_prefix("activations-")?.parse().ok()?;
        let activation = |gate: usize| ACTIVATIONS[(first + gate) % ACTIVATIONS.len()];
        self.spec.activations = [0, 4, 8].map(activation).into();
        Some(())
    }

    fn set_value(&mut self, word: &str) -> Option<()> {
        let (value, tensor) = word.split_once("-in-")?;
        let value = match value {
            "nan" => f64::NAN,
            "inf" => f64::INFINITY,
            "neginf" => f64::NEG_INFINITY,
            _ => return None,
        };
        let of_last = tensor.strip_prefix("last-of-");
        self.edge = Edge::Value {
            tensor: of_last.unwrap_or(tensor).into(),
            value,
            last: of_last.is_some(),
        };
        Some(())
    }
}
