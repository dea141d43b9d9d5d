//! Array files. The fuzzer's seeds are read with the names in them. Files that claim more than they
//! contain are errors.

use std::{
    fs,
    path::{Path, PathBuf},
};

use burn::tensor::{DType, Device, TensorData};
use gru_convert::{ConvertError, StateDict, onnx, pytorch};
use gru_op::{GruBlock, GruBlockConfig};
use libtest_mimic::Trial;

use super::{
    conformance::{text, values_by_key},
    runs::{expect, fails},
};

pub type Check = fn() -> Result<(), String>;

pub fn trials() -> Vec<Trial> {
    let checks: [(&str, Check); 6] = [
        ("every-format", every_format),
        ("claims", claims),
        ("every-system", every_system),
        ("arrays-of-numpy", arrays_of_numpy),
        ("broken-npz", broken_npz),
        ("wrong-files", wrong_files),
    ];
    let trials = checks.into_iter();
    trials
        .chain(super::paths::CHECKS)
        .map(|(name, check)| Trial::test(format!("files/{name}"), move || Ok(check()?)))
        .collect()
}

pub fn seeds(folder: &str) -> PathBuf {
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
    expect("arrays", keys.len(), 4)?;
    contains_the_written_values(&dict)?;
    let config = pytorch::config(&dict, prefix).map_err(text)?;
    expect("sizes", [config.d_input, config.d_hidden], [2, 1])?;
    let gru = pytorch::import(&dict, prefix, &config, &Device::flex());
    gru.map(|_| ()).map_err(text)
}

/// The names in a file are unchanged: Burn's own reader of PyTorch's files requires layer numbers without gaps.
fn every_format() -> Result<(), String> {
    pub type Read = fn(PathBuf) -> Result<StateDict, ConvertError>;
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
        ("npz/version-3", npz, "a", &[2, 3][..]),
        ("npz/big-endian", npz, "a", &[3]),
    ] {
        let dict = read(seeds(file)).map_err(text)?;
        match dict.get(key).map(|data| data.shape().to_vec()) {
            Some(found) if found == shape => {}
            found => return Err(format!("{file}: expected {shape:?}, got {found:?}")),
        }
    }
    Ok(())
}

