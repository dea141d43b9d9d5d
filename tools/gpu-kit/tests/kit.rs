//! Runs the first parts on the available adapter, as the folder's script does.

use std::{env, fs, process::Command};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_gpu-kit");

fn main() {
    let arguments = Arguments::from_args();
    let has_device = Command::new(PROGRAM).args(["part", "device"]).output();
    let absent = !has_device.is_ok_and(|output| output.status.success());
    let required = env::var_os("GRU_REQUIRE_GPU").is_some();
    let trial = Trial::test("kit/first-parts/wgpu", first_parts);
    let trials = vec![trial.with_ignored_flag(absent && !required)];
    libtest_mimic::run(&arguments, trials).exit();
}

/// Runs two parts for twenty seconds. Both finish, and both files contain their results.
fn first_parts() -> Result<(), Failed> {
    let out = env::temp_dir().join(format!("gpu-kit-test-{}", std::process::id()));
    let output = Command::new(PROGRAM)
        .args([
            "run",
            "--seconds",
            "20",
            "--parts",
            "device,kernels",
            "--out",
        ])
        .arg(&out)
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let page = fs::read_to_string(out.join("page.md")).map_err(|_| stderr.to_string())?;
    let report: Value = serde_json::from_slice(&fs::read(out.join("kit.json"))?)?;
    fs::remove_dir_all(&out)?;
    let [device, kernels] = [0, 1].map(|part| &report["parts"][part]);
    if device["end"] != "done" {
        return Err(format!("{}", device["end"]).into());
    }
    let name = device["rows"].as_array().ok_or("no rows")?.iter();
    let name = name.clone().find(|row| row["what"] == "device");
    let name = name.and_then(|row| row["is"].as_str()).ok_or("no name")?;
    if !page.contains(name) {
        return Err(format!("page: expected {name}:\n{page}").into());
    }
    // As many problems as the time allows. All of them must be right.
    let problems = kernels["rows"].as_array().ok_or("no rows")?;
    let is_right = |row: &&Value| {
        let end = row["end"].as_str().unwrap_or_default();
        end == "right" || end.starts_with("rejected")
    };
    let right = problems.iter().filter(is_right).count();
    if right == 0 || right < problems.len() {
        return Err(format!("{right} of {} problems are right:\n{page}", problems.len()).into());
    }
    // A slow machine may not end a problem in time. Then the part is killed, and the program fails.
    if output.status.success() == (kernels["end"] == "killed") {
        return Err(format!("{}: {stderr}", output.status).into());
    }
    Ok(())
}
