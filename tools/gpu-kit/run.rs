//! Runs the parts one after the other, each in a separate process with a deadline.

use std::{
    env, fs,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    error::{Error, OUT_OF_TIME},
    page,
    part::{PARTS, Part},
    report::{End, Entry, Report},
};

/// The share of its time that a part knows of. The rest is for its end.
const TOLD: f64 = 0.9;

/// The minimum time of a part. A part is not started with less.
const LEAST: Duration = Duration::from_secs(5);

/// Runs all parts, or the named parts, in the order of [`PARTS`]. This program runs all of them. Then
/// the other programs repeat some parts.
///
/// # Errors
/// After the last part, if a part did not end by itself or has a wrong result.
pub fn run(seconds: u64, out: &Path, names: &[String], also: &[PathBuf]) -> Result<(), Error> {
    for name in names {
        Part::find(name)?;
    }
    fs::create_dir_all(out).map_err(Error::file(out))?;
    let here = env::current_exe().map_err(Error::file("this program"))?;
    let selected = |part: &&Part| names.is_empty() || names.iter().any(|name| name == part.name);
    let mut plan: Vec<(&Path, &Part)> = Vec::new();
    plan.extend(PARTS.iter().filter(selected).map(|part| (&*here, part)));
    for program in also {
        let worth = PARTS.iter().filter(|part| part.second_opinion);
        plan.extend(worth.filter(selected).map(|part| (&**program, part)));
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        seconds,
        parts: Vec::new(),
    };
    for (index, &(program, part)) in plan.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        let weights: u32 = plan[index..].iter().map(|(_, part)| part.weight).sum();
        let share = left.mul_f64(f64::from(part.weight) / f64::from(weights));
        let time = share.max(LEAST);
        if left < time {
            println!("{}: skipped, the time is over", part.name);
            continue;
        }
        let job = Job {
            program,
            part: part.name,
            resumes: part.resumes,
            time,
            out,
            more: Vec::new(),
        };
        let entry = job.run_in(processes(part))?;
        println!("{}: {:.0} s, {:?}", job.name(), entry.seconds, entry.end);
        report.parts.push(entry);
        page::write(&report, out)?;
    }
    println!("{}", out.join("page.md").display());
    let failed = report.parts.iter().filter(|entry| failed(entry));
    let failed: Vec<_> = failed
        .map(|entry| format!("{}-{}", entry.part, entry.program))
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Error::Command("failed".to_owned(), failed.join(", ")))
    }
}

/// Whether a part crashed, was killed, or has wrong results, also if its time was over after these.
fn failed(entry: &Entry) -> bool {
    matches!(entry.end, End::Killed | End::Died(_)) || entry.rows.iter().any(is_wrong)
}

/// Whether a row of `kernels` is neither right nor rejected, or a row of `operator` has failed trials.
fn is_wrong(row: &Value) -> bool {
    let end = row["end"].as_str().unwrap_or("right");
    let is_right = end == "right" || end.starts_with("rejected");
    !is_right || row["failed"].as_u64().is_some_and(|failed| failed > 0)
}

/// A part and the program that runs it.
struct Job<'a> {
    program: &'a Path,
    part: &'a str,
    resumes: bool,
    time: Duration,
    out: &'a Path,
    /// Arguments of the part.
    more: Vec<String>,
}

/// A compiler runs in one thread per process, and takes most of the time of some parts.
fn processes(part: &Part) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    if part.is_shared {
        (cores / 2).clamp(1, 8)
    } else {
        1
    }
}

