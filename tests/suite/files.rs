//! Files of arrays: those that the fuzzer starts from are read under the names that are in them,
//! and those that claim what they do not hold are refused.

use std::{fs, path::PathBuf};

use burn::tensor::Device;
use gru_op::convert::{StateDict, pytorch};
use libtest_mimic::Trial;

type Check = fn() -> Result<(), String>;

pub fn trials() -> Vec<Trial> {
    let checks: [(&str, Check); 4] = [
        ("every-format-of-pytorch", every_format_of_pytorch),
        ("names-as-they-are", names_as_they_are),
        ("claims", claims),
        ("every-system", every_system),
    ];
    let trials = checks.into_iter();
    trials
        .map(|(name, check)| Trial::test(format!("files/{name}"), move || Ok(check()?)))
        .collect()
}

fn seeds(folder: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds")).join(folder)
}

/// The GRU under a prefix of a file of torch.save has two inputs and one unit.
fn is_read(dict: StateDict, prefix: &str) -> Result<(), String> {
    let config = pytorch::config(&dict, prefix).map_err(|e| e.to_string())?;
    let sizes = [config.d_input, config.d_hidden];
    if sizes != [2, 1] {
        return Err(format!("sizes {sizes:?}"));
    }
    let gru = pytorch::import(&dict, prefix, &config, &Device::flex());
    gru.map(|_| ()).map_err(|e| e.to_string())
}

fn every_format_of_pytorch() -> Result<(), String> {
    for format in ["zip", "legacy"] {
        let path = seeds("pytorch").join(format);
        let dict = StateDict::from_pytorch(path).map_err(|e| e.to_string())?;
        is_read(dict, "").map_err(|e| format!("{format}: {e}"))?;
    }
    let nested = StateDict::from_pytorch_at(seeds("pytorch/zip-nested"), "model");
    is_read(nested.map_err(|e| e.to_string())?, "")?;
    let tar = StateDict::from_pytorch(seeds("pytorch/tar")).map_err(|e| e.to_string())?;
    match tar.get("weight_ih_l0").map(|data| data.shape().to_vec()) {
        Some(shape) if shape == [3, 2] => Ok(()),
        shape => Err(format!("tar: {shape:?}")),
    }
}

/// Burn's own reader counts layers without a gap.
fn names_as_they_are() -> Result<(), String> {
    let dict = StateDict::from_pytorch(seeds("pytorch/zip-sequential"));
    is_read(dict.map_err(|e| e.to_string())?, "2.")
}

fn claims() -> Result<(), String> {
    let claims = "its arrays claim 4294967296";
    match StateDict::from_pytorch(seeds("pytorch/zip-expanded")) {
        Err(error) if error.to_string().contains(claims) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn every_system() -> Result<(), String> {
    let files = fs::read_dir(seeds("safetensors")).map_err(|e| e.to_string())?;
    for file in files {
        let path = file.map_err(|e| e.to_string())?.path();
        let dict = StateDict::from_safetensors(&path).map_err(|e| e.to_string())?;
        if dict.keys().count() < 3 {
            return Err(format!("{}: {:?}", path.display(), dict));
        }
    }
    Ok(())
}
