//! Prepares the peers that are not part of this workspace.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const REQUIREMENTS: &str = include_str!("peers/requirements.txt");
const ONEDNN: &str = include_str!("peers/onednn_peer.cpp");

/// `peers` in the target folder.
pub fn default_folder() -> PathBuf {
    let program = env::current_exe().expect("the program has a path");
    let target = program.ancestors().nth(2);
    target
        .expect("the program is in a target folder")
        .join("peers")
}

/// The command of a peer with this many threads, installed in `folder` if it is not in this workspace.
///
/// # Errors
/// The reason why it is missing.
pub fn command(peer: &str, folder: &Path, threads: usize) -> Result<Command, String> {
    let mut command = program(peer, folder)?;
    for pool in ["RAYON", "MATMUL", "OMP", "MKL"] {
        command.env(format!("{pool}_NUM_THREADS"), threads.to_string());
    }
    Ok(command)
}

fn program(peer: &str, folder: &Path) -> Result<Command, String> {
    match peer {
        "torch" | "torch-cell" | "torch-split" | "torchrl" | "torch-cuda" => {
            let (variant, device) = match peer {
                "torch-cuda" => ("torch", "cuda"),
                other => (other, "cpu"),
            };
            let mut command = Command::new(python(folder)?.join("bin/python"));
            let script = crate::root().join("benches/peers/torch_peer.py");
            command.arg(script).args([variant, device]);
            Ok(command)
        }
        "onnxruntime" => {
            let mut command = Command::new(python(folder)?.join("bin/python"));
            command.arg(crate::root().join("benches/peers/onnxruntime_peer.py"));
            Ok(command)
        }
        "candle" => Ok(Command::new(candle(folder)?)),
        "onednn" => {
            let mut command = Command::new(onednn(folder)?);
            // Threads stay on the cores of this process.
            command.env("OMP_PROC_BIND", "true");
            Ok(command)
        }
        _ => {
            let mut command = Command::new(env::current_exe().map_err(|e| e.to_string())?);
            command.args(["serve", peer]);
            Ok(command)
        }
    }
}

/// The Python environment with the pinned packages.
fn python(folder: &Path) -> Result<PathBuf, String> {
    let environment = folder.join("venv");
    let stamp = folder.join("requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == REQUIREMENTS) {
        return Ok(environment);
    }
    println!(
        "installing Python packages in {} (several GB)",
        environment.display()
    );
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    execute(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment),
    )?;
    let requirements = crate::root().join("benches/peers/requirements.txt");
    let pip = environment.join("bin/pip");
    execute(
        Command::new(pip)
            .args(["install", "--quiet", "-r"])
            .arg(requirements),
    )?;
    fs::write(&stamp, REQUIREMENTS).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(environment)
}

/// The program of oneDNN, compiled against the package of the Python environment.
fn onednn(folder: &Path) -> Result<PathBuf, String> {
    let environment = python(folder)?;
    let (program, stamp) = (folder.join("onednn_peer"), folder.join("onednn_peer.cpp"));
    if fs::read_to_string(&stamp).is_ok_and(|compiled| compiled == ONEDNN) {
        return Ok(program);
    }
    let library = environment.join("lib");
    let mut compiler = Command::new("g++");
    compiler
        .args(["-O2", "-std=c++17", "-fopenmp", "-o"])
        .arg(&program);
    compiler.arg("-I").arg(environment.join("include"));
    compiler
        .arg(crate::root().join("benches/peers/onednn_peer.cpp"))
        .arg("-L")
        .arg(&library);
    compiler
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-ldnnl");
    execute(&mut compiler)?;
    fs::write(&stamp, ONEDNN).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(program)
}

/// The program of candle, a package outside of this workspace.
fn candle(folder: &Path) -> Result<PathBuf, String> {
    let manifest = crate::root().join("benches/peers/candle/Cargo.toml");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args([
        "build",
        "--quiet",
        "--locked",
        "--release",
        "--manifest-path",
    ]);
    cargo
        .arg(manifest)
        .arg("--target-dir")
        .arg(folder.join("candle"));
    execute(&mut cargo)?;
    Ok(folder.join("candle/release/candle-peer"))
}

fn execute(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    // Python's venv says on the standard output which package is missing.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let last = text
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Err(format!("{name}: {}: {last}", output.status))
}
