//! A model that PyTorch saved: two bidirectional layers, packed lengths.
//! `tests/data/models/tagger/make.py` made the files and recorded PyTorch's results.

use std::path::PathBuf;

use burn::tensor::{Device, Int, Tensor, TensorData};
use gru_convert::{ConvertError, StateDict, pytorch};
use gru_op::SequenceOptions;
use gru_testkit::close::{Outcome, Tensors, Tolerance};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    conformance::{gradients_of, text, values_by_key},
    runs::{expect, gradient, loss, values},
};

const PREFIX: &str = "encoder.";
const GRADIENTS: [&str; 3] = ["embedding.weight", "head.weight", "head.bias"];

type Load = fn() -> Result<StateDict, ConvertError>;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let files: [(&str, Load); 3] = [
        ("pt", || StateDict::from_pytorch(path("tagger.pt"))),
        ("checkpoint", || {
            StateDict::from_pytorch_at(path("checkpoint.pt"), "model_state_dict")
        }),
        ("safetensors", || {
            StateDict::from_safetensors(path("tagger.safetensors"))
        }),
    ];
    let mut trials = Vec::new();
    for &backend in backends {
        for (name, load) in files {
            let id = format!("pytorch_model/{name}/{}", backend.name);
            let tolerance = backend.tolerance(Tolerance::F32);
            trials.push(backend.trial(id, move |device| as_pytorch(load, device, tolerance)));
        }
    }
    trials.push(Trial::test("pytorch_model/exports-what-it-read", || {
        Ok(exports_what_it_read()?)
    }));
    trials
}

fn path(file: &str) -> PathBuf {
    crate::data().join("models/tagger").join(file)
}

/// Same outputs and gradients with the model's own key names.
fn as_pytorch(load: Load, device: &Device, tolerance: Tolerance) -> Result<(), String> {
    let device = &device.clone().autodiff();
    let dict = load().map_err(text)?;
    let recorded = StateDict::from_safetensors(path("expected.safetensors")).map_err(text)?;
    let config = pytorch::config(&dict, PREFIX)
        .map_err(text)?
        .with_batch_first(true);
    expect("layers", config.num_layers, 2)?;
    expect("bidirectional", config.bidirectional, true)?;
    let encoder = pytorch::import(&dict, PREFIX, &config, device).map_err(text)?;

    let expected = values_by_key(&recorded);
    let shape = |name: &str| recorded.get(name).expect(name).shape().to_vec();
    let input = |name: &str| TensorData::new(expected[name].clone(), shape(name));
    let leaf = |name: &str| -> Tensor<2> {
        let data = dict.get(name).expect(name).clone();
        Tensor::from_data(data, device).require_grad()
    };
    let (embedding, head) = (leaf(GRADIENTS[0]), leaf(GRADIENTS[1]));
    let bias = Tensor::<1>::from_data(dict.get(GRADIENTS[2]).expect("head.bias").clone(), device);
    let bias = bias.require_grad();
    let h0 = Tensor::<3>::from_data(input("in.h0"), device).require_grad();
    let [n, t]: [usize; 2] = shape("in.tokens").try_into().expect("N, T");
    let tokens: Vec<i32> = expected["in.tokens"].iter().map(|&v| v as i32).collect();
    let tokens = Tensor::<1, Int>::from_data(TensorData::new(tokens, [n * t]), device);
    let lengths: Vec<usize> = expected["in.lengths"].iter().map(|&v| v as usize).collect();

    let x = embedding.clone().select(0, tokens);
    let x = x.reshape([n, t, config.d_input]);
    let (y, h_n) = encoder.forward_with(
        x,
        SequenceOptions::new().state(h0.clone()).lengths(&lengths),
    );
    let [_, _, features] = y.dims();
    let rows = y.clone().reshape([n * t, features]);
    let logits = rows.matmul(head.clone().transpose()) + bias.clone().unsqueeze();
    let total = loss(&logits, &expected["up.logits"]) + loss(&h_n, &expected["up.h_n"]);
    let gradients = total.backward();

    let exported = pytorch::export(&gradients_of(&encoder, &gradients)?, PREFIX);
    let mut got: Tensors = values_by_key(&exported.map_err(text)?);
    got.insert("h0".into(), gradient("h0", &h0, &gradients)?);
    for (name, leaf) in [(GRADIENTS[0], &embedding), (GRADIENTS[1], &head)] {
        got.insert(name.into(), gradient(name, leaf, &gradients)?);
    }
    got.insert(GRADIENTS[2].into(), gradient("bias", &bias, &gradients)?);
    // Sixteen of the encoder, three of the other layers, and the initial state.
    expect("gradients", got.len(), 20)?;
    let got = Outcome {
        outputs: Tensors::from([
            ("encoder".into(), values(y)),
            ("h_n".into(), values(h_n)),
            ("logits".into(), values(logits)),
        ]),
        gradients: got,
    };
    let recorded = |prefix: &str| -> Tensors {
        let named = expected.iter();
        named
            .filter_map(|(key, values)| Some((key.strip_prefix(prefix)?.into(), values.clone())))
            .collect()
    };
    let expected = Outcome {
        outputs: recorded("out."),
        gradients: recorded("grad."),
    };
    got.compare(&expected, tolerance)
}

/// The export has the keys and bits of the imported file.
fn exports_what_it_read() -> Result<(), String> {
    let device = &Device::flex();
    let dict = StateDict::from_pytorch(path("tagger.pt")).map_err(text)?;
    let config = pytorch::config(&dict, PREFIX).map_err(text)?;
    let encoder = pytorch::import(&dict, PREFIX, &config, device).map_err(text)?;
    // A closed file: Wine 8 and older Windows replace no open one.
    let file = tempfile::NamedTempFile::new().map_err(text)?;
    let file = file.into_temp_path();
    let exported = pytorch::export(&encoder, PREFIX).map_err(text)?;
    exported.to_safetensors(&file).map_err(text)?;
    let read = StateDict::from_safetensors(&file).map_err(text)?;
    let of_encoder: Vec<&str> = dict.keys().filter(|k| k.starts_with(PREFIX)).collect();
    expect("keys", read.keys().collect(), of_encoder.clone())?;
    of_encoder
        .iter()
        .try_for_each(|key| expect(key, read.get(key), dict.get(key)))
}
