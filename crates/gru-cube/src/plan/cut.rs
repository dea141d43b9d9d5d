//! How a recurrence is cut into cubes: plain data, and its text.

use core::{fmt, str::FromStr};

/// The cut of a walk: one launch, in which every cube takes some rows of the batch through all
/// steps.
///
/// A cube has `lanes · splits` units. Lanes stand for neighbouring hidden units, splits for parts
/// of the recurrent product's sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WalkTile {
    /// Rows of the batch per cube.
    pub rows: usize,
    /// Rows in one vector of registers; divides `rows`, at most 4.
    pub width: usize,
    /// Units side by side along the hidden units.
    pub lanes: usize,
    /// Units that share one sum.
    pub splits: usize,
    /// `w_hh` stays in the registers of the cube for the whole walk.
    pub resident: bool,
}

/// The cut of a step: every cube makes a tile of the new state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StepTile {
    /// Rows of the batch per cube.
    pub rows: usize,
    /// Rows in one vector of registers; divides `rows`, at most 4.
    pub width: usize,
    /// Units side by side along the hidden units.
    pub lanes: usize,
    /// Hidden units per lane; a cube makes `lanes · per_lane` of them.
    pub per_lane: usize,
    /// Units that share one sum.
    pub splits: usize,
    /// Terms of the sum whose left sides are in shared memory at a time.
    pub stage: usize,
    /// The product is made by matrix units (tensor cores, cooperative matrices), and its sums in float32.
    /// Rows, columns and H are then multiples of the device's matrices, lanes of its planes. The left side is
    /// rounded to the type of the call. Where that is float32 and the device has no matrices of it,
    /// both sides are TF32, of 10 bits: no strategy but [`Strategy::Forced`] does that.
    pub matrix: bool,
}

/// A cut of a recurrence into launches and cubes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// One launch for all steps, whose cubes need nothing from each other: a fused recurrent kernel.
    Walk(WalkTile),
    /// One launch per product: one per step with the reset after it, two with the reset before it.
    Steps(StepTile),
    /// One launch for all steps: a persistent kernel. The cubes of the same rows together hold `w_hh`
    /// in their registers, and wait for each other after every product, at a barrier between cubes.
    /// Only where the device runs them all at the same time and shows them each other's writes, and on
    /// one stream at a time. If another program never lets go of the device, a cube that has waited for
    /// seconds gives up, and the call returns [`PlanError::GaveUp`](super::error::PlanError::GaveUp); to know, it waits for the device.
    Persistent(StepTile),
}

/// Which cut to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// By the sizes of the call, the limits of the device, and what was measured on it; never a
    /// persistent one.
    #[default]
    Inferred,
    /// As inferred, but a persistent one where the device seems to allow it. No interface that is used
    /// here promises that its cubes run at the same time, so only whoever asks for it gets it.
    Persistent,
    /// The fastest of some that the device allows, by CubeCL's autotune: timed at the first call of a
    /// size, which takes seconds, and remembered as its other results are. Which one that is may differ
    /// from run to run, and with it the last bits of the results.
    Tuned,
    /// This one, or an error if the device does not allow it.
    Forced(Cut),
}

/// `inferred`, `persistent`, `tuned`, or the cut that is forced.
impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inferred => f.write_str("inferred"),
            Self::Persistent => f.write_str("persistent"),
            Self::Tuned => f.write_str("tuned"),
            Self::Forced(cut) => cut.fmt(f),
        }
    }
}

/// `walk rows=4 width=4 lanes=128 splits=2 resident`, or without the last word;
/// `steps rows=8 width=4 lanes=32 per_lane=1 splits=4 stage=128`, the same with `matrix` as its last word,
/// and both as `persistent`.
impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, tile) = match self {
            Self::Walk(tile) => {
                let WalkTile {
                    rows,
                    width,
                    lanes,
                    splits,
                    resident,
                } = tile;
                let last = if *resident { " resident" } else { "" };
                return write!(
                    f,
                    "walk rows={rows} width={width} lanes={lanes} splits={splits}{last}"
                );
            }
            Self::Steps(tile) => ("steps", tile),
            Self::Persistent(tile) => ("persistent", tile),
        };
        let StepTile {
            rows,
            width,
            lanes,
            per_lane,
            splits,
            stage,
            matrix,
        } = tile;
        let last = if *matrix { " matrix" } else { "" };
        write!(
            f,
            "{kind} rows={rows} width={width} lanes={lanes} per_lane={per_lane} splits={splits} \
             stage={stage}{last}"
        )
    }
}

/// What [`Display`](fmt::Display) writes, its sizes in any order.
impl FromStr for Cut {
    type Err = CutError;

