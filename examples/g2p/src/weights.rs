//! The weights in the wheel of the package g2p_en.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use burn::module::Param;
use burn::nn::{Embedding, EmbeddingConfig, LinearConfig};
use burn::tensor::Device;
use gru_convert::{ConvertError, StateDict, pytorch};
use gru_op::{GruBlockConfig, GruError, Precision, PreparedGru};
use zip::ZipArchive;

use crate::Error;
use crate::model::G2p;
use crate::symbols::{LETTERS, PHONEMES};

/// The path of the weights in a wheel.
const INSIDE: &str = "g2p_en/checkpoint20.npz";
/// E and H of the trained model.
const SIZE: usize = 256;

/// Reads the model from a wheel of g2p_en, and prepares its GRUs.
///
/// # Errors
/// If the file is not a wheel of g2p_en, or if its arrays do not match the model.
pub fn load(wheel: &Path, precision: Precision, device: &Device) -> Result<G2p, Error> {
    let bytes = entry(wheel).map_err(|e| format!("{}: {e}", wheel.display()))?;
    let dict = StateDict::from_npz_reader(INSIDE, Cursor::new(bytes))?;
    let mut head = LinearConfig::new(SIZE, PHONEMES.len()).init(device);
    // PyTorch has one row per output, Burn one column.
    let weight = dict.tensor("fc_w", [PHONEMES.len(), SIZE], device)?;
    head.weight = Param::from_tensor(weight.transpose());
    let bias = dict.tensor("fc_b", [PHONEMES.len()], device)?;
    head.bias = Some(Param::from_tensor(bias));
    Ok(G2p {
        letters: embedding(&dict, "enc_emb", LETTERS, device)?,
        encoder: gru(&dict, "enc_", precision, device)?,
        phonemes: embedding(&dict, "dec_emb", PHONEMES.len(), device)?,
        decoder: gru(&dict, "dec_", precision, device)?,
        head,
    })
}

fn entry(wheel: &Path) -> Result<Vec<u8>, Error> {
    let mut wheel = ZipArchive::new(File::open(wheel)?)?;
    let mut bytes = Vec::new();
    wheel.by_name(INSIDE)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A cell of PyTorch with the package's own array names: `enc_w_ih`, `enc_b_ih`, ….
fn gru(
    dict: &StateDict,
    part: &str,
    precision: Precision,
    device: &Device,
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
