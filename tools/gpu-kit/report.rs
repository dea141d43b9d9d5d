//! The results of all parts.

use serde::Serialize;
use serde_json::Value;

/// All results so far.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    pub version: &'static str,
    /// The time limit in seconds.
    pub seconds: u64,
    pub parts: Vec<Entry>,
}

/// A finished part.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    pub part: String,
    /// The shader language of the program.
    pub program: String,
    /// Its duration in seconds.
    pub seconds: f64,
    pub end: End,
    pub rows: Vec<Value>,
}

/// How a part ended, the worst last.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// It finished.
    Done,
    /// It stopped early because its time was over.
    Short(String),
    /// It exceeded its time and was killed. Rows written before remain.
    Killed,
    /// It failed or crashed. Rows written before remain.
    Died(String),
}
