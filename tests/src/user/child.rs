//! Tests that need a separate process, which runs this program again.

use super::{golden, integers, memory, warned};
use std::{
    env, io,
    process::{self, Command},
};

/// If set to the name of a role, this program runs the role instead of testing.
const ROLE: &str = "GRU_TESTS_CHILD";

type Role = fn() -> Result<(), String>;

const ROLES: [(&str, Role); 4] = [
    ("integers", integers::role),
    ("memory", memory::role),
    ("warnings", warned::role),
    ("writes-golden-files", golden::write),
];

/// Runs the role that this process was started for, if any, and exits.
pub fn child_if_asked() {
    let Ok(name) = env::var(ROLE) else {
        return;
    };
    let role = ROLES.iter().find(|role| role.0 == name);
    let (_, role) = role.unwrap_or_else(|| panic!("{ROLE}: no role {name:?}"));
    if let Err(reason) = role() {
        eprintln!("{reason}");
        process::exit(1);
    }
    process::exit(0);
}

/// A command that runs this program in a role. Burn's default device is Flex.
pub fn command(role: &str) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.env(ROLE, role).env("BURN_DEVICE", "flex");
    Ok(command)
}

/// Runs a role to its end. On failure, returns its output.
pub fn run(role: &str) -> Result<(), String> {
    let output = command(role).and_then(|mut command| command.output());
    let output = output.map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    Err(format!("{role}: {}\n{out}{err}", output.status))
}
