//! Facts about the machine and the build. On systems other than Linux most are unknown.

use std::{fs, path::Path, process::Command, sync::OnceLock};

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
pub fn pin(threads: usize) -> String {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_setaffinity};
        static ALL: OnceLock<Vec<usize>> = OnceLock::new();
        let all = ALL.get_or_init(cores);
        if threads > all.len() {
            return format!("not pinned: {} cores", all.len());
        }
        let chosen = &all[all.len() - threads..];
        let mut set = CpuSet::new();
        chosen.iter().for_each(|&core| set.set(core));
        match sched_setaffinity(None, &set) {
            Ok(()) => format!("pinned to cores {chosen:?}"),
            Err(error) => format!("not pinned: {error}"),
        }
    }
    #[cfg(not(target_os = "linux"))]
    format!("not pinned: {threads} threads on a system without sched_setaffinity")
}

/// The model name of the CPU.
pub fn cpu() -> String {
    cpu_line("model name").unwrap_or_else(|| "unknown".into())
}

fn cpu_line(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
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
            "benches/support",
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
    let flags = cpu_line("flags").unwrap_or_default();
    let sets = flags.split(' ').filter(|flag| {
        let prefixes = ["avx", "fma", "f16c", "amx", "sse4"];
        prefixes.iter().any(|prefix| flag.starts_with(prefix))
    });
    let sets = sets.collect::<Vec<_>>().join(" ");
    let core = Path::new("/sys/devices/system/cpu/cpu0");
    let caches = (0..4).filter_map(|k| {
        let cache = core.join(format!("cache/index{k}"));
        let part = |name: &str| fs::read_to_string(cache.join(name)).ok();
        let (level, kind, size) = (part("level")?, part("type")?, part("size")?);
        Some(format!("L{} {} {}", level.trim(), kind.trim(), size.trim()))
    });
    let caches = caches.collect::<Vec<_>>().join(", ");
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let target = option_env!("CARGO_ENCODED_RUSTFLAGS").or(option_env!("RUSTFLAGS"));
    let facts = [
        ("CPU", cpu()),
        ("family, model, stepping", {
            let parts = ["cpu family", "model\t", "stepping"].map(cpu_line);
            parts
                .map(|part| part.unwrap_or_else(|| "unknown".into()))
                .join(", ")
        }),
        ("cores", cores_of_machine()),
        ("instruction sets", sets),
        ("caches of a core", caches),
        (
            "processors on the core of the first",
            read("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list"),
        ),
        ("governor", governor),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        (
            "large pages",
            read("/sys/kernel/mm/transparent_hugepage/enabled"),
        ),
        ("rustc", output("rustc", &["-V"])),
        ("RUSTFLAGS", target.unwrap_or("").to_owned()),
        ("optimised", (!cfg!(debug_assertions)).to_string()),
    ];
    facts
        .map(|(key, value)| format!("{key}: {value}\n"))
        .concat()
}

/// The number of cores. The affinity of this process may be narrower.
fn cores_of_machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .filter(|line| line.starts_with("processor"))
        .count()
        .to_string()
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

/// A line of `/proc/PID/status` in MiB, such as `VmHWM`, the peak of resident memory.
///
/// # Errors
/// On systems other than Linux.
pub fn mib(process: u32, line: &str) -> Result<f64, String> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let words = text.lines().find_map(|found| found.strip_prefix(line));
    let kib = words.and_then(|words| words.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0)
        .ok_or_else(|| format!("{path}: no line {line}"))
}

/// Sets the peak of a process to its present memory.
///
/// # Errors
/// On systems other than Linux.
pub fn reset_peak(process: u32) -> Result<(), String> {
    let path = format!("/proc/{process}/clear_refs");
    fs::write(&path, "5").map_err(|e| format!("{path}: {e}"))
}
