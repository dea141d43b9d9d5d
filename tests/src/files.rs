//! Array files. The fuzzer's seeds are read with the names in them. Files that claim more than they
//! contain are errors.

use std::{
    fs,
    path::{Path, PathBuf},
};

use burn::tensor::{DType, Device, TensorData};
use gru_convert::{ConvertError, StateDict, pytorch};
use libtest_mimic::Trial;

use super::{
    conformance::{text, values_by_key},
    runs::fails,
};

type Check = fn() -> Result<(), String>;

pub fn trials() -> Vec<Trial> {
    let checks: [(&str, Check); 5] = [
        ("every-format", every_format),
        ("claims", claims),
        ("every-system", every_system),
        ("arrays-of-numpy", arrays_of_numpy),
        ("broken-npz", broken_npz),
    ];
    let trials = checks.into_iter();
    trials
        .map(|(name, check)| Trial::test(format!("files/{name}"), move || Ok(check()?)))
        .collect()
}

fn seeds(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/seeds")
        .join(folder)
}

/// Every array contains 0.5, 0.375, 0.25 and so on: `numbers` in `fuzz/seeds/make.py`.
fn contains_the_written_values(dict: &StateDict) -> Result<(), String> {
    for (key, got) in values_by_key(dict) {
        let written = (0..got.len()).map(|k| 0.5 - k as f64 / 8.0);
        if !written.clone().eq(got.iter().copied()) {
            let written: Vec<f64> = written.collect();
            return Err(format!("{key}: expected {written:?}, got {got:?}"));
        }
    }
    Ok(())
}

/// A file of four arrays. The GRU under the prefix has two inputs and one unit.
fn is_read(dict: StateDict, prefix: &str) -> Result<(), String> {
    let keys: Vec<&str> = dict.keys().collect();
    if keys.len() != 4 {
        return Err(format!("expected four arrays, got {keys:?}"));
    }
    contains_the_written_values(&dict)?;
    let config = pytorch::config(&dict, prefix).map_err(text)?;
    let sizes = [config.d_input, config.d_hidden];
    if sizes != [2, 1] {
        return Err(format!("sizes {sizes:?}"));
    }
    let gru = pytorch::import(&dict, prefix, &config, &Device::flex());
    gru.map(|_| ()).map_err(text)
}

/// The names in a file are unchanged: Burn's own reader of PyTorch's files requires layer numbers without gaps.
fn every_format() -> Result<(), String> {
    type Read = fn(PathBuf) -> Result<StateDict, ConvertError>;
    let pytorch: Read = |path| StateDict::from_pytorch(path);
    let npz: Read = |path| StateDict::from_npz(path);
    let nested: Read = |path| StateDict::from_pytorch_at(path, "model");
    for (file, read, prefix) in [
        ("pytorch/zip", pytorch, ""),
        ("pytorch/legacy", pytorch, ""),
        ("pytorch/zip-nested", nested, ""),
        ("pytorch/zip-sequential", pytorch, "2."),
        ("npz/stored", npz, ""),
        ("npz/deflated", npz, ""),
    ] {
        let dict = read(seeds(file)).map_err(text)?;
        is_read(dict, prefix).map_err(|e| format!("{file}: {e}"))?;
    }
    for (file, read, key, shape) in [
        ("pytorch/tar", pytorch, "weight_ih_l0", &[3, 2][..]),
        ("npz/version-3", npz, "a", &[2, 3]),
        ("npz/big-endian", npz, "a", &[3]),
    ] {
        let dict = read(seeds(file)).map_err(text)?;
        match dict.get(key).map(|data| data.shape().to_vec()) {
            Some(found) if found == shape => {}
            found => return Err(format!("{file}: expected {shape:?}, got {found:?}")),
        }
    }
    let tar = pytorch(seeds("pytorch/tar")).map_err(text)?;
    contains_the_written_values(&tar).map_err(|e| format!("tar: {e}"))
}

fn claims() -> Result<(), String> {
    let read = StateDict::from_pytorch(seeds("pytorch/zip-expanded"));
    fails(read, "its arrays claim 4294967296")
}

