//! PyTorch as a process, and the files that it shares with this one.

use super::Type;
use bench_support::Peer;
use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Stdio},
};

const SCRIPT: &str = "GPU_KIT_PEERS";

/// Where a process exchanges numbers with its peers.
pub struct Files {
    pub problem: PathBuf,
    pub outputs: PathBuf,
}

impl Files {
    pub fn new() -> Self {
        let file = |ending| {
            let name = format!("gpu-kit-{}.{ending}", std::process::id());
            env::temp_dir().join(name)
        };
        Self {
            problem: file("bin"),
            outputs: file("out"),
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = [&self.problem, &self.outputs].map(fs::remove_file);
    }
}

/// PyTorch, once for each device of these types that it has; none without CUDA.
pub fn peers(types: &[Type]) -> Vec<Peer> {
    let has_cuda = Command::new("python3")
        .args([
            "-c",
            "import sys, torch; sys.exit(not torch.cuda.is_available())",
        ])
        .stderr(Stdio::null())
        .status();
    let Ok(script) = env::var(SCRIPT) else {
        println!("{SCRIPT} is not set, so cuDNN is not measured");
        return Vec::new();
    };
    if !has_cuda.is_ok_and(|status| status.success()) {
        println!("no PyTorch with CUDA found");
        return Vec::new();
    }
    let start = |device: &&str| {
        let mut command = Command::new("python3");
        command.args([&script, "torch", device]);
        let peer = Peer::start(device, command.env("OMP_NUM_THREADS", "1"));
        // An older PyTorch does not have each type.
        peer.map_err(|reason| println!("{device} is not measured: {}", String::from(reason)))
            .ok()
    };
    let devices = types.iter().flat_map(|of| of.peers);
    devices.filter_map(start).collect()
}
