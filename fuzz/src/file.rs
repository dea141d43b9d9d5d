//! What only reads files, fed from memory.

use std::{env, fs, path::Path, process};

/// Writes a file of these bytes, and lets `f` read it.
pub fn with_file<R>(bytes: &[u8], f: impl FnOnce(&Path) -> R) -> R {
    let path = env::temp_dir().join(format!("gru-fuzz-{}", process::id()));
    fs::write(&path, bytes).expect("the folder for temporary files takes a file");
    let result = f(&path);
    fs::remove_file(&path).expect("nobody else removes it");
    result
}
