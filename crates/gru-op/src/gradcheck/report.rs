//! What a check found, and how it says so.

use std::fmt;

/// What a check found. Shown by `{}`, one line for each input and each kink.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// In the order in which they were added.
    pub inputs: Vec<InputReport>,
    /// The function at the inputs as they were given, outputs summed under their weights.
    pub value: f64,
    /// Whether a second call gave the same value.
    pub repeats: bool,
}

/// What was found of one input.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InputReport {
    /// Its name.
    pub name: String,
    /// What there was to compare.
    pub finding: Finding,
    /// How many numbers or directions were compared.
    pub compared: usize,
    /// How far a gradient could be off.
    pub allowed: f64,
    /// The one that is off most: of the failed, if any did; none at a kink.
    pub worst: Option<Element>,
    /// All that are off by more than allowed.
    pub failed: Vec<Element>,
    /// All that lie at a kink. They are not failures.
    pub kinks: Vec<Element>,
}

/// What there was to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A gradient.
    Compared,
    /// No gradient, which is right only where all differences are zero.
    Absent,
    /// An input that got no gradient, and was to get none.
    Constant,
    /// A gradient of an input that was to get none. A failure.
    Unasked,
    /// A gradient of another shape than its input. A failure.
    Shape {
        /// The shape of the input.
        expected: Vec<usize>,
        /// The shape of the gradient.
        actual: Vec<usize>,
    },
}

/// One number of a gradient, or the whole of it along one direction.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Element {
    /// Where.
    pub place: Place,
    /// What autodiff says.
    pub gradient: f64,
    /// What the function does.
    pub difference: f64,
    /// Its slope from the left alone.
    pub left: f64,
    /// Its slope from the right alone.
    pub right: f64,
}

/// Which part of a gradient.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The number at this index.
    Index(Vec<usize>),
    /// The sum along a random direction.
    Direction {
        /// What the direction was drawn from.
        seed: u64,
    },
}

impl Report {
    /// Whether every gradient is right, where there is one to compare with.
    pub fn passed(&self) -> bool {
        self.value.is_finite() && self.repeats && self.inputs.iter().all(InputReport::passed)
    }

    /// Panics with the whole report unless all is right.
    ///
    /// # Panics
    /// If the check failed.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.passed(), "gradients are wrong:\n{self}");
    }

    /// What was found of the input of this name.
    pub fn input(&self, name: &str) -> Option<&InputReport> {
        self.inputs.iter().find(|input| input.name == name)
    }
}

impl InputReport {
    /// Nothing compared yet.
    pub(super) fn new(name: &str, finding: Finding) -> Self {
        Self {
            name: name.into(),
            finding,
            compared: 0,
            allowed: 0.0,
            worst: None,
            failed: Vec::new(),
            kinks: Vec::new(),
        }
    }

    /// Whether the gradient is right, or rightly absent.
    pub fn passed(&self) -> bool {
        let compared = !matches!(self.finding, Finding::Unasked | Finding::Shape { .. });
        compared && self.failed.is_empty()
    }
}

impl Element {
    /// How far the gradient is from the difference.
    pub fn error(&self) -> f64 {
        (self.gradient - self.difference).abs()
    }

    /// The one that is farther off; NaN is farthest.
    pub(super) fn worse(other: Option<Self>, element: &Self) -> Option<Self> {
        match other {
            Some(other) if other.error().total_cmp(&element.error()).is_ge() => Some(other),
            _ => Some(element.clone()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.value.is_finite() {
            writeln!(f, "FAILED: the function is {} here", self.value)?;
        }
        if !self.repeats && !self.value.is_nan() {
            writeln!(
                f,
                "FAILED: a second call of the function gave another value"
            )?;
        }
        for (line, input) in self.inputs.iter().enumerate() {
            if line > 0 {
                writeln!(f)?;
            }
            write!(f, "{input}")?;
        }
        Ok(())
    }
}

impl fmt::Display for InputReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match &self.finding {
            Finding::Constant => return write!(f, "no gradient, and none asked for"),
            Finding::Unasked => return write!(f, "FAILED: a gradient, though none was asked for"),
            Finding::Shape { expected, actual } => {
                return write!(
                    f,
                    "FAILED: a gradient of shape {actual:?}, expected {expected:?}"
                );
            }
            Finding::Absent => write!(f, "no gradient; ")?,
            Finding::Compared => {}
        }
        match self.failed.len() {
            0 => write!(f, "{} compared", self.compared)?,
            failed => write!(f, "FAILED: {failed} of {}", self.compared)?,
        }
        if let Some(worst) = &self.worst {
            write!(f, ", worst {worst}, allowed {:.1e}", self.allowed)?;
        }
        for kink in &self.kinks {
            let Element { left, right, .. } = kink;
            write!(
                f,
                "\n  a kink {}: gradient {:e}, slopes {left:e} and {right:e}",
                kink.place, kink.gradient
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: gradient {:e}, difference {:e}, off by {:.1e}",
            self.place,
            self.gradient,
            self.difference,
            self.error()
        )
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "at {index:?}"),
            Self::Direction { seed } => write!(f, "along the direction of seed {seed}"),
        }
    }
}
