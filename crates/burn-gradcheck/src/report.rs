//! The result of a check, and its text.

use std::fmt;

/// The result of a check. `{}` prints one line for each input and each kink.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use = "a report fails no test before `assert`"]
pub struct Report {
    /// In the order in which they were added.
    pub inputs: Vec<InputReport>,
    /// The value of the function at the given inputs: the sum of its weighted outputs. A single output has the weight 1.
    pub value: f64,
    /// Whether a second call returned the same value.
    pub repeats: bool,
}

/// The result for one input.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InputReport {
    /// Its name.
    pub name: String,
    /// What was compared.
    pub finding: Finding,
    /// The number of compared values: none of a constant.
    pub compared: usize,
    /// The allowed error.
    pub allowed: f64,
    /// The element with the largest error, among the failed elements if there are any. Elements at a
    /// kink are not included.
    pub worst: Option<Element>,
    /// All elements with a larger error than allowed.
    pub failed: Vec<Element>,
    /// All elements at a kink. They are not failures.
    pub kinks: Vec<Element>,
}

/// What was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A gradient.
    Compared,
    /// No gradient, which counts as zeros.
    Absent,
    /// No gradient, for a constant.
    Constant,
    /// A gradient for a constant. A failure.
    Unexpected,
    /// A gradient of another shape than its input. A failure.
    Shape {
        /// The shape of the input.
        expected: Vec<usize>,
        /// The shape of the gradient.
        actual: Vec<usize>,
    },
}

/// One value of a gradient.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Element {
    /// The index.
    pub index: Vec<usize>,
    /// The gradient by autodiff.
    pub gradient: f64,
    /// The slope of the function, from both sides.
    pub difference: f64,
    /// The slope from the left only.
    pub left: f64,
    /// The slope from the right only.
    pub right: f64,
}

impl Report {
    /// Whether every gradient is correct, the value is finite, and a second call returned the same value.
    pub fn passed(&self) -> bool {
        self.value.is_finite() && self.repeats && self.inputs.iter().all(InputReport::passed)
    }

    /// Panics with the complete report if the check failed.
    ///
    /// # Panics
    /// If the check failed.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.passed(), "gradients are wrong:\n{self}");
    }

    /// The result for the input with this name.
    pub fn input(&self, name: &str) -> Option<&InputReport> {
        self.inputs.iter().find(|input| input.name == name)
    }
}

impl InputReport {
    /// An empty result.
    pub(crate) fn new(name: &str, finding: Finding) -> Self {
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

    /// Whether the gradient is correct, or correctly absent.
    pub fn passed(&self) -> bool {
        let compared = !matches!(self.finding, Finding::Unexpected | Finding::Shape { .. });
        compared && self.failed.is_empty()
    }
}

impl Element {
    /// The distance between gradient and difference.
    pub fn error(&self) -> f64 {
        (self.gradient - self.difference).abs()
    }

    /// The element with the larger error. A NaN is the largest error.
    pub(crate) fn worse(other: Option<Self>, element: &Self) -> Option<Self> {
        match other {
            Some(other) if other.error().total_cmp(&element.error()).is_ge() => Some(other),
            _ => Some(element.clone()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.value.is_finite() {
            writeln!(f, "FAILED: the value of the function is {}", self.value)?;
        }
        if !self.repeats && !self.value.is_nan() {
            writeln!(
                f,
                "FAILED: a second call of the function returned another value"
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
            Finding::Constant => return write!(f, "constant, no gradient"),
            Finding::Unexpected => {
                return write!(f, "FAILED: expected no gradient of a constant, got one");
            }
            Finding::Shape { expected, actual } => {
                return write!(
                    f,
                    "FAILED: expected a gradient of shape {expected:?}, got {actual:?}"
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
                "\n  a kink at {:?}: gradient {:e}, slopes {left:e} and {right:e}",
                kink.index, kink.gradient
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {:?}: gradient {:e}, difference {:e}, off by {:.1e}",
            self.index,
            self.gradient,
            self.difference,
            self.error()
        )
    }
}
