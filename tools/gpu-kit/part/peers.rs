//! cuDNN on the same shapes, if PyTorch with CUDA is installed. Runs `peers.py` of the folder.

use std::{
    collections::HashMap,
    env, fs,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, read, speed, table};
use crate::report::Report;

const SCRIPT: &str = "GPU_KIT_PEERS";

#[derive(Serialize, Deserialize)]
struct Row {
    version: String,
    shape: String,
    mode: String,
    /// Milliseconds, the median.
    median: f64,
}

pub fn run(rows: &mut Rows, clock: &Clock, _: &[String]) -> Result<(), Stop> {
    let has_cuda = Command::new("python3")
        .args([
            "-c",
            "import sys, torch; sys.exit(not torch.cuda.is_available())",
        ])
        .stderr(Stdio::null())
        .status();
    if !has_cuda.is_ok_and(|status| status.success()) {
        println!("no PyTorch with CUDA found");
        return Ok(());
    }
    let script = env::var(SCRIPT).map_err(|_| format!("{SCRIPT} is not set"))?;
    let csv = env::temp_dir().join(format!("gpu-kit-peers-{}.csv", std::process::id()));
    let mut python = Command::new("python3")
        .args([&script, "--device", "cuda", "--threads", "1", "--csv"])
        .arg(&csv)
        .spawn()
        .map_err(|e| e.to_string())?;
    let ended = loop {
        match python.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break Some(status),
            None if clock.is_over() => {
                let _ = python.kill();
                let _ = python.wait();
                break None;
            }
            None => thread::sleep(Duration::from_millis(50)),
        }
    };
    let text = fs::read_to_string(&csv).unwrap_or_default();
    let _ = fs::remove_file(&csv);
    // date, machine, peer, version, shape, mode, threads, median, …
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        if let [_, _, _, version, shape, mode, _, median, ..] = cells[..]
            && let Ok(median) = median.parse()
        {
            let [version, shape, mode] = [version, shape, mode].map(str::to_owned);
            rows.add(&Row {
                version,
                shape,
                mode,
                median,
            })?;
        }
    }
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{script}: {status}").into()),
        None => Err(Stop::OutOfTime("for all shapes".to_owned())),
    }
}

pub fn page(rows: &[Value], report: &Report) -> String {
    let rows = read::<Row>(rows);
    let Some(first) = rows.first() else {
        return "No PyTorch with CUDA was found, or the time was over.\n".to_owned();
    };
    let ours = read::<speed::Row>(report.rows("speed"));
    let ours: HashMap<_, _> = ours
        .into_iter()
        .map(|row| ((row.shape, row.mode), row.ours))
        .collect();
    let intro = format!("PyTorch {}, float32 without TF32.\n\n", first.version);
    let lines = rows.into_iter().map(|row| {
        let key = (row.shape, row.mode);
        let (ours, times) = match ours.get(&key) {
            Some(ours) => (format!("{ours:.3}"), format!("{:.2}", row.median / ours)),
            None => ("–".to_owned(), "–".to_owned()),
        };
        vec![key.0, key.1, format!("{:.3}", row.median), ours, times]
    });
    intro + &table(&["shape", "mode", "cuDNN ms", "ours ms", "times"], lines)
}