fn every_system() -> Result<(), String> {
    let files = fs::read_dir(seeds("safetensors")).map_err(text)?;
    for file in files {
        let path = file.map_err(text)?.path();
        let dict = StateDict::from_safetensors(&path).map_err(text)?;
        if dict.keys().count() < 3 {
            return Err(format!("{}: {:?}", path.display(), dict));
        }
        let bytes = fs::read(&path).map_err(text)?;
        let in_memory = StateDict::from_safetensors_bytes(&path, bytes.clone());
        if values_by_key(&in_memory.map_err(text)?) != values_by_key(&dict) {
            return Err(format!(
                "{}: expected the same values from memory",
                path.display()
            ));
        }
        let cut = bytes[..bytes.len() / 2].to_vec();
        match StateDict::from_safetensors_bytes("half", cut) {
            Err(ConvertError::File { path, .. }) if path == "half" => {}
            other => {
                return Err(format!(
                    "{}: half of the file: expected an error, got {other:?}",
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

/// Every type, byte order and element order. The values equal the values from another format.
fn arrays_of_numpy() -> Result<(), String> {
    let models = crate::data().join("models/numpy");
    let expected = StateDict::from_safetensors(models.join("arrays.safetensors"));
    let expected = expected.map_err(text)?;
    for file in ["arrays.npz", "compressed.npz"] {
        let dict = StateDict::from_npz(models.join(file)).map_err(text)?;
        if !dict.keys().eq(expected.keys()) {
            return Err(format!("{file}: {:?}", dict.keys().collect::<Vec<_>>()));
        }
        for key in expected.keys() {
            let (got, expected_values) =
                (&dict.get(key).expect(key), &expected.get(key).expect(key));
            if got.shape() != expected_values.shape() || got.dtype() != dtype_of(key) {
                return Err(format!("{file}, {key}: {:?} {got}", got.dtype()));
            }
        }
        let (got, expected_values) = (values_by_key(&dict), values_by_key(&expected));
        for (key, expected_values) in &expected_values {
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            if bits(&got[key]) != bits(expected_values) {
                return Err(format!(
                    "{file}, {key}: {:?}, expected {expected_values:?}",
                    got[key]
                ));
            }
        }
    }
    Ok(())
}

/// The type that the name of an array in `tests/data/models/numpy/make.py` indicates.
fn dtype_of(key: &str) -> DType {
    match key.trim_start_matches(['<', '>']) {
        "f2" => DType::F16,
        "f8" | "edges" | "fortran big-endian" => DType::F64,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "b1" => TensorData::from([true]).dtype(),
        _ => DType::F32,
    }
}

/// Each error states the expected and the actual value. An array of an unknown type is an error on request. No reader allocates the claimed memory.
fn broken_npz() -> Result<(), String> {
    let broken = [
        (
            "claims",
            "a.npy: shape [1073741824, 1073741824] of 4-byte numbers does not fit the 0 bytes",
        ),
        (
            "overflow",
            "a.npy: shape [1099511627776, 1099511627776] of 4-byte numbers does not fit",
        ),
        (
            "short",
            "a.npy: shape [3] of 4-byte numbers does not fit the 8 bytes that it holds",
        ),
        (
            "long-header",
            "a.npy: expected a header of 10000 bytes at most, got 4294967295",
        ),
        (
            "nested",
            "a.npy: expected plain numbers, got a header with many brackets",
        ),
        (
            "objects",
            "a: expected numbers of type f2, f4, f8, i1 to i8, u1 to u8 or b1, got '|O'",
        ),
        ("record", "got [('x', '<f4'), ('y', '<f4')]"),
        ("truth", "a.npy: expected booleans, bytes 0 and 1, got 2"),
        ("text", "README.txt: expected an array, NAME.npy"),
        ("bomb", "but its arrays claim 105913549, expected"),
        (
            "claimed-by-zip",
            "but its arrays claim 4294967294, expected",
        ),
        ("changed", "a.npy: Invalid checksum"),
    ];
    for (file, expected) in broken {
        let dict = StateDict::from_npz(seeds("npz").join(file));
        let shape = dict.and_then(|dict| dict.shape::<1>("a"));
        fails(shape, expected).map_err(|error| format!("{file}: {error}"))?;
    }
    let whole = fs::read(seeds("npz").join("deflated")).map_err(text)?;
    for length in 0..whole.len() {
        let part = std::io::Cursor::new(&whole[..length]);
        if StateDict::from_npz_reader("part", part).is_ok() {
            return Err(format!(
                "{length} of {} bytes: expected an error",
                whole.len()
            ));
        }
    }
    Ok(())
}
