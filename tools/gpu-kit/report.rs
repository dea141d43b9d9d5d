//! What all parts found.

use serde::Serialize;
use serde_json::Value;

/// All that is known so far.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Of this kit.
    pub version: &'static str,
    /// Seconds that were to be had.
    pub seconds: u64,
    /// Each part that has ended.
    pub parts: Vec<Entry>,
}

/// A part that has ended.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The part's name.
    pub part: String,
    /// Which program ran it, by its shader language.
    pub program: String,
    /// How long it took.
    pub seconds: f64,
    /// How it ended.
    pub end: End,
    /// What it found.
    pub rows: Vec<Value>,
}

/// How a part ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// By itself.
    Done,
    /// By itself, before it had done all: its time was over.
    Short(String),
    /// It took too long and was killed; what it had found is there.
    Killed,
    /// It failed or crashed; what it had found is there.
    Died(String),
}

impl Report {
    /// The rows of a part, by the first program that ran it.
    pub fn rows(&self, part: &str) -> &[Value] {
        let entry = self.parts.iter().find(|entry| entry.part == part);
        entry.map_or(&[], |entry| &entry.rows)
    }
}
