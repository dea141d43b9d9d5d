//! The peak memory of a call: inputs, weights and everything that the program allocates.

use bench_support::{Mode, NoAnswer, Peer, Problem, Shape};

use crate::{Options, facts, install, record::Record};

/// Measures all peers, each row in a process of its own, and adds the memory to the rows of the record.
///
/// # Errors
/// If the record lacks a row of this commit, a peer fails, or the system is not Linux.
pub fn measure(options: &Options) -> Result<(), String> {
    let path = options.csv.as_ref().ok_or("memory: expected --csv FILE")?;
    let mut record = Record::open(path)?;
    for &threads in &options.threads {
        for shape in &options.shapes {
            for &mode in &options.modes {
                for name in &options.peers {
                    match peak(options, name, shape, mode, threads)? {
                        Ok(mib) => {
                            let key = (name.as_str(), shape.name, mode.name(), threads);
                            record.set_peak(key, mib)?;
                            println!(
                                "{:16} {:8} {name:16} {mib:8.1} MiB",
                                shape.name,
                                mode.name()
                            );
                        }
                        Err(reason) => {
                            println!("{:16} {:8} {name:16} {reason}", shape.name, mode.name())
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// MiB of three calls above the process without a problem, or the reason why the peer does not compute the row.
fn peak(
    options: &Options,
    name: &str,
    shape: &'static Shape,
    mode: Mode,
    threads: usize,
) -> Result<Result<f64, String>, String> {
    let scratch = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = scratch.path().join(shape.name).with_extension("bin");
    let written = Problem::new(shape).write(&file);
    written.map_err(|e| format!("{}: {e}", file.display()))?;
    let mut command = install::command(name, &options.folder, threads)?;
    // Freed buffers return to the system at once, so the peak contains no freed memory.
    command.env("MALLOC_MMAP_THRESHOLD_", "65536");
    let mut peer = Peer::start(name, &mut command)?;
    let without = facts::mib(peer.id(), "VmRSS")?;
    let prepared = peer.prepare(&file, mode, &scratch.path().join("out"));
    match prepared {
        Ok(_) => {
            facts::reset_peak(peer.id())?;
            peer.sample(0, 3)?;
            Ok(Ok(facts::mib(peer.id(), "VmHWM")? - without))
        }
        Err(NoAnswer::Declined(reason)) => Ok(Err(reason)),
        Err(NoAnswer::Failed(reason)) => Err(reason),
    }
}
