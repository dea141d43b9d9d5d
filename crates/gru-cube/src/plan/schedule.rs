//! A schedule: how a recurrence is divided into launches, cubes and threads. Plain data, and its text.

use core::{fmt, str::FromStr};

/// Schedule of a fused sequence kernel: one launch, in which every cube computes all steps of some rows.
///
/// A cube has `n_threads · k_splits` threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct SequenceTile {
    /// Rows of the batch per cube.
    pub rows: usize,
    /// Rows in one vector of registers: 1, 2 or 4, a divisor of `rows`.
    pub width: usize,
    /// Threads along the hidden units.
    pub n_threads: usize,
    /// Threads that share the sum of one hidden unit.
    pub k_splits: usize,
    /// `w_hh` stays in the registers of the cube during the whole launch.
    pub resident: bool,
}

/// Schedule of a step kernel: every cube computes a tile of the new state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct StepTile {
    /// Rows of the batch per cube.
    pub rows: usize,
    /// Rows in one vector of registers: 1, 2 or 4, a divisor of `rows`.
    pub width: usize,
    /// Threads along the hidden units.
    pub n_threads: usize,
    /// Hidden units per thread: a cube computes `n_threads · n_per_thread` of them. With `matrix`, matrices of a plane along
    /// the hidden units.
    pub n_per_thread: usize,
    /// Threads that share the sum of one hidden unit.
    pub k_splits: usize,
    /// Terms of the sum whose lhs is in shared memory at the same time.
    pub block_k: usize,
    /// Matrix units (tensor cores, cooperative matrices) compute the product, with sums in float32.
    ///
    /// Rows and H must be multiples of the device's matrices, and `n_threads` of its plane size.
    /// The lhs is rounded to the type of the call. For float32 on a device without float32 matrices both
    /// factors are TF32, which has 10 bits of mantissa. Only [`Strategy::Forced`] does that.
    pub matrix: bool,
}

/// How a recurrence is divided into launches and cubes: its launch configuration. It is parsed from a text, such as
/// `sequence rows=4 width=4 n_threads=64 k_splits=2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Schedule {
    /// A fused sequence kernel: one launch for all steps. Cubes are independent.
    Sequence(SequenceTile),
    /// One launch per product: one per step with the reset after the product, two with the reset before it.
    Steps(StepTile),
    /// A persistent kernel: one launch for all steps. The cubes of the same rows keep `w_hh` in their registers, and
    /// synchronize after every product with a grid barrier. Matrix units read a `w_hh` that needs too many registers at
    /// every step.
    ///
    /// The device must run all cubes at the same time and make their writes visible to each other. If it
    /// does not, the barrier times out after about a second, and the results are NaN. A process runs one
    /// persistent kernel at a time on a device: a call waits for one in another stream.
    Persistent(StepTile),
}

/// How a schedule is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// From the sizes of the call and the limits of the device.
    #[default]
    Inferred,
    /// The same without persistent kernels: cubes do not wait for each other, even if another program uses the device.
    Independent,
    /// This one, or an error if the device does not allow it.
    Forced(Schedule),
}

/// `inferred`, `independent`, or the forced schedule.
impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inferred => f.write_str("inferred"),
            Self::Independent => f.write_str("independent"),
            Self::Forced(schedule) => schedule.fmt(f),
        }
    }
}

/// The parts of a schedule's text: sizes by name, and a word that may be the last.
type Parts<'a> = (
    Vec<(&'static str, &'a mut usize)>,
    &'static str,
    &'a mut bool,
);

impl Schedule {
    fn kind(&self) -> &'static str {
        match self {
            Self::Sequence(_) => "sequence",
            Self::Steps(_) => "steps",
            Self::Persistent(_) => "persistent",
        }
    }

    fn parts(&mut self) -> Parts<'_> {
        match self {
            Self::Sequence(tile) => {
                let sizes = vec![
                    ("rows", &mut tile.rows),
                    ("width", &mut tile.width),
                    ("n_threads", &mut tile.n_threads),
                    ("k_splits", &mut tile.k_splits),
                ];
                (sizes, "resident", &mut tile.resident)
            }
            Self::Steps(tile) | Self::Persistent(tile) => {
                let sizes = vec![
                    ("rows", &mut tile.rows),
                    ("width", &mut tile.width),
                    ("n_threads", &mut tile.n_threads),
                    ("n_per_thread", &mut tile.n_per_thread),
                    ("k_splits", &mut tile.k_splits),
                    ("block_k", &mut tile.block_k),
                ];
                (sizes, "matrix", &mut tile.matrix)
            }
        }
    }
}

