//! Runs cases on a backend and compares the results with the oracle.

use std::sync::OnceLock;

use crate::{
    case::{Case, Edge},
    close::{Outcome, Tolerance},
    draw::Drawn,
};

/// A backend that runs cases.
pub trait Runs {
    /// The outputs and gradients of a case, by the names of the expected results.
    ///
    /// # Errors
    /// If the backend does not support the case, or returns something else than results.
    fn run(&self, case: &Case, drawn: &Drawn) -> Result<Outcome, Stop>;
}

/// Why a case does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The backend does not support the case. A test reports it as ignored, with this reason.
    Unsupported(String),
    /// The results are wrong.
    Failed(String),
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

/// A case whose values and expected results are computed once, when a backend first runs it.
#[derive(Debug)]
pub struct Known {
    /// The case.
    pub case: Case,
    is_for_kernels: bool,
    truth: OnceLock<(Drawn, Outcome)>,
}

impl Known {
    /// For the operator: outputs `y` and `h_t`.
    pub fn new(case: Case) -> Self {
        Self {
            case,
            is_for_kernels: false,
            truth: OnceLock::new(),
        }
    }

    /// For a kernel: outputs `states` and `gates`. A skipped step has the previous state. Padding has states of zero,
    /// and the gates of both are NaN. Only the states have an upstream gradient.
    pub fn for_kernels(case: Case) -> Self {
        Self {
            is_for_kernels: true,
            ..Self::new(case)
        }
    }

    /// The values and the expected results.
    pub fn truth(&self) -> &(Drawn, Outcome) {
        self.truth.get_or_init(|| {
            let drawn = self.case.draw();
            if self.is_for_kernels {
                let drawn = drawn.for_kernel();
                let expected = drawn.expected_of_kernel();
                return (drawn, expected);
            }
            let expected = drawn.expected();
            (drawn, expected)
        })
    }

    /// Compares the results of a backend with the oracle, and those of saturated gates with
    /// [`Tolerance::saturated`].
    ///
    /// # Errors
    /// As [`Runs::run`], or if a result is not close.
    pub fn check(&self, backend: &impl Runs, tolerance: Tolerance) -> Result<(), Stop> {
        let (drawn, expected) = self.truth();
        let tolerance = match self.case.edge {
            Edge::Saturated => tolerance.saturated(),
            _ => tolerance,
        };
        let compared = backend.run(&self.case, drawn)?.compare(expected, tolerance);
        compared.map_err(|text| Stop::Failed(format!("{}: {text}", self.case.id())))
    }
}
