//! Which cuts a whole program takes, by its own word or by its environment.

use crate::plan::cut::{Cut, CutError, Strategy};
use core::fmt;
use std::{env, sync::RwLock};

/// The strategy of each pass, for those who call these kernels through a backend.
///
/// A program's own are set by [`Settings::set`]. Until then they come from its environment:
///
/// - `GRU_CUBE_FORWARD` and `GRU_CUBE_BACKWARD` force a cut, such as
///   `walk rows=4 width=4 lanes=128 splits=2` (the text of a [`Cut`]);
/// - `GRU_CUBE_STRATEGY` is what is not forced: `inferred`, `persistent` or `tuned`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Of the forward pass.
    pub forward: Strategy,
    /// Of the backward pass.
    pub backward: Strategy,
}

const FORWARD: &str = "GRU_CUBE_FORWARD";
const BACKWARD: &str = "GRU_CUBE_BACKWARD";
const STRATEGY: &str = "GRU_CUBE_STRATEGY";

static CURRENT: RwLock<Option<Settings>> = RwLock::new(None);

impl Settings {
    /// Those of this program.
    ///
    /// # Panics
    /// If they come from the environment, which is [malformed](SettingsError).
    pub fn current() -> Self {
        let read = *CURRENT.read().unwrap_or_else(|broken| broken.into_inner());
        read.unwrap_or_else(|| {
            let settings = Self::from_env().unwrap_or_else(|error| panic!("{error}"));
            let mut current = CURRENT.write().unwrap_or_else(|broken| broken.into_inner());
            // Unless somebody has set others meanwhile.
            *current.get_or_insert(settings)
        })
    }

    /// From now on these are this program's.
    pub fn set(self) {
        *CURRENT.write().unwrap_or_else(|broken| broken.into_inner()) = Some(self);
    }

    /// Those that the environment asks for.
    ///
    /// # Errors
    /// If a variable is set to what is no cut, or no switch.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::from_variables(|name| Some(env::var_os(name)?.to_string_lossy().into_owned()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let otherwise = match variable(STRATEGY).as_deref() {
            None | Some("" | "inferred") => Strategy::Inferred,
            Some("persistent") => Strategy::Persistent,
            Some("tuned") => Strategy::Tuned,
            Some(other) => {
                return Err(SettingsError::Strategy {
                    variable: STRATEGY,
                    text: other.to_owned(),
                });
            }
        };
        let strategy = |name: &'static str| match variable(name).as_deref() {
            None | Some("") => Ok(otherwise),
            Some(text) => match text.parse::<Cut>() {
                Ok(cut) => Ok(Strategy::Forced(cut)),
                Err(reason) => Err(SettingsError::Cut {
                    variable: name,
                    reason,
                }),
            },
        };
        Ok(Self {
            forward: strategy(FORWARD)?,
            backward: strategy(BACKWARD)?,
        })
    }
}

/// An environment variable is malformed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// It should be a cut.
    Cut {
        /// Its name.
        variable: &'static str,
        /// What is wrong with it.
        reason: CutError,
    },
    /// It should be a strategy.
    Strategy {
        /// Its name.
        variable: &'static str,
        /// What it is.
        text: String,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { variable, reason } => write!(f, "{variable}: {reason}"),
            Self::Strategy { variable, text } => write!(
                f,
                "{variable}: expected inferred, persistent or tuned, got {text:?}"
            ),
        }
    }
}

impl core::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::cut::WalkTile;

    const TEXT: &str = "walk rows=2 width=2 lanes=32 splits=1";
    const WALK: Cut = Cut::Walk(WalkTile {
        rows: 2,
        width: 2,
        lanes: 32,
        splits: 1,
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
        let empty = [(FORWARD, ""), (BACKWARD, ""), (STRATEGY, "")];
        assert_eq!(from(&empty), Ok(Settings::default()));
        assert_eq!(from(&[(STRATEGY, "inferred")]), Ok(Settings::default()));
    }

    #[test]
    fn each_pass_has_its_own() {
        let (forward, backward) = (Strategy::Forced(WALK), Strategy::Persistent);
        let settings = from(&[(FORWARD, TEXT), (STRATEGY, "persistent")]);
        assert_eq!(settings, Ok(Settings { forward, backward }));
        let settings = from(&[(BACKWARD, TEXT), (STRATEGY, "tuned")]).unwrap();
        assert_eq!(settings.forward, Strategy::Tuned);
        assert_eq!(settings.backward, Strategy::Forced(WALK));
    }

    #[test]
    fn a_malformed_variable_is_named() {
        let message = |variable: &str, text: &str| {
            let error = from(&[(variable, text)]).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            message(STRATEGY, "best"),
            "GRU_CUBE_STRATEGY: expected inferred, persistent or tuned, got \"best\""
        );
        assert_eq!(
            message(BACKWARD, "jump"),
            "GRU_CUBE_BACKWARD: \"jump\" is no cut: a cut is a walk, steps or persistent; expected one \
             like \"walk rows=4 width=4 lanes=64 splits=2\""
        );
    }
}
