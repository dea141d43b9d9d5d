//! Records: rows in a CSV file, and facts about the machine next to it, in a file that ends in `.txt`.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::facts;

/// The time of a call.
#[derive(Serialize, Deserialize, Clone)]
pub struct Row {
    /// When the command started, to the minute. Rows of one command were measured together. Older programs wrote the day.
    pub date: String,
    pub commit: String,
    pub machine: String,
    pub peer: String,
    pub version: String,
    pub shape: String,
    pub mode: String,
    pub threads: usize,
    pub median_ms: f64,
    /// Bounds of the 95% interval of the median.
    pub low_ms: f64,
    pub high_ms: f64,
    pub min_ms: f64,
    pub samples: usize,
    /// Calls of a sample.
    pub batch: Option<usize>,
    /// Of the matrix products of the valid steps.
    pub gflops: f64,
    /// Of the outputs and gradients from another peer, relative to the largest value.
    pub difference: Option<f64>,
    pub steal_percent: Option<f64>,
    pub note: String,
}

impl Row {
    /// Times in milliseconds, of this machine and commit.
    pub fn new(
        (peer, version): (&str, &str),
        (shape, mode, threads): (&str, &str, usize),
        samples: &[f64],
    ) -> Self {
        let (low, high) = interval(samples);
        Self {
            date: facts::date(),
            commit: facts::commit(),
            machine: facts::cpu(),
            peer: peer.to_owned(),
            version: version.to_owned(),
            shape: shape.to_owned(),
            mode: mode.to_owned(),
            threads,
            median_ms: median(samples.to_vec()),
            low_ms: low,
            high_ms: high,
            min_ms: samples.iter().copied().fold(f64::INFINITY, f64::min),
            samples: samples.len(),
            batch: None,
            gflops: 0.0,
            difference: None,
            steal_percent: None,
            note: String::new(),
        }
    }

    /// Whether its run can be identified.
    pub fn is_of_one_run(&self) -> bool {
        self.date.contains('T')
    }

    fn key(&self) -> (&str, &str, &str, usize) {
        (&self.peer, &self.shape, &self.mode, self.threads)
    }
}

/// The median. NaN without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    match values.get(count / 2) {
        Some(&middle) if count % 2 == 1 => middle,
        Some(&middle) => 0.5 * (values[count / 2 - 1] + middle),
        None => f64::NAN,
    }
}

/// The 95% bootstrap interval of the median.
fn interval(samples: &[f64]) -> (f64, f64) {
    const DRAWS: usize = 2000;
    let mut state = 1u64;
    let mut draw = || {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % samples.len()
    };
    let mut medians: Vec<f64> = (0..DRAWS)
        .map(|_| median((0..samples.len()).map(|_| samples[draw()]).collect()))
        .collect();
    medians.sort_by(f64::total_cmp);
    (medians[DRAWS / 40], medians[DRAWS - 1 - DRAWS / 40])
}

/// How many times as long one row takes as another.
pub struct Factor {
    pub value: f64,
    /// Whether the interval of the factor includes 1.
    pub is_level: bool,
}

/// The time of `row` divided by the time of `ours`. The interval is the widest that both intervals allow.
pub fn factor(row: &Row, ours: &Row) -> Factor {
    Factor {
        value: row.median_ms / ours.median_ms,
        is_level: row.low_ms <= ours.high_ms && ours.low_ms <= row.high_ms,
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let digits = if self.value < 9.995 { 2 } else { 0 };
        write!(
            f,
            "{:.digits$}{}",
            self.value,
            if self.is_level { " (level)" } else { "" }
        )
    }
}

/// Reads the rows of a record.
///
/// # Errors
/// If the file is not a record.
pub fn read(path: &Path) -> Result<Vec<Row>, String> {
    let error = |e| format!("{}: {e}", path.display());
    let mut reader = csv::Reader::from_path(path).map_err(error)?;
    reader
        .deserialize()
        .collect::<Result<_, _>>()
        .map_err(error)
}

/// A record that grows.
pub struct Record {
    path: PathBuf,
    rows: Vec<Row>,
}

impl Record {
    /// Opens or starts a record.
    ///
    /// # Errors
    /// If the record is of another machine or compiler.
    pub fn open(path: &Path) -> Result<Self, String> {
        let facts = path.with_extension("txt");
        let actual = facts::machine();
        if !path.exists() {
            fs::write(&facts, actual).map_err(|e| format!("{}: {e}", facts.display()))?;
            return Ok(Self {
                path: path.to_owned(),
                rows: Vec::new(),
            });
        }
        let expected = fs::read_to_string(&facts).unwrap_or_default();
        for line in actual.lines() {
            if !expected.lines().any(|known| known == line) {
                let path = facts.display();
                return Err(format!(
                    "{path}: expected this line of another record, got `{line}`"
                ));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            rows: read(path)?,
        })
    }

    /// Adds rows, replaces rows of the same peer, shape, mode and threads, and saves the record. `note` follows the notes of
    /// the rows.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, rows: Vec<Row>, note: &str) -> Result<(), String> {
        for mut row in rows {
            row.note = format!("{} {note}", row.note).trim().to_owned();
            self.rows.retain(|old| old.key() != row.key());
            self.rows.push(row);
        }
        self.save()
    }

    fn save(&self) -> Result<(), String> {
        let error = |e: csv::Error| format!("{}: {e}", self.path.display());
        // An interrupted write must not destroy the record.
        let new = self.path.with_extension("new");
        let mut writer = csv::Writer::from_path(&new).map_err(error)?;
        self.rows
            .iter()
            .try_for_each(|row| writer.serialize(row))
            .map_err(error)?;
        writer.flush().map_err(|e| error(e.into()))?;
        drop(writer);
        fs::rename(&new, &self.path).map_err(|e| error(e.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_contains_the_median_and_ignores_one_outlier() {
        let mut samples: Vec<f64> = (0..31).map(|k| 10.0 + 0.1 * f64::from(k)).collect();
        samples[30] = 1000.0;
        let (low, high) = interval(&samples);
        assert!(
            10.5 < low && low < 11.5 && 11.5 < high && high < 12.5,
            "{low} {high}"
        );
        assert_eq!(interval(&[2.0; 5]), (2.0, 2.0));
    }

    #[test]
    fn rows_are_level_if_their_intervals_allow_equal_times() {
        let row = |median_ms, low, high| Row {
            median_ms,
            low_ms: low,
            high_ms: high,
            ..Row::new(("peer", "1.0"), ("cell", "infer", 1), &[median_ms])
        };
        let ours = row(10.0, 9.0, 11.0);
        assert!(factor(&row(11.5, 10.9, 12.0), &ours).is_level);
        assert_eq!(
            factor(&row(11.5, 10.9, 12.0), &ours).to_string(),
            "1.15 (level)"
        );
        assert_eq!(factor(&row(12.0, 11.1, 13.0), &ours).to_string(), "1.20");
        assert_eq!(factor(&row(8.0, 7.5, 8.9), &ours).to_string(), "0.80");
    }
}
