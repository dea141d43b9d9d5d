//! Runs the program on the CPU, as a user does.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs `recall` in a folder.
#[track_caller]
fn run(folder: &Path, arguments: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_recall"))
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "recall {arguments}\n{errors}");
}

/// The log without times.
fn log(folder: &Path, agent: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.join(agent).join("log.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let object = line.as_object_mut().unwrap();
        object.retain(|name, _| !name.ends_with("_seconds"));
        line
    };
    text.lines().map(line).collect()
}

#[test]
fn a_run_repeats_itself() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    for out in ["one", "other"] {
        run(folder, &format!("--updates 12 --out {out}"));
    }
    let one = log(&folder.join("one"), "restarts");
    assert_eq!(one.len(), 12);
    assert_eq!(log(&folder.join("other"), "restarts"), one);
    let [one, other] = ["one", "other"].map(|run| folder.join(run).join("recall.svg"));
    assert_eq!(fs::read(one).unwrap(), fs::read(other).unwrap());
}
