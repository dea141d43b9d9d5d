//! Runs the program on the CPU, as a user does.

use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fs};

use serde_json::Value;

/// A folder for this process. The end of the test removes it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

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
    let folder = Folder(env::temp_dir().join(format!("recall-program-{}", process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    for out in ["one", "other"] {
        run(
            &folder.0,
            &format!("--updates 12 --gru block,burn --out {out}"),
        );
    }
    for agent in ["restarts-block", "restarts-burn"] {
        let one = log(&folder.0.join("one"), agent);
        assert_eq!(one.len(), 12);
        assert_eq!(log(&folder.0.join("other"), agent), one);
    }
    let [one, other] = ["one", "other"].map(|run| folder.0.join(run).join("recall.svg"));
    assert_eq!(fs::read(one).unwrap(), fs::read(other).unwrap());
}
