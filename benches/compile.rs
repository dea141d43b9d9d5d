//! The time that gru-op adds to a release build of a program that has Burn already.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Instant,
};

use crate::{
    Options, facts,
    record::{Record, Row},
};

const CRATES: [&str; 3] = ["gru-spec", "gru-cpu", "gru-op"];

/// Compiles the crates three times.
///
/// # Errors
/// If Cargo fails.
pub fn measure(options: &Options) -> Result<(), String> {
    let record = options.csv.as_deref().map(Record::open).transpose()?;
    let mut samples = Vec::new();
    for _ in 0..3 {
        samples.push(compile()?);
        println!("{:.1} s", samples[samples.len() - 1] / 1e3);
    }
    let peer = ("gru-op-flex", env!("CARGO_PKG_VERSION"));
    let row = Row {
        note: CRATES.join(" "),
        ..Row::new(peer, ("compile", "release", facts::cores().len()), &samples)
    };
    record.map_or(Ok(()), |mut record| record.add(vec![row], ""))
}

/// Milliseconds until gru-op is compiled. The build of this program, which follows, is ended.
fn compile() -> Result<f64, String> {
    let packages = CRATES.map(|name| ["-p", name]).concat();
    let cleaned = cargo(&[&["clean", "--release"], &packages[..]].concat()).status();
    let cleaned = cleaned.map_err(|e| format!("cargo clean: {e}"))?;
    if !cleaned.success() {
        return Err(format!("cargo clean: {cleaned}"));
    }
    let start = Instant::now();
    let mut build = cargo(&[
        "build",
        "--release",
        "--message-format",
        "json",
        "-p",
        "gru-benches",
    ])
    .stdout(Stdio::piped())
    .spawn()
    .map_err(|e| format!("cargo build: {e}"))?;
    let messages = BufReader::new(build.stdout.take().expect("the pipe was requested"));
    let is_done =
        |line: &String| line.contains("compiler-artifact") && line.contains("/libgru_op-");
    let is_compiled = messages
        .lines()
        .map_while(Result::ok)
        .any(|line| is_done(&line));
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let _ = build.kill();
    let _ = build.wait();
    if is_compiled {
        Ok(ms)
    } else {
        Err("cargo build: gru-op was not compiled".into())
    }
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command
        .arg("--quiet")
        .args(arguments)
        .current_dir(crate::root());
    command
}
