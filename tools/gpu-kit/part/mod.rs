//! The parts, most important first. Each part is a separate process, so a lost device or a driver crash
//! ends only one part.

mod cuts;
mod device;
mod kernels;
mod memory;
mod operator;
#[cfg(feature = "cuda")]
mod sanitizer;
mod speed;

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::Write,
    panic::{self, AssertUnwindSafe},
    path::Path,
    time::{Duration, Instant},
};

use burn::tensor::Device;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::error::Error;

/// A part.
pub struct Part {
    /// The part's name on the command line and in file names.
    pub name: &'static str,
    pub title: &'static str,
    /// The part's share of the remaining time.
    pub weight: u32,
    /// Whether a second shader language repeats the part.
    pub second_opinion: bool,
    /// Whether a new process can go on after the rows of a process that lost the device.
    pub resumes: bool,
    /// Whether several processes may share the part.
    pub is_shared: bool,
    run: fn(&mut Rows, &Clock, &[String]) -> Result<(), Stop>,
    /// Formats its rows as Markdown.
    pub page: fn(&[Value]) -> String,
}

pub const PARTS: &[Part] = &[
    Part {
        name: "device",
        title: "The device",
        weight: 1,
        second_opinion: true,
        resumes: false,
        is_shared: false,
        run: device::run,
        page: device::page,
    },
    Part {
        name: "kernels",
        title: "Every kernel and launch configuration compared with float64",
        weight: 14,
        second_opinion: true,
        resumes: true,
        is_shared: true,
        run: kernels::run,
        page: kernels::page,
    },
    #[cfg(feature = "cuda")]
    Part {
        name: "sanitizer",
        title: "The same under NVIDIA's compute-sanitizer",
        weight: 8,
        second_opinion: false,
        resumes: false,
        is_shared: false,
        run: sanitizer::run,
        page: sanitizer::page,
    },
    Part {
        name: "operator",
        title: "The operator: recorded runs of other systems, gradient checks, non-finite values",
        weight: 10,
        second_opinion: false,
        resumes: false,
        is_shared: true,
        run: operator::run,
        page: operator::page,
    },
    Part {
        name: "speed",
        title: "GruBlock, Burn's Gru and cuDNN",
        weight: 20,
        second_opinion: true,
        resumes: false,
        is_shared: false,
        run: speed::run,
        page: speed::page,
    },
    Part {
        name: "cuts",
        title: "The launch configurations that the device allows",
        weight: 16,
        second_opinion: true,
        resumes: true,
        is_shared: true,
        run: cuts::run,
        page: cuts::page,
    },
    Part {
        name: "memory",
        title: "Memory",
        weight: 3,
        second_opinion: false,
        resumes: false,
        is_shared: false,
        run: memory::run,
        page: memory::page,
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

/// The runtime of all parts, as in the names of trials.
const RUNTIME: &str = if cfg!(feature = "cuda") {
    "cuda"
} else {
    "wgpu"
};

/// The device of all parts.
#[cfg(feature = "cuda")]
fn device() -> Device {
    Device::cuda(0)
}

/// The device of all parts.
#[cfg(all(feature = "wgpu", not(feature = "cuda")))]
fn device() -> Device {
    Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)
}

/// An error without a CUDA device, because opening a missing device panics.
fn check_device() -> Result<(), Stop> {
    #[cfg(feature = "cuda")]
    cubecl::Device::cuda(0).map_err(|_| "no CUDA device, or no driver".to_owned())?;
    Ok(())
}

/// Prints warnings of gru-op and gru-cube, such as a failed self-test.
struct Warnings;

impl log::Log for Warnings {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.target().starts_with("gru")
    }

    fn log(&self, record: &log::Record) {
        if self.enabled(record.metadata()) {
            println!("warning: {}", record.args());
        }
    }

    fn flush(&self) {}
}

/// Runs a part in this process. Writes its rows to `rows`, or prints its page.
pub fn run(name: &str, seconds: u64, rows: Option<&Path>, more: &[String]) -> Result<(), Error> {
    let part = Part::find(name)?;
    log::set_max_level(log::LevelFilter::Warn);
    let _ = log::set_logger(&Warnings);
    let to_file = rows.is_some();
    let mut rows = Rows::new(rows)?;
    let clock = Clock::new(Duration::from_secs(seconds));
    let run = part.run;
    let done = check_device().and_then(|()| run(&mut rows, &clock, more));
    if !to_file {
        println!("{}", (part.page)(&rows.all));
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
    /// Rows in the file of an earlier process, which lost the device.
    earlier: usize,
}

impl Rows {
    fn new(path: Option<&Path>) -> Result<Self, Error> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map_err(Error::file(path))
        };
        let mut earlier = 0;
        if let Some(path) = path
            && let Ok(text) = fs::read_to_string(path)
        {
            // A crash can leave an incomplete last row, whose problem runs again.
            let complete = text.rfind('\n').map_or("", |end| &text[..=end]);
            fs::write(path, complete).map_err(Error::file(path))?;
            earlier = complete.lines().count();
        }
        Ok(Self {
            all: Vec::new(),
            file: path.map(open).transpose()?,
            earlier,
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
        self.left().is_zero()
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
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

/// The share of a process in its part: the first problem, and the distance of its problems.
fn share(more: &[String]) -> Result<(usize, usize), String> {
    let numbers: Result<Vec<usize>, _> = more.iter().map(|word| word.parse()).collect();
    match numbers.as_deref() {
        Ok([]) => Ok((0, 1)),
        Ok(&[first, step]) if step > 0 => Ok((first, step)),
        _ => Err(format!("expected two numbers, got {more:?}")),
    }
}

/// Measures, while no other process that shares the part measures. Without locks in the file system, they disturb each
/// other.
fn alone<T>(measure: impl FnOnce() -> T) -> T {
    let path = env::temp_dir().join("gpu-kit.lock");
    // The end of the file unlocks it.
    let locked = File::create(path).and_then(|file| file.lock().map(|()| file));
    let result = measure();
    drop(locked);
    result
}

/// Converts a panic to an error. The text of a failed compilation contains the whole kernel, and ends here earlier.
fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic").chars().take(2000).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_last_row_is_written_again() {
        let path = env::temp_dir().join(format!("gpu-kit-rows-{}", std::process::id()));
        fs::write(&path, "{\"found\":1}\n{\"fou").unwrap();
        let mut rows = Rows::new(Some(&path)).unwrap();
        assert_eq!(rows.earlier, 1);
        rows.add(&serde_json::json!({"found": 2})).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"found\":1}\n{\"found\":2}\n");
        fs::remove_file(path).unwrap();
    }
}
