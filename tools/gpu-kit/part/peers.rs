//! cuDNN on the same shapes, if PyTorch with CUDA is installed. Runs `torch_peer.py` of the folder.

use std::{
    collections::HashMap,
    env, fs,
    process::{Command, Stdio},
};

use bench_support::{MODES, Peer, Problem, Shape, median};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, read, speed, table};
use crate::report::Report;

const SCRIPT: &str = "GPU_KIT_PEERS";
const SAMPLES: usize = 15;

#[derive(Serialize, Deserialize)]
struct Row {
    version: String,
    shape: String,
    mode: String,
    /// Milliseconds, the median.
    median: f64,
}

pub fn run(rows: &mut Rows, clock: &Clock, _: &[String]) -> Result<(), Stop> {
    let script = env::var(SCRIPT).map_err(|_| format!("{SCRIPT} is not set"))?;
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
    let mut command = Command::new("python3");
    command.args([&script, "torch", "cuda"]);
    let mut peer = Peer::start("cuDNN", command.env("OMP_NUM_THREADS", "1"))?;
    let folder = env::temp_dir();
    let process = std::process::id();
    let [file, out] = ["bin", "out"].map(|end| folder.join(format!("gpu-kit-{process}.{end}")));
    for name in speed::ORDER {
        let shape = Shape::find(name).expect("a shape");
        let problem = Problem::new(shape).write(&file);
        problem.map_err(|e| format!("{}: {e}", file.display()))?;
        for mode in MODES {
            clock.check(|| format!("for {name} {}", mode.name()))?;
            peer.prepare(&file, mode, &out)?;
            let one = peer.sample(0, 1)?.max(1e-3);
            let calls = (1.0 / one).ceil() as usize;
            let samples = (0..SAMPLES).map(|_| peer.sample(0, calls));
            let samples = samples.collect::<Result<_, _>>()?;
            rows.add(&Row {
                version: peer.version.clone(),
                shape: name.to_owned(),
                mode: mode.name().to_owned(),
                median: median(samples),
            })?;
        }
    }
    let _ = [file, out].map(fs::remove_file);
    Ok(())
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
