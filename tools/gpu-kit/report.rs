//! The results of all parts.

use serde::Serialize;
use serde_json::Value;

/// All results so far.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The version of the kit.
    pub version: &'static str,
    /// The time limit in seconds.
    pub seconds: u64,
    /// The finished parts.
    pub parts: Vec<Entry>,
}

/// A finished part.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The part's name.
    pub part: String,
    /// The shader language of the program.
    pub program: String,
    /// Its duration in seconds.
    pub seconds: f64,
    /// How it ended.
    pub end: End,
    /// Its rows.
    pub rows: Vec<Value>,
}

/// How a part ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

impl Report {
    /// The rows of a part, from the first program that ran it.
    pub fn rows(&self, part: &str) -> &[Value] {
        let entry = self.parts.iter().find(|entry| entry.part == part);
        entry.map_or(&[], |entry| &entry.rows)
    }
}
