//! A model that Keras saved: GRUs with both reset forms, without biases, and bidirectional.
//! `tests/data/models/keras/make.py` made the files and recorded Keras' results.

use std::{fs, path::PathBuf};

use burn::tensor::{Device, Tensor};
use gru_convert::{StateDict, keras};
use gru_testkit::close::{Tolerance, close};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    conformance::{text, values_by_key},
    runs::{expect, fails, values},
};

/// The layers in order: the name of each output, and the place of the layer's arrays.
const LAYERS: [(&str, &str); 4] = [
    ("after", "layers/gru/"),
    ("before", "layers/gru_1/"),
    ("plain", "layers/gru_2/cell/vars/"),
    ("both", "layers/bidirectional/"),
];

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &backend in backends {
        for file in ["gru.keras", "gru.weights.h5"] {
            let id = format!("keras_model/{file}/{}", backend.name);
            let tolerance = backend.tolerance(Tolerance::F32);
            trials.push(backend.trial(id, move |device| as_keras(file, device, tolerance)));
        }
    }
    for file in ["half", "bfloat16"] {
        let id = format!("keras_model/{file}");
        trials.push(Trial::test(id, move || Ok(half(file)?)));
    }
    trials.push(Trial::test("keras_model/broken", || Ok(broken()?)));
    trials.push(Trial::test("keras_model/no-model", || Ok(no_model()?)));
    trials.push(Trial::test("keras_model/shared", || {
        Ok(hostile("shared", "groups contain each other")?)
    }));
    trials.push(Trial::test("keras_model/deep", || Ok(hostile("deep", "")?)));
    trials
}

fn path(file: &str) -> PathBuf {
    crate::data().join("models/keras").join(file)
}

/// Each layer gets the output of Keras' previous layer.
fn as_keras(file: &str, device: &Device, tolerance: Tolerance) -> Result<(), String> {
    let dict = StateDict::from_keras(path(file)).map_err(text)?;
    let recorded = StateDict::from_npz(path("gru.npz")).map_err(text)?;
    let expected = values_by_key(&recorded);
    let mut input = "x";
    for (name, prefix) in LAYERS {
        let data = recorded.get(input).ok_or(input)?.clone();
        let x = Tensor::<3>::from_data(data, device);
        let config = keras::config(&dict, prefix).map_err(text)?;
        let gru = keras::import(&dict, prefix, &config, device).map_err(text)?;
        let (y, _) = gru.forward(x, None);
        close(name, &values(y), &expected[name], tolerance.forward)?;
        input = name;
    }
    Ok(())
}

/// Keras writes 16-bit floats with the policies of these names.
fn half(name: &str) -> Result<(), String> {
    let dict = StateDict::from_keras(path(&format!("{name}.weights.h5"))).map_err(text)?;
    let recorded = StateDict::from_npz(path(&format!("{name}.npz"))).map_err(text)?;
    expect(name, values_by_key(&dict), values_by_key(&recorded))
}

/// A truncated file, or a file with one changed byte, is read or gives an error. It never panics.
fn broken() -> Result<(), String> {
    for file in ["gru.keras", "gru.weights.h5"] {
        let whole = fs::read(path(file)).map_err(text)?;
        for length in (0..whole.len()).step_by(499) {
            let part = whole[..length].to_vec();
            if StateDict::from_keras_bytes("part", part).is_ok() {
                return Err(format!(
                    "{file}: {length} of {} bytes: expected an error",
                    whole.len()
                ));
            }
        }
        for at in (0..whole.len()).step_by(97) {
            for value in [0x00, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at..(at + 4).min(whole.len())].fill(value);
                let _ = StateDict::from_keras_bytes("changed", changed);
            }
        }
    }
    Ok(())
}

fn no_model() -> Result<(), String> {
    for (file, says) in [
        ("no-such.keras", "no-such.keras: "),
        ("make.py", "make.py: "),
        ("gru.npz", "gru.npz: expected a Keras file "),
    ] {
        fails(StateDict::from_keras(path(file)), says)?;
    }
    let dict = StateDict::from_keras(path("gru.keras")).map_err(text)?;
    let names = "a GRU has kernel, recurrent_kernel and bias, or 0, 1 and 2";
    fails(keras::config(&dict, "layers/gru_9/"), "layers/gru_9/")?;
    fails(keras::config(&dict, "layers/"), names)
}

/// Groups with more paths than anyone can read, or a tree that is deeper than a stack.
fn hostile(name: &str, expected: &str) -> Result<(), String> {
    let file = path(&format!("{name}.weights.h5"));
    fails(StateDict::from_keras(file), expected)
}