/// Arrays that claim more than a file can contain are left out.
fn claims() -> Result<(), String> {
    let dict = StateDict::from_pytorch(seeds("pytorch/zip-expanded")).map_err(text)?;
    fails(dict.shape::<2>("weight_ih_l0"), "its arrays claim 42949")?;
    let dict = StateDict::from_npz(seeds("npz/bomb")).map_err(text)?;
    dict.shape::<1>("a").map_err(text)?;
    fails(dict.shape::<1>("99"), "its arrays claim 68")
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
        let in_memory = values_by_key(&in_memory.map_err(text)?);
        let name = path.display().to_string();
        expect(&name, in_memory, values_by_key(&dict))?;
        let cut = bytes[..bytes.len() / 2].to_vec();
        match StateDict::from_safetensors_bytes("half", cut) {
            Err(ConvertError::File { path, .. }) if path.as_os_str() == "half" => {}
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
            let name = format!("{file}, {key}");
            expect(&name, got.shape(), expected_values.shape())?;
            expect(&name, got.dtype(), dtype_of(key))?;
        }
        let (got, expected_values) = (values_by_key(&dict), values_by_key(&expected));
        for (key, expected_values) in &expected_values {
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let name = format!("{file}, {key}");
            expect(&name, bits(&got[key]), bits(expected_values))?;
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
        ("truth", "a: expected booleans, bytes 0 and 1, got 2"),
        (
            "text",
            "expected an .npz file of NumPy, got a zip archive with \"README.txt\"",
        ),
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

/// The error of a reader.
pub type Read = fn(&Path) -> Option<String>;

/// Each reader of a whole file, and what it expects.
pub const READERS: [(&str, Read); 6] = [
    ("a PyTorch file (torch.save)", |path| {
        error(StateDict::from_pytorch(path))
    }),
    ("a safetensors file", |path| {
        error(StateDict::from_safetensors(path))
    }),
    ("an .npz file of NumPy", |path| {
        error(StateDict::from_npz(path))
    }),
    (KERAS, |path| error(StateDict::from_keras(path))),
    ("an ONNX model", |path| error(onnx::Model::open(path))),
    ("a burnpack file (.bpk)", |path| {
        error(GruBlock::from_file(path, &Device::flex()))
    }),
];
const KERAS: &str = "a Keras file (.h5, .weights.h5 or .keras)";

fn error<T, E: std::fmt::Display>(read: Result<T, E>) -> Option<String> {
    read.err().map(|error| error.to_string())
}

/// Every reader says what it expected, and what the file is.
fn wrong_files() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let path = folder.path().join("file.bpk");
    let block = GruBlockConfig::new(2, 1).init(&Device::flex());
    block.save_with_config(&path).map_err(text)?;
    let models = crate::data().join("models");
    let file = |name: &str| fs::read(models.join(name)).map_err(text);
    let pytorch = file("tagger/tagger.pt")?;
    let index = "{\"metadata\": {\"total_size\": 8}, \"weight_map\": {\"a\": \"1.h5\"}}";
    const SAVED_MODEL: &str =
        "a TensorFlow SavedModel: save the model as .keras, or its variables with numpy.savez";
    const CHECKPOINT: &str =
        "a part of a TensorFlow checkpoint: save its variables with numpy.savez";
    let contents: [(&str, Vec<u8>); 21] = [
        (READERS[0].0, pytorch.clone()),
        (
            READERS[0].0,
            fs::read(seeds("pytorch/legacy")).map_err(text)?,
        ),
        (READERS[1].0, file("tagger/tagger.safetensors")?),
        (READERS[2].0, file("numpy/arrays.npz")?),
        (READERS[3].0, file("keras/gru.keras")?),
        (READERS[3].0, file("keras/gru.weights.h5")?),
        (READERS[4].0, file("onnx/torch_layers_script.onnx")?),
        (READERS[5].0, fs::read(&path).map_err(text)?),
        (
            "a truncated zip archive: download or copy it again",
            pytorch[..pytorch.len() - 100].to_vec(),
        ),
        (
            "a Git LFS pointer: `git lfs pull` downloads the file",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n".to_vec(),
        ),
        (
            "a web page (HTML or XML): download the file itself",
            b"\n<!DOCTYPE html>\n<html><head>".to_vec(),
        ),
        (
            "the index of sharded weights: read each file that it names",
            index.into(),
        ),
        // The first bytes of saved_model.pb, .meta, .index, a frozen graph and `checkpoint`, of TensorFlow 2.21.
        (
            SAVED_MODEL,
            b"\x08\x01\x12\xf8\xf8\x03\x0a\xb2\x1b\x12\x82\x1b\x0a\x44\x0a\x05AddV2".to_vec(),
        ),
        (
            CHECKPOINT,
            b"\x0a\xb2\x1b\x12\x82\x1b\x0a\x44\x0a\x05AddV2\x12\x06".to_vec(),
        ),
        (
            CHECKPOINT,
            b"\0\0\x06\x08\x01\x1a\x02\x08\x01\0\x1a\x11".to_vec(),
        ),
        (
            "a frozen TensorFlow graph: convert it to ONNX with tf2onnx",
            b"\x0a\x0d\x0a\x01x\x12\x05Const".to_vec(),
        ),
        (CHECKPOINT, b"model_checkpoint_path: \"model\"".to_vec()),
        ("a text, \"Entry not found\"", b"Entry not found".to_vec()),
        ("an empty file", vec![]),
        (
            "gzip data: decompress it",
            b"\x1f\x8b\x08\0\0\0\0\0".to_vec(),
        ),
        (
            "one array (.npy): write it with numpy.savez",
            b"\x93NUMPY\x01\0v\0{'descr'".to_vec(),
        ),
    ];
    for (kind, content) in contents {
        fs::write(&path, content).map_err(text)?;
        for (expected, read) in READERS {
            let got = read(&path).unwrap_or_default();
            let says = format!("file.bpk: expected {expected}, got {kind}");
            if kind != expected && !got.ends_with(&says) {
                return Err(format!("expected {says}, got {got:?}"));
            }
        }
    }
    Ok(())
}
