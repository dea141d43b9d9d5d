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

/// Runs `recall` in a folder and returns its output.
#[track_caller]
fn run(folder: &Path, arguments: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_recall"))
        .args(arguments.split(' '))
        .arg("--plain")
        .current_dir(folder)
        // The device to which Burn loads an optimizer. By default this may be a missing GPU.
        .env("BURN_DEVICE", "flex")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "recall {arguments}\n{errors}");
    String::from_utf8(output.stdout).unwrap()
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
fn a_resumed_run_has_the_numbers_of_a_run_without_interruption() {
    let folder = Folder(env::temp_dir().join(format!("recall-program-{}", process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    run(&folder.0, "--updates 12 --gru block,burn --out whole");
    run(&folder.0, "--updates 7 --gru block,burn --out parts");
    let said = run(
        &folder.0,
        "--updates 12 --gru block,burn --out parts --resume",
    );
    assert!(said.contains("resuming after update 7"), "{said}");
    for agent in ["restarts-block", "restarts-burn"] {
        let whole = log(&folder.0.join("whole"), agent);
        assert_eq!(whole.len(), 12);
        assert_eq!(log(&folder.0.join("parts"), agent), whole);
    }
    let [whole, parts] = ["whole", "parts"].map(|run| folder.0.join(run).join("recall.svg"));
    assert_eq!(fs::read(whole).unwrap(), fs::read(parts).unwrap());

    let again = Command::new(env!("CARGO_BIN_EXE_recall"))
        .args("--updates 12 --seed 2 --out parts --plain --resume".split(' '))
        .current_dir(&folder.0)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(1));
    assert!(errors.contains("other arguments"), "{errors}");
}
