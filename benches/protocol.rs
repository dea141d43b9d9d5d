//! The answers of a peer in Rust. `peer.rs` describes the protocol.

use std::{
    fmt::Display,
    fs,
    io::{self, Write},
    path::Path,
    time::Instant,
};

/// A problem that a peer computes.
pub struct Prepared {
    /// Names and numbers of the first call.
    pub outputs: Vec<(String, Vec<f32>)>,
    /// What a reader of the times must know.
    pub note: &'static str,
    /// Makes this number of calls, and waits for the last one.
    pub calls: Box<dyn FnMut(usize)>,
}

/// Answers the requests of standard input. `prepare` receives the problem file, and whether there is a backward pass. It
/// returns an error for a problem that the peer does not compute.
pub fn serve<E: Display>(version: &str, prepare: impl Fn(&Path, bool) -> Result<Prepared, E>) {
    say(&format!("ok\t{version}"));
    let mut calls: Option<Box<dyn FnMut(usize)>> = None;
    for line in io::stdin().lines() {
        let line = line.expect("the driver writes text");
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["prepare", problem, mode, out] => {
                drop(calls.take());
                match prepare(Path::new(problem), mode == "fwd_bwd") {
                    Ok(prepared) => {
                        let (names, floats): (Vec<_>, Vec<_>) =
                            prepared.outputs.into_iter().unzip();
                        let bytes = floats
                            .iter()
                            .flatten()
                            .flat_map(|float| float.to_le_bytes());
                        fs::write(out, bytes.collect::<Vec<u8>>())
                            .expect("the file can be written");
                        say(&format!("ok\t{}\t{}", names.join(" "), prepared.note));
                        calls = Some(prepared.calls);
                    }
                    Err(reason) => say(&format!("no\t{reason}")),
                }
            }
            ["sample", warm_up, timed] => {
                let calls = calls.as_mut().expect("a problem is prepared");
                let count = |text: &str| text.parse().expect("the driver sends numbers");
                calls(count(warm_up));
                let start = Instant::now();
                calls(count(timed));
                say(&format!("ok\t{}", start.elapsed().as_nanos()));
            }
            _ => say(&format!("no\tunknown request {line}")),
        }
    }
}

/// Sends a line to the driver.
pub fn say(line: &str) {
    println!("{line}");
    io::stdout().flush().expect("the driver reads");
}

/// The version of a package in a `Cargo.lock`.
pub fn version(lock: &'static str, package: &str) -> &'static str {
    let entry = lock.split_once(&format!("name = \"{package}\"\nversion = \""));
    entry
        .and_then(|(_, entry)| entry.split('"').next())
        .unwrap_or("unknown")
}
