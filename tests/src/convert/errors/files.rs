//! Files and the names in them.

use super::{super::*, ErrorCase};

pub const CASES: &[ErrorCase] = &[
    (
        "same-name",
        || {
            let dict = pytorch::export(&block(config()), "")?;
            dict.renamed(|_| "weight".into()).map(|_| ())
        },
        "weight: expected one tensor of this name, got two",
    ),
    (
        "integers-out",
        || {
            let mut dict = StateDict::new();
            dict.insert("steps", TensorData::zeros::<i32, _>([1]));
            dict.to_safetensors("/no/such/file.safetensors")
        },
        "steps: expected floating-point numbers, got I32",
    ),
    (
        "no-file",
        || match StateDict::from_safetensors("/no/such/file.safetensors") {
            // The operating system writes the reason.
            Err(ConvertError::File { path, .. }) => Err(GruError::MissingKey { key: path }.into()),
            other => other.map(|_| ()),
        },
        "/no/such/file.safetensors: expected a tensor of this name, got none",
    ),
    (
        "no-pytorch-file",
        || {
            let file = tempfile::NamedTempFile::new().expect("the file can be made");
            std::fs::write(&file, b"not a zip, not a pickle").expect("the file can be written");
            match StateDict::from_pytorch(&file) {
                Err(ConvertError::File { .. }) => {
                    let key = "not-a.pt".into();
                    Err(GruError::MissingKey { key }.into())
                }
                other => other.map(|_| ()),
            }
        },
        "not-a.pt: expected a tensor of this name, got none",
    ),
];