impl Job<'_> {
    /// The shader language is the last word of a program's name.
    fn language(&self) -> String {
        let stem = self.program.file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy();
        stem.rsplit('-').next().unwrap_or_default().to_owned()
    }

    fn name(&self) -> String {
        format!("{}-{}", self.part, self.language())
    }

    /// Runs every `count`-th problem in each of `count` processes.
    fn run_in(&self, count: usize) -> Result<Entry, Error> {
        if count == 1 {
            return self.run();
        }
        let entries = thread::scope(|scope| {
            let start = |first: usize| {
                let more = [first, count].map(|number| number.to_string()).into();
                let job = Self { more, ..*self };
                scope.spawn(move || job.run())
            };
            let processes: Vec<_> = (0..count).map(start).collect();
            let entries = processes
                .into_iter()
                .map(|process| process.join().expect("no panic"));
            entries.collect::<Result<Vec<_>, _>>()
        })?;
        let mut entries = entries.into_iter();
        let mut all = entries.next().expect("a process");
        for entry in entries {
            all.rows.extend(entry.rows);
            all.seconds = all.seconds.max(entry.seconds);
            if entry.end > all.end {
                all.end = entry.end;
            }
        }
        Ok(all)
    }

    fn run(&self) -> Result<Entry, Error> {
        let name = [&[self.name()][..], &self.more[..]].concat().join("-");
        let file = |ending: &str| self.out.join(format!("{name}.{ending}"));
        let (rows, log) = (file("jsonl"), file("log"));
        // Rows of an earlier run.
        let _ = fs::remove_file(&rows);
        let output = File::create(&log).map_err(Error::file(&log))?;
        let start = Instant::now();
        let mut found = 0;
        let mut lost = None;
        let end = loop {
            let time = self.time.saturating_sub(start.elapsed());
            let end = self.process(time, &rows, &output, &log)?;
            let before = found;
            found = read(&rows).len();
            // After a lost device, a new process goes on.
            let goes_on = self.resumes && found > before && time > LEAST;
            match end {
                End::Died(_) if goes_on => lost = lost.or(Some(end)),
                end => break lost.unwrap_or(end),
            }
        };
        Ok(Entry {
            part: self.part.to_owned(),
            program: self.language(),
            seconds: start.elapsed().as_secs_f64(),
            end,
            rows: read(&rows),
        })
    }

    fn process(
        &self,
        time: Duration,
        rows: &Path,
        output: &File,
        log: &Path,
    ) -> Result<End, Error> {
        let clone = || output.try_clone().map_err(Error::file(log));
        let seconds = (time.as_secs_f64() * TOLD) as u64;
        let mut command = Command::new(self.program);
        let child = command
            .args(["part", self.part, "--seconds", &seconds.to_string()])
            .arg("--rows")
            .arg(rows)
            .args(&self.more)
            .stdout(clone()?)
            .stderr(clone()?)
            .spawn()
            .map_err(Error::file(self.program))?;
        Ok(match wait(child, time) {
            Some(status) if status.success() => End::Done,
            Some(status) if status.code() == Some(OUT_OF_TIME.into()) => {
                End::Short(last_line(log).replace("gpu-kit: ", ""))
            }
            Some(status) => End::Died(format!("{status}: {}", last_line(log))),
            None => End::Killed,
        })
    }
}

/// Waits for a process until its deadline. Then kills it.
fn wait(mut child: Child, time: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + time;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                // A process may hang in its driver. The next part does not wait for it.
                let gone = Instant::now() + Duration::from_secs(2);
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < gone {
                    thread::sleep(Duration::from_millis(20));
                }
                return None;
            }
        }
    }
}

/// Complete rows only. A crash can leave an incomplete last row.
fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let rows = text.lines().map(serde_json::from_str);
    rows.filter_map(Result::ok).collect()
}

