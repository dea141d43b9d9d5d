//! Weights in files of their own.

use super::{
    import,
    nodes::{file, gru, r, w},
};
use crate::{
    error::ConvertError,
    onnx::{Model, proto},
};
use burn::tensor::Device;
use std::{fs, path::Path};

/// A model whose weights are in `location`, as described by `entries`.
fn outside(dir: &Path, entries: &[(&str, &str)]) -> Result<(), ConvertError> {
    let entry = |&(key, value): &(&str, &str)| proto::Entry {
        key: Some(key.into()),
        value: Some(value.into()),
    };
    let tensor = proto::Tensor {
        float_data: vec![],
        external_data: entries.iter().map(entry).collect(),
        data_location: Some(1),
        ..w()
    };
    let bytes = file(vec![gru("gru", &["x", "w", "r"])], vec![tensor, r()]);
    let path = dir.join("model.onnx");
    fs::write(&path, bytes).expect("a file");
    Model::open(&path)?
        .import("gru", &Device::flex())
        .map(|_| ())
}

#[test]
fn external_files_must_be_below_the_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let inner = dir.join("model");
    fs::create_dir_all(inner.join("weights")).expect("a folder");
    fs::write(inner.join("weights/w"), [0; 40]).expect("a file");
    fs::write(dir.join("secret"), [0; 40]).expect("a file");
    let says = |entries: &[(&str, &str)]| match outside(&inner, entries) {
        Ok(()) => "nothing".into(),
        Err(error) => error.to_string(),
    };
    let at = ("location", "weights/w");
    assert_eq!(says(&[at]), "nothing");
    assert_eq!(says(&[at, ("offset", "16"), ("length", "24")]), "nothing");
    assert_eq!(
        says(&[at, ("offset", "17")]),
        "w: expected 24 bytes from byte 17 of \"weights/w\", which holds 40"
    );
    assert_eq!(
        says(&[at, ("offset", &u64::MAX.to_string())]),
        "w: expected 24 bytes from byte 18446744073709551615 of \"weights/w\", which holds 40"
    );
    assert_eq!(
        says(&[at, ("length", "25")]),
        "w: expected 24 bytes in \"weights/w\", got 25"
    );
    assert_eq!(
        says(&[at, ("offset", "-1")]),
        "w: offset of its file: expected a number, got \"-1\""
    );
    let mut places = vec!["../secret".to_owned(), "weights/../../secret".into()];
    places.push(dir.join("secret").display().to_string());
    places.push(String::new());
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(dir.join("secret"), inner.join("link")).expect("a link");
        places.push("link".into());
    }
    for place in &places {
        assert_eq!(
            says(&[("location", place)]),
            format!("w: expected a file in the model's folder, got {place:?}")
        );
    }
    assert!(says(&[("location", "absent")]).contains("absent: "));
    let bytes = fs::read(inner.join("model.onnx")).expect("the last model");
    let error = import(bytes, "gru").expect_err("no folder");
    assert!(error.to_string().contains("which is no file"), "{error}");
}

/// In the cache of Hugging Face, the model and its files are links to files in another folder.
#[cfg(unix)]
#[test]
fn external_files_may_be_next_to_the_target_of_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dir, snapshot) = (folder.path(), folder.path().join("snapshot"));
    for folder in [&snapshot, &dir.join("blobs")] {
        fs::create_dir(folder).expect("a folder");
    }
    for (link, target) in [
        ("model.onnx", "blobs/1"),
        ("w", "blobs/2"),
        ("link", "secret"),
    ] {
        fs::write(dir.join(target), [0; 40]).expect("a file");
        std::os::unix::fs::symlink(dir.join(target), snapshot.join(link)).expect("a link");
    }
    outside(&snapshot, &[("location", "w")]).expect("it is next to the model");
    let error = outside(&snapshot, &[("location", "link")]).expect_err("a secret");
    let expected = "w: expected a file in the model's folder, got \"link\"";
    assert_eq!(error.to_string(), expected);
}
