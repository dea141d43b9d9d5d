//! What all parts found: `kit.json`, and the same for people, `page.md`.

use std::{fs, path::Path};

use serde::Serialize;
use serde_json::Value;

use crate::{error::Error, part::PARTS};

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

    /// Writes both files, so that at no moment there is half of one.
    pub fn write(&self, out: &Path) -> Result<(), Error> {
        let json = serde_json::to_string_pretty(self).expect("numbers and text");
        for (name, text) in [("kit.json", json), ("page.md", self.page())] {
            let (part, whole) = (out.join(format!("{name}.part")), out.join(name));
            fs::write(&part, text).map_err(Error::file(&part))?;
            fs::rename(&part, &whole).map_err(Error::file(&whole))?;
        }
        Ok(())
    }

    fn page(&self) -> String {
        let mut page = format!("# gru-op {} on this machine's GPU\n", self.version);
        for entry in &self.parts {
            let part = PARTS.iter().find(|part| part.name == entry.part);
            let (title, rows) = match part {
                Some(part) => (part.title, (part.page)(&entry.rows, self)),
                None => continue,
            };
            let end = match &entry.end {
                End::Done => "done".to_owned(),
                End::Short(left) => left.clone(),
                End::Killed => "killed when its time was over".to_owned(),
                End::Died(reason) => format!("**died**: {reason}"),
            };
            let Entry {
                program, seconds, ..
            } = entry;
            page += &format!("\n## {title}\n\n{program}, {seconds:.0} s, {end}.\n\n{rows}");
        }
        page
    }
}
