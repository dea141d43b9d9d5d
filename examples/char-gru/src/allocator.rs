//! How the programs ask for memory.

/// Starts the program again with an allocator that keeps large buffers.
///
/// glibc hands them back to the system whenever one is freed, and every step of training then waits
/// for the same pages to be given and cleared again: a sixth of its time. The settings are read
/// from the environment before `main`, and only from there. Where that fails, all is as it was.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn keep_buffers() {
    use std::os::unix::process::CommandExt;

    const SETTINGS: [(&str, &str); 3] = [
        ("MALLOC_MMAP_THRESHOLD_", "1073741824"),
        ("MALLOC_TRIM_THRESHOLD_", "4294967296"),
        ("MALLOC_TOP_PAD_", "67108864"),
    ];
    if SETTINGS
        .iter()
        .any(|(name, _)| std::env::var_os(name).is_some())
    {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let again = std::process::Command::new(program)
            .args(std::env::args_os().skip(1))
            .envs(SETTINGS)
            .exec();
        eprintln!("note: {again}; training will be slower");
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_buffers() {}
