//! The parts, most important first. Each part is a separate process, so a lost device or a driver crash
//! ends only one part.

mod cuts;
mod device;
mod kernels;
mod memory;
mod operator;
mod peers;
mod speed;
mod training;

use std::{
    fs::{File, OpenOptions},
    io::Write,
    panic::{self, AssertUnwindSafe},
    path::Path,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{error::Error, report::Report};

/// A part.
pub struct Part {
    /// The part's name on the command line and in file names.
    pub name: &'static str,
    pub title: &'static str,
    /// The part's share of the remaining time.
    pub weight: u32,
    /// Whether a second shader language repeats the part.
    pub second_opinion: bool,
    /// Whether the part measures times. The other parts tune Burn's matrix products as little as
    /// possible, because tuning takes seconds per size.
    pub is_timed: bool,
    run: fn(&mut Rows, &Clock, &[String]) -> Result<(), Stop>,
    /// Formats its rows as Markdown.
    pub page: fn(&[Value], &Report) -> String,
}

pub const PARTS: [Part; 8] = [
    Part {
        name: "device",
        title: "The device",
        weight: 1,
        second_opinion: true,
        is_timed: false,
        run: device::run,
        page: device::page,
    },
    Part {
        name: "kernels",
        title: "Every kernel and launch configuration compared with float64",
        weight: 8,
        second_opinion: true,
        is_timed: false,
        run: kernels::run,
        page: kernels::page,
    },
    Part {
        name: "operator",
        title: "The operator: recorded runs of other systems, gradient checks, non-finite values",
        weight: 10,
        second_opinion: false,
        is_timed: false,
        run: operator::run,
        page: operator::page,
    },
    Part {
        name: "speed",
        title: "GruBlock and Burn's Gru",
        weight: 12,
        second_opinion: true,
        is_timed: true,
        run: speed::run,
        page: speed::page,
    },
    Part {
        name: "peers",
        title: "cuDNN in PyTorch",
        weight: 4,
        second_opinion: false,
        is_timed: false,
        run: peers::run,
        page: peers::page,
    },
    Part {
        name: "cuts",
        title: "The launch configurations that the device allows",
        weight: 16,
        second_opinion: true,
        is_timed: false,
        run: cuts::run,
        page: cuts::page,
    },
    Part {
        name: "memory",
        title: "Memory",
        weight: 3,
        second_opinion: false,
        is_timed: false,
        run: memory::run,
        page: memory::page,
    },
    Part {
        name: "training",
        title: "Training, compared with the CPU",
        weight: 6,
        second_opinion: false,
        is_timed: true,
        run: training::run,
        page: training::page,
    },
];

impl Part {
    pub fn find(name: &str) -> Result<&'static Self, Error> {
        let part = PARTS.iter().find(|part| part.name == name);
        part.ok_or_else(|| {
            let names = PARTS.iter().map(|part| part.name).collect::<Vec<_>>();
            Error::Part(name.to_owned(), names.join(", "))
        })
    }
}

/// Runs a part in this process. Writes its rows to `rows`, or prints its page.
pub fn run(name: &str, seconds: u64, rows: Option<&Path>, more: &[String]) -> Result<(), Error> {
    let part = Part::find(name)?;
    let to_file = rows.is_some();
    let mut rows = Rows::new(rows)?;
    let clock = Clock::new(Duration::from_secs(seconds));
    let run = part.run;
    let done = run(&mut rows, &clock, more);
    if !to_file {
        println!("{}", (part.page)(&rows.all, &Report::default()));
    }
    done.map_err(|stop| match stop {
        Stop::OutOfTime(left) => Error::OutOfTime(format!("the time was over {left}")),
        Stop::Failed(reason) => Error::Command(name.to_owned(), reason),
    })
}

/// Why a part ends early.
enum Stop {
    /// The time was over. Contains the unfinished work.
    OutOfTime(String),
    Failed(String),
}

impl From<String> for Stop {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// The results of a part. Each row is written to the file at once.
pub struct Rows {
    all: Vec<Value>,
    file: Option<File>,
}

impl Rows {
    fn new(path: Option<&Path>) -> Result<Self, Error> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map_err(Error::file(path))
        };
        Ok(Self {
            all: Vec::new(),
            file: path.map(open).transpose()?,
        })
    }

    fn add(&mut self, row: &impl Serialize) -> Result<(), String> {
        let row = serde_json::to_value(row).map_err(|e| e.to_string())?;
        if let Some(file) = &mut self.file {
            writeln!(file, "{row}").map_err(|e| e.to_string())?;
        }
        self.all.push(row);
        Ok(())
    }
}

/// Rows of a part. Rows of another version of the kit are left out.
fn read<T: DeserializeOwned>(rows: &[Value]) -> Vec<T> {
    let read = |row: &Value| serde_json::from_value(row.clone()).ok();
    rows.iter().filter_map(read).collect()
}

/// The deadline of a part.
pub struct Clock {
    end: Instant,
}

impl Clock {
    fn new(time: Duration) -> Self {
        let end = Instant::now() + time;
        Self { end }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Returns an error if the time is over. `left` names the unfinished work.
    fn check(&self, left: impl FnOnce() -> String) -> Result<(), Stop> {
        if self.is_over() {
            Err(Stop::OutOfTime(left()))
        } else {
            Ok(())
        }
    }
}

/// Converts a panic to an error.
fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic").to_owned()
    })
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let mut text = line(&head);
    text += &line(&vec!["---".to_owned(); head.len()]);
    for row in rows {
        text += &line(&row);
    }
    text
}
