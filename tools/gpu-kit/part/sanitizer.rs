//! Runs the part `kernels` under NVIDIA's compute-sanitizer: invalid accesses, and races in shared memory.

use std::{env, fs, process::Command};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, read, table};

const SANITIZER: &str = "compute-sanitizer";
const TOOLS: [&str; 2] = ["memcheck", "racecheck"];

#[derive(Serialize, Deserialize)]
struct Row {
    tool: String,
    /// Problems that ran, and those that were right.
    problems: usize,
    right: usize,
    /// The last line of the tool.
    summary: String,
}

pub fn run(rows: &mut Rows, clock: &Clock, _: &[String]) -> Result<(), Stop> {
    if Command::new(SANITIZER).arg("--version").output().is_err() {
        println!("no {SANITIZER} found");
        return Ok(());
    }
    let here = env::current_exe().map_err(|e| e.to_string())?;
    let mut wrong = 0;
    for (index, tool) in TOOLS.into_iter().enumerate() {
        clock.check(|| format!("for {tool}"))?;
        let seconds = (clock.left().as_secs() / (TOOLS.len() - index) as u64).max(1);
        let name = |end: &str| {
            env::temp_dir().join(format!("gpu-kit-{tool}-{}.{end}", std::process::id()))
        };
        let (log, problems) = (name("log"), name("jsonl"));
        // `timeout` also ends the program that the tool starts. The part ends before.
        let status = Command::new("timeout")
            .arg(seconds.to_string())
            .args([SANITIZER, "--tool", tool, "--report-api-errors", "no"])
            .arg("--log-file")
            .arg(&log)
            .arg(&here)
            .args(["part", "kernels", "--seconds"])
            .arg((seconds * 3 / 4).to_string())
            .arg("--rows")
            .arg(&problems)
            .status();
        let status = status.map_err(|e| format!("timeout: {e}"))?;
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let (report, ran) = (text(&log), text(&problems));
        println!("{tool}: {status}\n{report}");
        let _ = [log, problems].map(fs::remove_file);
        let summary = report.lines().rfind(|line| line.contains("SUMMARY"));
        let summary = summary
            .unwrap_or("no summary")
            .trim_start_matches(['=', ' ']);
        wrong += usize::from(!is_clean(summary));
        rows.add(&Row {
            tool: tool.to_owned(),
            problems: ran.lines().count(),
            right: ran.matches(r#""end":"right""#).count(),
            summary: summary.to_owned(),
        })?;
    }
    match wrong {
        0 => Ok(()),
        _ => Err(format!("{wrong} tools report errors or did not end").into()),
    }
}

/// `ERROR SUMMARY: 0 errors`, or `RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)`.
fn is_clean(summary: &str) -> bool {
    summary.contains("SUMMARY: 0 ")
}

pub fn page(rows: &[Value]) -> String {
    let rows = read::<Row>(rows);
    if rows.is_empty() {
        return format!("No {SANITIZER} was found, or the time was over.\n");
    }
    let lines = rows.into_iter().map(|row| {
        let [problems, right] = [row.problems, row.right].map(|count| count.to_string());
        vec![row.tool, problems, right, row.summary]
    });
    table(&["tool", "problems", "right", "summary"], lines)
}
