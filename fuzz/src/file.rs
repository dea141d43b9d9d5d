//! For readers that only read files: writes bytes from memory to a file.

use std::{env, fs, path::Path, process};

/// Writes these bytes to a file and runs `f` on its path, which has an extension, because readers may add one.
pub fn with_file<R>(bytes: &[u8], f: impl FnOnce(&Path) -> R) -> R {
    let path = env::temp_dir().join(format!("gru-fuzz-{}.bpk", process::id()));
    fs::write(&path, bytes).expect("the temporary folder is writable");
    let result = f(&path);
    fs::remove_file(&path).expect("the file still exists");
    result
}
