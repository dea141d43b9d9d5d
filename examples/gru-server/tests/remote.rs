//! Runs `gru-server` and `char-gru --devices` as separate processes on the loopback interface.

use char_gru::{commands, config::Cli};
use clap::Parser;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{self, Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::tempdir;

/// A running `gru-server`. Dropping it kills the process.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_gru-server"))
            .args(["--backend", "flex", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("ws://").unwrap();
        let address = address.parse().unwrap();
        Self { process, address }
    }

    fn url(&self) -> String {
        url(self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn url(address: SocketAddr) -> String {
    format!("ws://{address}")
}

/// Contains the arguments, one per line, if this process must run `char-gru`.
const ARGUMENTS: &str = "GRU_SERVER_CHAR_GRU";

/// Not a test but the program `char-gru`, because a test can only start binaries of its own package.
#[test]
#[ignore = "a program that the other tests start"]
fn char_gru() {
    let arguments = env::var(ARGUMENTS);
    let arguments =
        arguments.unwrap_or_else(|_| panic!("{ARGUMENTS}: expected arguments, got none"));
    let cli = Cli::parse_from(arguments.lines());
    process::exit(commands::run(&cli).into());
}

/// `char-gru train` for a small model without dropout, because each device would draw its own dropout.
fn train(out: &Path, more: &[&str]) -> Command {
    let model = "char-gru train --embed 12 --hidden 24 --layers 2 --dropout 0 --length 60";
    let mut arguments: Vec<&str> = model.split(' ').collect();
    arguments.extend(["--check-every", "5", "--out", out.to_str().unwrap()]);
    arguments.extend(more);
    // This program again.
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["char_gru", "--exact", "--ignored", "--nocapture", "--quiet"])
        .env(ARGUMENTS, arguments.join("\n"))
        // The device to which Burn loads an optimizer for resuming. By default this may be a missing
        // GPU.
        .env("BURN_DEVICE", "flex");
    command
}

fn finish(mut command: Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    output
}

/// All losses, validation losses and gradient norms of a run.
fn numbers(run: &Path) -> Vec<(String, f64)> {
    let log = fs::read_to_string(run.join("log.jsonl")).unwrap();
    let mut numbers = Vec::new();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        for name in ["loss", "gradient_norm", "training", "validation"] {
            if let Some(number) = line[name].as_f64() {
                numbers.push((format!("{name} of step {}", line["step"]), number));
            }
        }
    }
    assert!(!numbers.is_empty());
    numbers
}

fn assert_alike(run: &Path, other: &Path, tolerance: f64) {
    let (run, other) = (numbers(run), numbers(other));
    assert_eq!(run.len(), other.len());
    for ((name, a), (_, b)) in run.iter().zip(&other) {
        assert!((a - b).abs() <= tolerance * b.abs(), "{name}: {a} and {b}");
    }
}

/// Float32 rounding over ten training steps.
const ROUNDING: f64 = 2e-5;

#[test]
fn two_servers_learn_what_one_device_learns() {
    let folder = tempdir().unwrap();
    let (one, other) = (Server::start(), Server::start());
    let devices = format!("{},{}", one.url(), other.url());
    let steps = ["--max-steps", "10"];
    let local = finish(train(&folder.path().join("local"), &steps));
    let apart = [&steps[..], &["--devices", &devices]].concat();
    let apart = finish(train(&folder.path().join("apart"), &apart));
    assert_alike(
        &folder.path().join("apart"),
        &folder.path().join("local"),
        ROUNDING,
    );
    // Also the sample: the last line is the generated text.
    let last = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().last().map(str::to_string)
    };
    assert_eq!(last(&apart), last(&local));
}

#[test]
fn runs_resume_on_other_devices() {
    let folder = tempdir().unwrap();
    let (one, other) = (Server::start(), Server::start());
    let both = format!("{},{}", one.url(), other.url());
    finish(train(&folder.path().join("whole"), &["--max-steps", "15"]));
    let broken = folder.path().join("broken");
    finish(train(&broken, &["--max-steps", "5", "--devices", &both]));
    finish(train(
        &broken,
        &["--max-steps", "10", "--resume", "--devices", &other.url()],
    ));
    finish(train(&broken, &["--max-steps", "15", "--resume"]));
    assert_alike(&broken, &folder.path().join("whole"), ROUNDING);
}

#[test]
fn a_dead_server_gives_one_error_and_a_resume() {
    let folder = tempdir().unwrap();
    // Either of the two servers.
    for victim in [0, 1] {
        let mut servers = vec![Server::start(), Server::start()];
        let devices = format!("{},{}", servers[0].url(), servers[1].url());
        let out = folder.path().join(victim.to_string());
        let run = train(&out, &["--epochs", "1000", "--devices", &devices])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while !out.join("checkpoint.bpk").exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "no checkpoint");
            thread::sleep(Duration::from_millis(10));
        }
        drop(servers.remove(victim));
        let output = run.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(
            errors.starts_with("error: cannot read the device"),
            "{errors}"
        );

        let resumed = ["--epochs", "1000", "--resume", "--max-steps", "100000"];
        let resumed = train(&out, &resumed).stdout(Stdio::piped()).spawn();
        let mut resumed = resumed.unwrap();
        let mut text = BufReader::new(resumed.stdout.take().unwrap()).lines();
        assert!(text.any(|line| line.unwrap().starts_with("resuming after step")));
        assert!(text.any(|line| line.unwrap().starts_with("step ")));
        resumed.kill().unwrap();
        resumed.wait().unwrap();
    }
}

#[test]
fn absent_servers_are_named() {
    let folder = tempdir().unwrap();
    // No server can listen on the client's port of an open connection. A closed port could become the port of another
    // test's server.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let absent = url(connection.local_addr().unwrap());
    let mut run = train(&folder.path().join("absent"), &["--devices", &absent]);
    let output = run.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("error: cannot use the server {absent}");
    assert!(errors.starts_with(&expected), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn two_clients_without_dropout_get_the_results_of_one() {
    let folder = tempdir().unwrap();
    let server = Server::start();
    let url = server.url();
    let run = |seed: &str, name: &str| {
        let arguments = ["--max-steps", "20", "--seed", seed, "--devices", &url];
        train(&folder.path().join(name), &arguments)
    };
    finish(run("1", "first alone"));
    finish(run("2", "second alone"));
    let both = [run("1", "first"), run("2", "second")]
        .map(|mut command| command.stdout(Stdio::null()).spawn().unwrap());
    for mut client in both {
        assert!(client.wait().unwrap().success());
    }
    for name in ["first", "second"] {
        let alone = numbers(&folder.path().join(format!("{name} alone")));
        assert_eq!(numbers(&folder.path().join(name)), alone);
    }
}
