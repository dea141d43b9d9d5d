//! The trials of `cargo test` on this device: recorded runs of other systems, gradients compared with
//! float64, non-finite values, options.

use std::collections::BTreeMap;
use std::time::Instant;

use libtest_mimic::{Arguments, Trial};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, RUNTIME, Rows, Stop, read, share, table};

/// The most important suites, first.
const FIRST: [&str; 5] = ["gradient", "nonfinite", "conformance", "half", "options"];

/// Every suite runs one of this many trials in each round, so that all suites are sampled when the time
/// is over.
const SAMPLES: usize = 8;

/// Trials per run. The deadline is checked between runs.
const TOGETHER: usize = 4;

#[derive(Serialize, Deserialize)]
struct Row {
    suite: String,
    passed: u64,
    failed: u64,
    ignored: u64,
    seconds: f64,
}

/// `more` is empty, or a share of the trials.
pub fn run(rows: &mut Rows, clock: &Clock, more: &[String]) -> Result<(), Stop> {
    let (first, step) = share(more)?;
    let mut backends = gru_tests::backends::all();
    backends.retain(|backend| backend.name.starts_with(RUNTIME));
    let mut trials = gru_tests::trials(&backends);
    trials.retain(|trial| trial.name().contains(RUNTIME));
    let mut numbered: Vec<_> = trials.into_iter().enumerate().collect();
    numbered.sort_by_key(|(number, trial)| (number % SAMPLES, rank(&suite(trial))));
    let mine = numbered.into_iter().skip(first).step_by(step);
    let mut trials: Vec<_> = mine.map(|(_, trial)| trial).collect();
    // Standard output contains the name and the error of each failed trial.
    let arguments = Arguments::default();
    let (mut passed, mut failed) = (0, 0);
    while !trials.is_empty() {
        clock.check(|| format!("for {} trials", trials.len()))?;
        let suite = suite(&trials[0]);
        let same = trials
            .iter()
            .take_while(|trial| self::suite(trial) == suite);
        let count = same.take(TOGETHER).count();
        let start = Instant::now();
        let ended = libtest_mimic::run(&arguments, trials.drain(..count).collect());
        passed += ended.num_passed;
        failed += ended.num_failed;
        rows.add(&Row {
            suite,
            passed: ended.num_passed,
            failed: ended.num_failed,
            ignored: ended.num_ignored,
            seconds: start.elapsed().as_secs_f64(),
        })?;
    }
    outcome(passed, failed).map_err(Stop::from)
}

/// Fails if no trial ran or all trials were ignored.
fn outcome(passed: u64, failed: u64) -> Result<(), String> {
    if failed > 0 {
        Err(format!("{failed} trials failed"))
    } else if passed == 0 {
        Err("expected trials on this device, but none ran".to_owned())
    } else {
        Ok(())
    }
}

pub fn page(rows: &[Value]) -> String {
    let mut suites = BTreeMap::<_, Row>::new();
    for row in read::<Row>(rows) {
        let key = (rank(&row.suite), row.suite.clone());
        match suites.get_mut(&key) {
            Some(sum) => {
                sum.passed += row.passed;
                sum.failed += row.failed;
                sum.ignored += row.ignored;
                sum.seconds += row.seconds;
            }
            None => {
                suites.insert(key, row);
            }
        }
    }
    let lines = suites.into_values().map(|row| {
        vec![
            row.suite,
            row.passed.to_string(),
            row.failed.to_string(),
            row.ignored.to_string(),
            format!("{:.1}", row.seconds),
        ]
    });
    table(&["suite", "passed", "failed", "ignored", "s"], lines)
}

/// The first part of a trial's name.
fn suite(trial: &Trial) -> String {
    let name = trial.name();
    name.split('/').next().unwrap_or_default().to_owned()
}

fn rank(suite: &str) -> usize {
    let place = FIRST.iter().position(|first| *first == suite);
    place.unwrap_or(FIRST.len())
}

#[cfg(test)]
mod tests {
    use super::outcome;

    #[test]
    fn no_trials_is_an_error() {
        assert_eq!(outcome(3, 0), Ok(()));
        assert!(outcome(3, 1).is_err_and(|reason| reason == "1 trials failed"));
        assert!(outcome(0, 0).is_err_and(|reason| reason.ends_with("none ran")));
    }
}
