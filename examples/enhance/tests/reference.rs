//! A whole sound compared with the model in ONNX Runtime and the same frames in numpy (`tests/onnx/record.py`).
//! Reports *ignored* without the model; `GRU_REQUIRE_MODELS=1` makes that a failure.

use libtest_mimic::{Arguments, Trial};
use std::{env, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let required = env::var_os("GRU_REQUIRE_MODELS").is_some_and(|value| value == "1");
    let trial = if cfg!(gtcrn) {
        Trial::test("whole file", || Ok(whole_file()?))
    } else {
        Trial::test("whole file", || Err("build.rs found no model".into()))
            .with_ignored_flag(!required)
    };
    let empty = Trial::test("empty file", || Ok(empty_file()?));
    libtest_mimic::run(&Arguments::from_args(), vec![trial, empty]).exit_code()
}

fn empty_file() -> Result<(), String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty.wav");
    let _ = std::fs::remove_file(&path);
    let write = || enhance::wav::write(&path, &[vec![]]);
    write().map_err(|e| e.to_string())?;
    if write().is_ok() {
        return Err("expected an error, because the file exists".into());
    }
    match enhance::wav::read(&path) {
        Err(enhance::Error::Empty { .. }) => Ok(()),
        other => Err(format!("expected an error, got {other:?}")),
    }
}

#[cfg(not(gtcrn))]
fn whole_file() -> Result<(), String> {
    unreachable!("the trial is ignored")
}

#[cfg(gtcrn)]
fn whole_file() -> Result<(), String> {
    /// Two float32 transforms of nine stages, each with a rounding error of 2⁻²⁴: 1.1e-6 of full scale. ONNX
    /// Runtime differs from itself by 6e-8 (`record.py --noise`).
    const TOLERANCE: f32 = 1.1e-6;

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/enhance.safetensors");
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    let file = safetensors::SafeTensors::deserialize(&bytes).map_err(|e| e.to_string())?;
    let tensor = |name: &str| -> Result<Vec<f32>, String> {
        let view = file.tensor(name).map_err(|e| e.to_string())?;
        let values = view.data().as_chunks().0.iter();
        Ok(values.map(|&bytes| f32::from_le_bytes(bytes)).collect())
    };
    let (samples, expected) = (tensor("in.samples")?, tensor("out.samples")?);
    let (got, seconds) = enhance::enhance(&samples);
    if got.len() != expected.len() || seconds.len() != samples.len().div_ceil(enhance::HOP) + 1 {
        return Err(format!(
            "{} samples, expected {}",
            got.len(),
            expected.len()
        ));
    }
    let distances = got.iter().zip(&expected).map(|(a, b)| (a - b).abs());
    // `f32::max` would lose NaN.
    let largest = distances.fold(
        0.0,
        |most: f32, d| {
            if d <= most || most.is_nan() { most } else { d }
        },
    );
    if largest <= TOLERANCE {
        Ok(())
    } else {
        Err(format!("difference {largest:e}, allowed {TOLERANCE:e}"))
    }
}
