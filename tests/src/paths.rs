//! Paths: what is no file, and files that another program uses.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use burn::tensor::Device;
use gru_convert::{ConvertError, StateDict};
use gru_op::{GruBlock, GruBlockConfig};

use super::{
    conformance::{text, values_by_key},
    files::{Check, READERS, seeds},
    runs::expect,
};

type ReadArrays = fn(&Path) -> Result<StateDict, ConvertError>;

pub const CHECKS: [(&str, Check); 2] = [("no-files", no_files), ("in-use", in_use)];

/// A pipe or a device may never end. It is not opened.
fn no_files() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder.bpk")).map_err(text)?;
    fs::create_dir(path("export.bpk")).map_err(text)?;
    fs::write(path("export.bpk/saved_model.pb"), b"\x08\x01").map_err(text)?;
    fs::write(path("checkpoint.bpk.index"), b"\0").map_err(text)?;
    // The numbers of a checkpoint may look like anything.
    let numbers = path("a.data-00000-of-00001");
    fs::write(&numbers, b"\x08\x08\x12\x07").map_err(text)?;
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut paths = vec![
        (
            path("export.bpk"),
            "expected a file, got a TensorFlow SavedModel: ",
        ),
        (
            path("checkpoint.bpk"),
            "expected a file, got a part of a TensorFlow checkpoint: ",
        ),
        (
            numbers,
            ", got a part of a TensorFlow checkpoint: save its variables with numpy.savez",
        ),
        (path("folder.bpk"), "expected a file, got a folder"),
        (path("none.bpk"), "none.bpk: "),
    ];
    #[cfg(unix)]
    {
        let says = "expected a file, got a pipe, a socket or a device";
        std::os::unix::fs::symlink("/dev/zero", path("device.bpk")).map_err(text)?;
        paths.push((path("device.bpk"), says));
        let pipe = path("pipe.bpk");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if made.is_ok_and(|status| status.success()) {
            paths.push((pipe, says));
        }
    }
    for (path, says) in paths {
        for (_, read) in READERS {
            let got = read(&path).unwrap_or_default();
            if !got.contains(says) {
                return Err(format!("{}: expected {says}, got {got}", path.display()));
            }
        }
    }
    Ok(())
}

/// A file may be replaced while another program reads it, and changed while its arrays are in use. Windows has its own
/// rules.
fn in_use() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let path = folder.path().join("Größe 1.bpk");
    let block = GruBlockConfig::new(2, 1).init(&Device::flex());
    block.save_with_config(&path).map_err(text)?;
    let models = crate::data().join("models");
    let readers: [(PathBuf, ReadArrays); 5] = [
        (path.clone(), |path| StateDict::from_burnpack(path)),
        (seeds("pytorch/zip"), |path| StateDict::from_pytorch(path)),
        (seeds("npz/stored"), |path| StateDict::from_npz(path)),
        (models.join("tagger/tagger.safetensors"), |path| {
            StateDict::from_safetensors(path)
        }),
        (models.join("keras/gru.keras"), |path| {
            StateDict::from_keras(path)
        }),
    ];
    for (content, read) in readers {
        let content = fs::read(content).map_err(text)?;
        fs::write(&path, &content).map_err(text)?;
        let other = File::open(&path).map_err(text)?;
        let dict = read(&path).map_err(text)?;
        let before = values_by_key(&dict);
        match dict.to_safetensors(&path) {
            // Windows 10 replaces an open file. Older systems and Wine 8 leave it as it was.
            Err(_) if cfg!(windows) => {
                expect("file", fs::read(&path).map_err(text)?, content)?;
                drop(other);
                dict.to_safetensors(&path).map_err(text)?;
            }
            replaced => replaced.map_err(text)?,
        }
        let saved = StateDict::from_safetensors(&path).map_err(text)?;
        expect("saved arrays", values_by_key(&saved), before.clone())?;
        block.save_with_config(&path).map_err(text)?;
        GruBlock::from_file(&path, &Device::flex()).map_err(text)?;
        fs::write(&path, "").map_err(text)?;
        expect("arrays in use", values_by_key(&dict), before)?;
        block.save_with_config(&path).map_err(text)?;
    }
    Ok(())
}