/// `sequence rows=4 width=4 n_threads=128 k_splits=2`, optionally with `resident` as the last word;
/// `steps rows=8 width=4 n_threads=32 n_per_thread=1 k_splits=4 block_k=128`, optionally with `matrix`; and
/// the same as `persistent`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        let mut copy = *self;
        let (sizes, last, has_last) = copy.parts();
        for (name, size) in sizes {
            write!(f, " {name}={size}")?;
        }
        if *has_last {
            write!(f, " {last}")?;
        }
        Ok(())
    }
}

/// Reads the text that [`Display`](fmt::Display) writes. Sizes may be in any order.
impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        parse(text).map_err(|reason| ScheduleError {
            text: text.to_owned(),
            reason,
        })
    }
}

fn parse(text: &str) -> Result<Schedule, String> {
    let mut words = text.split_whitespace();
    let mut schedule = match words.next().unwrap_or_default() {
        "sequence" => Schedule::Sequence(SequenceTile::default()),
        "steps" => Schedule::Steps(StepTile::default()),
        "persistent" => Schedule::Persistent(StepTile::default()),
        kind => {
            return Err(format!(
                "expected sequence, steps or persistent, got {kind:?}"
            ));
        }
    };
    let mut words: Vec<&str> = words.collect();
    let (sizes, last, has_last) = schedule.parts();
    for (name, size) in sizes {
        let number = |word: &str| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
        let at = words.iter().position(|word| number(word).is_some());
        let at = at.ok_or_else(|| format!("expected {name}=NUMBER"))?;
        *size = number(words.remove(at)).expect("a number");
    }
    words.retain(|word| {
        let is_last = *word == last && !*has_last;
        *has_last |= is_last;
        !is_last
    });
    match words.first() {
        None => Ok(schedule),
        Some(word) => Err(format!("unexpected {word:?}")),
    }
}

/// A text is not a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "schedule {text:?}: {reason}; an example is \"sequence rows=4 width=4 n_threads=64 k_splits=2\""
)]
pub struct ScheduleError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: StepTile = StepTile {
        rows: 8,
        width: 4,
        n_threads: 32,
        n_per_thread: 2,
        k_splits: 3,
        block_k: 128,
        matrix: false,
    };

    #[test]
    fn text_round_trips() {
        let sequence = |resident| {
            Schedule::Sequence(SequenceTile {
                rows: 4,
                width: 2,
                n_threads: 64,
                k_splits: 3,
                resident,
            })
        };
        let steps = "rows=8 width=4 n_threads=32 n_per_thread=2 k_splits=3 block_k=128";
        let matrix = StepTile {
            matrix: true,
            ..STEPS
        };
        for (schedule, text) in [
            (
                sequence(true),
                "sequence rows=4 width=2 n_threads=64 k_splits=3 resident".to_owned(),
            ),
            (
                sequence(false),
                "sequence rows=4 width=2 n_threads=64 k_splits=3".to_owned(),
            ),
            (Schedule::Steps(STEPS), format!("steps {steps}")),
            (Schedule::Steps(matrix), format!("steps {steps} matrix")),
            (Schedule::Persistent(STEPS), format!("persistent {steps}")),
        ] {
            assert_eq!(schedule.to_string(), text);
            assert_eq!(text.parse(), Ok(schedule));
        }
        let other_order = "steps block_k=128 k_splits=3 n_per_thread=2 n_threads=32 width=4 rows=8";
        assert_eq!(other_order.parse(), Ok(Schedule::Steps(STEPS)));
    }

    #[test]
    fn other_texts_are_errors() {
        let sequence = "sequence rows=1 width=1 n_threads=8 k_splits=1";
        for (text, reason) in [
            ("", "expected sequence, steps or persistent, got \"\""),
            (
                "run rows=1",
                "expected sequence, steps or persistent, got \"run\"",
            ),
            ("sequence", "expected rows=NUMBER"),
            ("sequence rows=four width=1", "expected rows=NUMBER"),
            ("sequence rows=-1 width=1", "expected rows=NUMBER"),
            (&format!("{sequence} block_k=8"), "unexpected \"block_k=8\""),
            (&format!("{sequence} matrix"), "unexpected \"matrix\""),
            (&format!("{sequence} rows=2"), "unexpected \"rows=2\""),
        ] {
            let error = text.parse::<Schedule>().unwrap_err();
            assert_eq!(error.reason, reason, "{text}");
        }
    }
}
