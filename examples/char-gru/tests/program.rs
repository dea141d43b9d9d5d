//! Runs the program's commands one after the other on the CPU, as a user does.
#![cfg(feature = "flex")]

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// Runs `char-gru` in a folder and returns its output.
#[track_caller]
fn run(folder: &Path, arguments: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_char-gru"))
        .args(arguments.split(' '))
        .current_dir(folder)
        // The device to which Burn loads an optimizer. By default this may be a missing GPU.
        .env("BURN_DEVICE", "flex")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "char-gru {arguments}\n{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn trains_resumes_samples_evaluates_exports_and_imports() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| run(folder.path(), arguments);

    run("train --epochs 1 --max-steps 40");
    let resumed = run("train --epochs 1 --max-steps 60 --resume");
    assert!(resumed.contains("resuming after step 40"), "{resumed}");
    let sample = run("sample --length 80");
    assert!(sample.chars().count() >= 80, "{sample}");
    fs::write(folder.path().join("text.txt"), "et dolorem et dolorem").unwrap();
    let bits = run("eval text.txt");
    assert!(bits.contains("bits per character"), "{bits}");

    run("export char-gru/model.bpk model.safetensors");
    run("import model.safetensors again/model.bpk");
    assert_eq!(run("sample again/model.bpk --length 80"), sample);
}

/// After the last step the program writes a text, which may be long.
#[cfg(unix)]
#[test]
fn a_signal_ends_the_program_after_the_training() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_char-gru"))
        .args("train --max-steps 2 --length 1000000000".split(' '))
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The pipe stays open, so that the program cannot end by itself.
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("holds the model")));
    let signal = Command::new("kill")
        .args(["-TERM", &program.id().to_string()])
        .status();
    assert!(signal.unwrap().success());
    let start = Instant::now();
    let ended = loop {
        match program.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if start.elapsed() > Duration::from_secs(60) => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let _ = program.kill();
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
}
