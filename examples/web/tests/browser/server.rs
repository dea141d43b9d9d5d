//! The command that serves the page.

use super::visit::text;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Dropping it ends the command.
pub struct Server {
    program: Child,
    pub address: String,
}

impl Server {
    pub fn start(page: &Path) -> Result<Self, String> {
        let mut program = Command::new(env!("CARGO_BIN_EXE_web"))
            .args(["serve", "--port", "0", "--page"])
            .arg(page)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;
        let mut line = String::new();
        let output = program.stdout.take().expect("standard output is piped");
        BufReader::new(output).read_line(&mut line).map_err(text)?;
        let address = line.split_whitespace().next().ok_or("no address")?;
        Ok(Self {
            program,
            address: format!("{address}/"),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
