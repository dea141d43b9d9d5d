//! cuDNN on the same shapes, if PyTorch with CUDA is installed. Runs `torch_peer.py` of the folder.

use std::{
    collections::HashMap,
    env, fs,
    process::{Command, Stdio},
};

use bench_support::{MODES, NoAnswer, Peer, Problem, Shape, median};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, read, speed, table};
use crate::report::Report;

const SCRIPT: &str = "GPU_KIT_PEERS";
const SAMPLES: usize = 15;

/// Float32, and float32 whose products round their factors to TF32: PyTorch's default for cuDNN, and what tuned
/// products of Burn do.
const DEVICES: [&str; 2] = ["cuda", "cuda-tf32"];

#[derive(Serialize, Deserialize)]
struct Row {
    version: String,
    /// One of [`DEVICES`].
    device: String,
    shape: String,
    mode: String,
    /// Milliseconds, the median.
    median: f64,
}

impl From<NoAnswer> for Stop {
    fn from(reason: NoAnswer) -> Self {
        Self::Failed(reason.into())
    }
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
    let folder = env::temp_dir();
    let process = std::process::id();
    let [file, out] = ["bin", "out"].map(|end| folder.join(format!("gpu-kit-{process}.{end}")));
    for device in DEVICES {
        let mut command = Command::new("python3");
        command.args([&script, "torch", device]);
        let mut peer = Peer::start("cuDNN", command.env("OMP_NUM_THREADS", "1"))?;
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
                    device: device.to_owned(),
                    shape: name.to_owned(),
                    mode: mode.name().to_owned(),
                    median: median(samples),
                })?;
            }
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
    let intro = format!("PyTorch {}.\n\n", first.version);
    let of = |row: &Row, device: &str| {
        let same = |other: &&Row| {
            (other.device.as_str(), &other.shape, &other.mode) == (device, &row.shape, &row.mode)
        };
        rows.iter().find(same).map(|row| row.median)
    };
    let text =
        |ms: Option<f64>, digits: usize| ms.map_or("–".to_owned(), |ms| format!("{ms:.digits$}"));
    let lines = rows
        .iter()
        .filter(|row| row.device == DEVICES[0])
        .map(|row| {
            let ours = ours.get(&(row.shape.clone(), row.mode.clone())).copied();
            let [single, tf32] = DEVICES.map(|device| of(row, device));
            let times = |peer: Option<f64>| text(peer.zip(ours).map(|(peer, ours)| peer / ours), 2);
            vec![
                row.shape.clone(),
                row.mode.clone(),
                text(single, 3),
                text(tf32, 3),
                text(ours, 3),
                times(single),
                times(tf32),
            ]
        });
    let head = [
        "shape",
        "mode",
        "cuDNN ms",
        "with TF32 ms",
        "ours ms",
        "times",
        "times with TF32",
    ];
    intro + &table(&head, lines)
}
