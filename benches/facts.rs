//! Facts about the machine and the build. On systems other than Linux most are unknown.

use std::{fs, process::Command, sync::OnceLock};

/// The cores on which this process may run.
pub fn cores() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity};
        if let Ok(set) = sched_getaffinity(None) {
            return (0..CpuSet::MAX_CPU)
                .filter(|&core| set.is_set(core))
                .collect();
        }
    }
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// Restricts this process, and the peers that it starts later, to the last of its cores. Says which.
pub fn pin(count: usize) -> String {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_setaffinity};
        static ALL: OnceLock<Vec<usize>> = OnceLock::new();
        let all = ALL.get_or_init(cores);
        if count > all.len() {
            return format!("not pinned: {} cores", all.len());
        }
        let chosen = &all[all.len() - count..];
        let mut set = CpuSet::new();
        chosen.iter().for_each(|&core| set.set(core));
        match sched_setaffinity(None, &set) {
            Ok(()) => format!("pinned to cores {chosen:?}"),
            Err(error) => format!("not pinned: {error}"),
        }
    }
    #[cfg(not(target_os = "linux"))]
    format!("not pinned to {count} cores: the system has no sched_setaffinity")
}

/// The model name of the CPU.
pub fn cpu() -> String {
    let cpu = lscpu();
    let name = cpu
        .lines()
        .find_map(|line| line.strip_prefix("Model name:"));
    name.unwrap_or("unknown").trim().to_owned()
}

/// The output of `lscpu`, without lines that change or do not affect times.
fn lscpu() -> String {
    let text = output("lscpu", &[]);
    let changes = |line: &&str| {
        ["MHz", "BogoMIPS", "Vulnerability"]
            .iter()
            .any(|word| line.contains(word))
    };
    let lines = text.lines().filter(|line| !changes(line));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The commit of the checkout when this was first called, with `+` if the code differs from it.
pub fn commit() -> String {
    static COMMIT: OnceLock<String> = OnceLock::new();
    let commit = || {
        let code = [
            "crates",
            "Cargo.toml",
            "Cargo.lock",
            "benches/*.rs",
            "benches/Cargo.toml",
            "benches/peers",
        ];
        let changed = output(
            "git",
            &[&["status", "--porcelain", "--"][..], &code].concat(),
        );
        let commit = output("git", &["rev-parse", "--short", "HEAD"]);
        commit + if changed.is_empty() { "" } else { "+" }
    };
    COMMIT.get_or_init(commit).clone()
}

/// When this was first called, as in ISO 8601, to the minute.
pub fn date() -> String {
    static DATE: OnceLock<String> = OnceLock::new();
    DATE.get_or_init(|| output("date", &["+%FT%H:%M"])).clone()
}

/// The output of a command in the checkout, or nothing.
fn output(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .current_dir(crate::root())
        .output();
    run.map_or(String::new(), |o| {
        String::from_utf8_lossy(&o.stdout).trim().to_owned()
    })
}

/// All facts that must be equal for the rows of a record, one on each line.
pub fn machine() -> String {
    let read = |path: &str| {
        let text = fs::read_to_string(path);
        text.map_or("unknown".into(), |text| text.trim().to_owned())
    };
    let target = option_env!("CARGO_ENCODED_RUSTFLAGS").or(option_env!("RUSTFLAGS"));
    let facts = [
        (
            "governor",
            read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        ),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        (
            "large pages",
            read("/sys/kernel/mm/transparent_hugepage/enabled"),
        ),
        ("rustc", output("rustc", &["-V"])),
        ("RUSTFLAGS", target.unwrap_or("").to_owned()),
        ("optimised", (!cfg!(debug_assertions)).to_string()),
    ];
    lscpu()
        + &facts
            .map(|(key, value)| format!("{key}: {value}\n"))
            .concat()
}

/// Time of all cores, in ticks.
pub struct Ticks {
    steal: f64,
    all: f64,
}

/// The time that a hypervisor has taken from the cores so far.
pub fn steal() -> Ticks {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    Ticks {
        steal: ticks.get(7).copied().unwrap_or(f64::NAN),
        all: ticks.iter().take(8).sum(),
    }
}

impl Ticks {
    /// Steal time in percent between two readings.
    pub fn percent_until(&self, later: &Self) -> f64 {
        100.0 * (later.steal - self.steal) / (later.all - self.all).max(1.0)
    }
}