fn last_line(log: &Path) -> String {
    let mut bytes = Vec::new();
    let _ = File::open(log).and_then(|mut file| file.read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    last.unwrap_or_default().trim().to_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    use serde_json::json;
    use std::os::unix::fs::PermissionsExt;

    /// A program that writes a row and then runs a shell command.
    fn program(folder: &Path, then: &str) -> PathBuf {
        let path = folder.join("gpu-kit-shell");
        let rows = "while [ $1 != --rows ]; do shift; done; echo '{\"found\":1}' >>\"$2\"";
        fs::write(&path, format!("#!/bin/sh\n{rows}\n{then}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Only a failure takes this long, even while other builds run.
    const LONG: Duration = Duration::from_secs(60);

    fn run_then(name: &str, then: &str, time: Duration) -> Entry {
        let out = env::temp_dir().join(format!("gpu-kit-{name}-{}", std::process::id()));
        fs::create_dir_all(&out).unwrap();
        let program = program(&out, then);
        let job = Job {
            program: &program,
            part: "device",
            resumes: name == "resumes",
            time,
            out: &out,
            more: Vec::new(),
        };
        let entry = job.run_in(if name == "shared" { 3 } else { 1 }).unwrap();
        fs::remove_dir_all(&out).unwrap();
        entry
    }

    #[test]
    fn a_new_process_goes_on_after_a_lost_device() {
        let entry = run_then("resumes", "[ $(wc -l <\"$2\") = 3 ] || exit 7", LONG);
        assert!(matches!(entry.end, End::Died(_)), "{:?}", entry.end);
        assert_eq!(entry.rows.len(), 3);
        // Not without a new row.
        let then = "[ $(wc -l <\"$2\") = 2 ] && : >\"$2\"; exit 7";
        assert_eq!(run_then("resumes", then, LONG).rows.len(), 0);
    }

    #[test]
    fn processes_share_a_part() {
        let entry = run_then("shared", "[ $3 = 1 ] && exit 7; [ $4 = 3 ]", LONG);
        assert!(matches!(entry.end, End::Died(_)), "{:?}", entry.end);
        assert_eq!(entry.rows.len(), 3);
    }

    #[test]
    fn wrong_rows_and_early_ends_are_failures() {
        let entry = |end: End, row: Value| Entry {
            part: "kernels".to_owned(),
            program: "shell".to_owned(),
            seconds: 1.0,
            end,
            rows: vec![json!({"end": "right"}), row],
        };
        let short = || End::Short("after 2 of 3 problems".to_owned());
        let rejected = json!({"end": "rejected: too large"});
        for row in [rejected, json!({"failed": 0}), json!({"what": "device"})] {
            assert!(!failed(&entry(End::Done, row.clone())), "{row}");
            assert!(!failed(&entry(short(), row.clone())), "{row}");
            assert!(failed(&entry(End::Killed, row.clone())), "{row}");
            assert!(failed(&entry(End::Died("7".to_owned()), row)));
        }
        for row in [json!({"end": "panicked: x"}), json!({"failed": 1})] {
            assert!(failed(&entry(short(), row.clone())), "{row}");
        }
        assert!(End::Killed > short() && End::Killed < End::Died(String::new()));
    }

    #[test]
    fn rows_survive_every_end() {
        type Expected = fn(&End) -> bool;
        let cases: [(&str, &str, Expected); 5] = [
            ("done", "true", |end| *end == End::Done),
            ("short", "echo gpu-kit: none left >&2; exit 3", |end| {
                *end == End::Short("none left".to_owned())
            }),
            (
                "fails",
                "echo the reason >&2; exit 7",
                |end| matches!(end, End::Died(reason) if reason.ends_with("the reason")),
            ),
            ("crashes", "kill -SEGV $$", |end| {
                matches!(end, End::Died(_))
            }),
            ("half", "printf '{\"fou' >>\"$2\"; kill -KILL $$", |end| {
                matches!(end, End::Died(_))
            }),
        ];
        for (name, then, expected) in cases {
            let entry = run_then(name, then, LONG);
            assert!(expected(&entry.end), "{name}: {:?}", entry.end);
            assert_eq!(entry.rows.len(), 1, "{name}: {:?}", entry.rows);
            assert_eq!(entry.program, "shell");
        }
        // Each attempt doubles the deadline, until the program has enough time to write its row.
        let mut time = Duration::from_millis(200);
        let entry = loop {
            let entry = run_then("hangs", "exec sleep 600", time);
            assert_eq!(entry.end, End::Killed, "after {time:?}");
            if !entry.rows.is_empty() || time > LONG {
                break entry;
            }
            time *= 2;
        };
        assert_eq!(entry.rows.len(), 1, "after {time:?}");
    }
}