    fn from_str(text: &str) -> Result<Self, CutError> {
        let mut words = Words::new(text)?;
        let kind = words.kind;
        let cut = match kind {
            "walk" => Self::Walk(WalkTile {
                rows: words.size("rows")?,
                width: words.size("width")?,
                lanes: words.size("lanes")?,
                splits: words.size("splits")?,
                resident: words.flag("resident"),
            }),
            "steps" | "persistent" => {
                let tile = StepTile {
                    rows: words.size("rows")?,
                    width: words.size("width")?,
                    lanes: words.size("lanes")?,
                    per_lane: words.size("per_lane")?,
                    splits: words.size("splits")?,
                    stage: words.size("stage")?,
                    matrix: words.flag("matrix"),
                };
                match kind {
                    "steps" => Self::Steps(tile),
                    _ => Self::Persistent(tile),
                }
            }
            _ => return Err(words.error("a cut is a walk, steps or persistent")),
        };
        match words.rest.first() {
            None => Ok(cut),
            Some(word) => Err(words.error(&format!("{word} is too much"))),
        }
    }
}

/// The words of a cut's text that were not read yet.
struct Words<'a> {
    text: &'a str,
    kind: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Result<Self, CutError> {
        let mut words = text.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let rest = words.collect();
        Ok(Self { text, kind, rest })
    }

    fn error(&self, reason: &str) -> CutError {
        CutError {
            text: self.text.to_owned(),
            reason: reason.to_owned(),
        }
    }

    fn size(&mut self, name: &str) -> Result<usize, CutError> {
        let number = |word: &&str| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
        let at = self.rest.iter().position(|word| number(word).is_some());
        let at = at.ok_or_else(|| self.error(&format!("no {name}=NUMBER")))?;
        Ok(number(&self.rest.remove(at)).expect("as just seen"))
    }

    fn flag(&mut self, name: &str) -> bool {
        let at = self.rest.iter().position(|word| *word == name);
        at.map(|at| self.rest.remove(at)).is_some()
    }
}

/// A text is no cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutError {
    /// The text.
    pub text: String,
    /// What it lacks, or has too much.
    pub reason: String,
}

impl fmt::Display for CutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, reason } = self;
        write!(
            f,
            "{text:?} is no cut: {reason}; expected one like \"walk rows=4 width=4 lanes=64 splits=2\""
        )
    }
}

impl core::error::Error for CutError {}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: StepTile = StepTile {
        rows: 8,
        width: 4,
        lanes: 32,
        per_lane: 2,
        splits: 3,
        stage: 128,
        matrix: false,
    };

    #[test]
    fn text_out_and_in() {
        let walk = |resident| {
            Cut::Walk(WalkTile {
                rows: 4,
                width: 2,
                lanes: 64,
                splits: 3,
                resident,
            })
        };
        for (cut, text) in [
            (walk(true), "walk rows=4 width=2 lanes=64 splits=3 resident"),
            (walk(false), "walk rows=4 width=2 lanes=64 splits=3"),
            (
                Cut::Steps(STEPS),
                "steps rows=8 width=4 lanes=32 per_lane=2 splits=3 stage=128",
            ),
            (
                Cut::Steps(StepTile {
                    matrix: true,
                    ..STEPS
                }),
                "steps rows=8 width=4 lanes=32 per_lane=2 splits=3 stage=128 matrix",
            ),
            (
                Cut::Persistent(STEPS),
                "persistent rows=8 width=4 lanes=32 per_lane=2 splits=3 stage=128",
            ),
        ] {
            assert_eq!(cut.to_string(), text);
            assert_eq!(text.parse(), Ok(cut));
        }
        let other_order = "steps stage=128 splits=3 per_lane=2 lanes=32 width=4 rows=8";
        assert_eq!(other_order.parse(), Ok(Cut::Steps(STEPS)));
    }

    #[test]
    fn what_is_no_cut_is_refused() {
        for (text, reason) in [
            ("", "a cut is a walk, steps or persistent"),
            ("run rows=1", "a cut is a walk, steps or persistent"),
            ("walk", "no rows=NUMBER"),
            ("walk rows=four width=1 lanes=8 splits=1", "no rows=NUMBER"),
            ("walk rows=-1 width=1 lanes=8 splits=1", "no rows=NUMBER"),
            (
                "walk rows=1 width=1 lanes=8 splits=1 stage=8",
                "stage=8 is too much",
            ),
            (
                "walk rows=1 width=1 lanes=8 splits=1 matrix",
                "matrix is too much",
            ),
            (
                "walk rows=1 width=1 lanes=8 splits=1 rows=2",
                "rows=2 is too much",
            ),
        ] {
            let error = text.parse::<Cut>().unwrap_err();
            assert_eq!(error.reason, reason, "{text}");
        }
    }
}
