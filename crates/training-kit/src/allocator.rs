//! Settings of the memory allocator.

/// Restarts the program with an allocator that keeps large buffers.
///
/// glibc returns large buffers to the system when they are freed. Then every training step waits until
/// the system has mapped and cleared these pages again, a sixth of its time. glibc reads the settings
/// only from the environment before `main`. If the restart fails, the program continues without the
/// settings.
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
