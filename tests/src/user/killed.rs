//! If a process is killed during a save, the old or the new file remains.

use super::{child, text};
use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{Device, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig};
use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::Stdio,
    thread,
    time::Duration,
};

/// The path where the child process saves.
const PATH: &str = "GRU_TESTS_SAVE_TO";
const ROUNDS: u32 = 24;
/// A busy machine may kill too late in some rounds, but not in so many.
const MOST_ROUNDS: u32 = 1000;
/// The value of all parameters in each of the two blocks.
const VALUES: [f64; 2] = [0.25, 0.5];

fn config() -> GruBlockConfig {
    GruBlockConfig::new(64, 128)
}

struct Fill(f64);

impl ModuleMapper for Fill {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor.full_like(self.0))
    }
}

/// Saves two blocks alternately until the process is killed.
pub fn role() -> Result<(), String> {
    let path = PathBuf::from(env::var_os(PATH).ok_or("no path")?);
    let blocks = VALUES.map(|value| config().init(&Device::flex()).map(&mut Fill(value)));
    for round in 0.. {
        for block in &blocks {
            block.save_with_config(&path).map_err(text)?;
        }
        if round == 0 {
            println!("saved");
        }
    }
    Ok(())
}

pub fn leaves_a_whole_file() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let path = folder.path().join("block.bpk");
    let mut interrupted = 0;
    let mut round = 0;
    while round < ROUNDS || (interrupted == 0 && round < MOST_ROUNDS) {
        let mut command = child::command("saves").map_err(text)?;
        let saves = command.env(PATH, &path).stdout(Stdio::piped()).spawn();
        let mut saves = saves.map_err(text)?;
        let mut line = String::new();
        let out = saves.stdout.take().expect("standard output is piped");
        BufReader::new(out).read_line(&mut line).map_err(text)?;
        // The temporary file shows that a save has begun. Each round stops at another moment of it. A save takes about a
        // millisecond.
        while fs::read_dir(&folder).map_err(text)?.count() < 2 {
            if let Some(status) = saves.try_wait().map_err(text)? {
                return Err(format!("the child process ended: {status}"));
            }
        }
        thread::sleep(Duration::from_micros(u64::from(round) * 37 % 400));
        saves.kill().map_err(text)?;
        saves.wait().map_err(text)?;
        super::expect("the child process", line.trim_end(), "saved")?;
        let read = GruBlock::from_file(&path, &Device::flex());
        let read = read.map_err(|e| format!("round {round}: {e}"))?;
        let layer = &read.layers[0];
        let numbers = [
            super::values(layer.w_ih.val()),
            super::values(layer.w_hh.val()),
        ]
        .concat();
        if !VALUES
            .iter()
            .any(|value| numbers.iter().all(|x| x == value))
        {
            return Err(format!("round {round}: expected the values of one block"));
        }
        // An interrupted save leaves its temporary file next to the target.
        let files = fs::read_dir(&folder).map_err(text)?.count();
        interrupted += usize::from(files > 1);
        round += 1;
        for file in fs::read_dir(&folder).map_err(text)? {
            let file = file.map_err(text)?.path();
            if file != path {
                fs::remove_file(file).map_err(text)?;
            }
        }
    }
    if interrupted == 0 {
        return Err(format!("none of {round} saves was interrupted"));
    }
    Ok(())
}
