//! The strategies of a whole program, set by the program or by its environment.

use super::schedule::{Schedule, ScheduleError, Strategy};
use std::{env, sync::RwLock};

/// The strategy of each pass, for programs that call these kernels through a backend.
///
/// [`Settings::set`] sets them. Before that they come from environment variables:
///
/// - `GRU_CUBE_FORWARD` and `GRU_CUBE_BACKWARD` force a [`Schedule`], such as
///   `sequence rows=4 width=4 n_threads=128 k_splits=2`;
/// - `GRU_CUBE_SELF_TEST` is `on`, the default, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Settings {
    /// Strategy of the forward pass.
    pub forward: Strategy,
    /// Strategy of the backward pass.
    pub backward: Strategy,
    /// Whether a backend tests kernels before their first use.
    pub self_test: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            forward: Strategy::default(),
            backward: Strategy::default(),
            self_test: true,
        }
    }
}

const FORWARD: &str = "GRU_CUBE_FORWARD";
const BACKWARD: &str = "GRU_CUBE_BACKWARD";
const SELF_TEST: &str = "GRU_CUBE_SELF_TEST";

static CURRENT: RwLock<Option<Settings>> = RwLock::new(None);

impl Settings {
    /// Sets the strategy of the forward pass.
    pub fn with_forward(self, forward: Strategy) -> Self {
        Self { forward, ..self }
    }

    /// Sets the strategy of the backward pass.
    pub fn with_backward(self, backward: Strategy) -> Self {
        Self { backward, ..self }
    }

    /// Sets whether a backend tests kernels before their first use.
    pub fn with_self_test(self, self_test: bool) -> Self {
        Self { self_test, ..self }
    }

    /// The settings of this program.
    ///
    /// # Panics
    /// If they come from the environment and it is [malformed](SettingsError).
    pub fn current() -> Self {
        let read = *CURRENT.read().unwrap_or_else(|broken| broken.into_inner());
        read.unwrap_or_else(|| {
            let settings = Self::from_env().unwrap_or_else(|error| panic!("{error}"));
            let mut current = CURRENT.write().unwrap_or_else(|broken| broken.into_inner());
            // Unless another thread has set them in the meantime.
            *current.get_or_insert(settings)
        })
    }

    /// Makes these the settings of this program.
    pub fn set(self) {
        *CURRENT.write().unwrap_or_else(|broken| broken.into_inner()) = Some(self);
    }

    /// The settings of the environment.
    ///
    /// # Errors
    /// If the value of a variable is none of those above.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::from_variables(|name| Some(env::var_os(name)?.to_string_lossy().into_owned()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let strategy = |name: &'static str| match variable(name).as_deref() {
            None | Some("") => Ok(Strategy::Inferred),
            Some(text) => match text.parse::<Schedule>() {
                Ok(schedule) => Ok(Strategy::Forced(schedule)),
                Err(reason) => Err(SettingsError::Schedule {
                    variable: name,
                    reason,
                }),
            },
        };
        let self_test = match variable(SELF_TEST).as_deref() {
            None | Some("" | "on") => true,
            Some("off") => false,
            Some(other) => {
                return Err(SettingsError::SelfTest {
                    variable: SELF_TEST,
                    text: other.to_owned(),
                });
            }
        };
        Ok(Self {
            forward: strategy(FORWARD)?,
            backward: strategy(BACKWARD)?,
            self_test,
        })
    }
}

/// An environment variable is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The variable is not a schedule.
    #[error("{variable}: {reason}")]
    Schedule {
        /// Name of the variable.
        variable: &'static str,
        /// What is wrong.
        reason: ScheduleError,
    },
    /// The variable is neither `on` nor `off`.
    #[error("{variable}: expected on or off, got {text:?}")]
    SelfTest {
        /// Name of the variable.
        variable: &'static str,
        /// Its value.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::schedule::SequenceTile;

    const TEXT: &str = "sequence rows=2 width=2 n_threads=32 k_splits=1";
    const SEQUENCE: Schedule = Schedule::Sequence(SequenceTile {
        rows: 2,
        width: 2,
        n_threads: 32,
        k_splits: 1,
        resident: false,
    });

    fn from(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::from_variables(|name| {
            let found = variables.iter().find(|variable| variable.0 == name)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn nothing_is_forced_by_default() {
        assert_eq!(from(&[]), Ok(Settings::default()));
        let empty = [(FORWARD, ""), (BACKWARD, "")];
        assert_eq!(from(&empty), Ok(Settings::default()));
    }

    #[test]
    fn passes_have_separate_settings() {
        let (forward, backward) = (Strategy::Forced(SEQUENCE), Strategy::Inferred);
        let settings = from(&[(FORWARD, TEXT)]);
        let expected = Settings::default().with_forward(forward);
        assert_eq!(settings, Ok(expected.with_backward(backward)));
        let settings = from(&[(SELF_TEST, "off")]).unwrap();
        assert!(!settings.self_test);
        let settings = from(&[(BACKWARD, TEXT)]).unwrap();
        assert_eq!(settings.forward, Strategy::Inferred);
        assert_eq!(settings.backward, Strategy::Forced(SEQUENCE));
    }

    #[test]
    fn a_malformed_variable_is_named() {
        let message = |variable: &str, text: &str| {
            let error = from(&[(variable, text)]).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            message(SELF_TEST, "no"),
            "GRU_CUBE_SELF_TEST: expected on or off, got \"no\""
        );
        assert_eq!(
            message(BACKWARD, "jump"),
            "GRU_CUBE_BACKWARD: schedule \"jump\": expected sequence, steps or persistent, got \"jump\"; an \
             example is \"sequence rows=4 width=4 n_threads=64 k_splits=2\""
        );
    }
}
