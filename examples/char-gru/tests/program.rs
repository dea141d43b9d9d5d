//! Runs the program as a user does.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{thread::sleep, time::Duration};

use burn::tensor::TensorData;
use gru_convert::StateDict;

const TRAIN: &str =
    "train --text text --embed 8 --hidden 16 --epochs 6 --batch 4 --seq 16 --lr 0.02 --dropout 0.1";

fn program(folder: &Path, arguments: &str) -> Command {
    fs::write(folder.join("text"), "a rose is a rose. ".repeat(60)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_char-gru"));
    command.args(arguments.split(' ')).current_dir(folder);
    // The device to which Burn loads an optimizer. By default this may be a missing GPU.
    command.env("BURN_DEVICE", "flex");
    command
}

/// The output of a command, which succeeds.
#[track_caller]
fn run(folder: &Path, arguments: &str) -> String {
    let output = program(folder, arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A command fails with exit code 2 and one line that contains `expected`.
#[track_caller]
fn fails(folder: &Path, arguments: &str, expected: &str) {
    let output = program(folder, arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {errors}");
    assert!(
        errors.starts_with("error: ") && errors.contains(expected),
        "{errors}"
    );
}

/// The loss of each step.
fn losses(run: &Path) -> Vec<f64> {
    let log = fs::read_to_string(run.join("log.jsonl")).unwrap();
    let loss = |line| serde_json::from_str::<serde_json::Value>(line).unwrap()["loss"].as_f64();
    log.lines().map(|line| loss(line).unwrap()).collect()
}

#[test]
fn a_run_learns_and_resumes_to_the_same_losses() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = run(folder, &format!("{TRAIN} --out whole"));
    let whole = losses(&folder.join("whole"));
    assert!(whole[whole.len() - 1] < 0.5 * whole[0], "{whole:?}");

    run(folder, &format!("{TRAIN} --out broken --max-steps 20"));
    let resume = format!("{TRAIN} --out broken --resume");
    for milliseconds in [50, 100, 200] {
        let mut killed = program(folder, &resume).spawn().unwrap();
        sleep(Duration::from_millis(milliseconds));
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    run(folder, &resume);
    assert_eq!(losses(&folder.join("broken")), whole);
    let model = |out: &str| fs::read(folder.join(out).join("model.safetensors")).unwrap();
    assert_eq!(model("broken"), model("whole"));

    // The model with the lowest validation loss, on the last tenth.
    let losses = output
        .lines()
        .filter_map(|line| line.split("validation ").nth(1));
    let lowest = losses.min_by(|a, b| a.partial_cmp(b).unwrap()).unwrap();
    fs::write(folder.join("last"), "a rose is a rose. ".repeat(6)).unwrap();
    let evaluated = run(folder, "evaluate last --model whole/model.safetensors");
    assert_eq!(evaluated.trim(), format!("{lowest} per character"));
    let sample = run(
        folder,
        "generate whole/model.safetensors --prompt rose --length 60",
    );
    assert!(
        sample.starts_with("rose") && sample.contains(" is a "),
        "{sample}"
    );
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let train = format!("{TRAIN} --out run").replace("--epochs 6", "--epochs 60000");
    let stopped = program(folder.path(), &train)
        .stderr(Stdio::piped())
        .spawn();
    let mut stopped = stopped.unwrap();
    // The log of the first epoch.
    let log = folder.path().join("run/log.jsonl");
    while !fs::read(&log).is_ok_and(|log| !log.is_empty()) {
        assert!(stopped.try_wait().unwrap().is_none(), "it ended");
        sleep(Duration::from_millis(10));
    }
    let id = stopped.id().to_string();
    Command::new("kill").args(["-INT", &id]).status().unwrap();
    let stopped = stopped.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(130));
    let errors = String::from_utf8(stopped.stderr).unwrap();
    let (_, after) = errors.split_once("error: stopped after step ").unwrap();
    let (step, _) = after.split_once(';').unwrap();
    run(
        folder.path(),
        &format!("{train} --resume --max-steps {step}"),
    );
    assert_eq!(losses(&folder.path().join("run")).len().to_string(), step);
}

#[test]
fn wrong_arguments_and_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = format!("{TRAIN} --out run");
    fails(folder, &format!("{train} --resume"), "checkpoint");
    run(folder, &format!("{train} --max-steps 1"));
    let resume = |more: &str| format!("{train} --resume{more}");
    fails(folder, &train, "--resume to continue it, or --overwrite");
    fails(folder, &resume(" --seed 2"), "settings");
    let other = resume("").replace("--text text", "--text run/log.jsonl");
    fails(folder, &other, "another text");
    let checkpoint = folder.join("run/checkpoint");
    let intact = fs::read(&checkpoint).unwrap();
    for byte in [0, intact.len() / 3, intact.len() / 2, intact.len() - 1] {
        let mut damaged = intact.clone();
        damaged[byte] ^= 1;
        fs::write(&checkpoint, damaged).unwrap();
        fails(folder, &resume(""), "damaged");
    }
    fs::write(&checkpoint, &intact[..intact.len() / 2]).unwrap();
    fails(folder, &resume(""), "damaged");
    fs::remove_file(&checkpoint).unwrap();
    fails(folder, &train, "--resume to continue it, or --overwrite");
    run(folder, &format!("{train} --overwrite --max-steps 1"));

    fs::write(folder.join("short"), "short").unwrap();
    fs::write(folder.join("latin"), b"caf\xe9").unwrap();
    fails(folder, "train --text short --out other", "too short");
    fails(folder, "train --text latin --out other", "UTF-8");
    fails(folder, "train --hidden 0", "--hidden");
    fails(folder, "train --backend abacus", "backend abacus");
    fails(folder, "generate missing", "missing");
    fails(folder, "generate text", "text");
    fails(folder, "generate run/model.safetensors --prompt roß", "'ß'");
    let arrays = StateDict::from_safetensors(folder.join("run/model.safetensors")).unwrap();
    for (name, value) in [("other", 1.0), ("characters", f32::NAN)] {
        let mut changed = arrays.clone();
        changed.insert(name, TensorData::from([value]));
        changed.to_safetensors(folder.join("changed")).unwrap();
        fails(folder, "generate changed", name);
    }

    let mut closed = program(folder, "generate run/model.safetensors");
    let mut closed = closed.stdout(Stdio::piped()).spawn().unwrap();
    drop(closed.stdout.take());
    assert_eq!(closed.wait().unwrap().code(), Some(2));
}
