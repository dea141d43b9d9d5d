//! Files of earlier releases, which every later release must read: a block with its configuration.
//! `tests/data/models/README.md` describes how to write the file of a new release.

use super::{text, values};
use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, Device, Tensor},
};
use gru_op::{
    Activation, Activations, Checkpointing, GruBlock, GruBlockConfig, Reset, SequenceOptions,
    Update,
};
use gru_testkit::close::{Tensors, Tolerance, close};
use libtest_mimic::Trial;
use std::{
    fs,
    path::{Path, PathBuf},
};

const BLOCK: &str = "block.bpk";
/// The recorded results of the release.
const NUMBERS: &str = "numbers.json";

fn folder() -> PathBuf {
    crate::data().join("models/golden")
}

/// The folder of each release, by version.
fn releases() -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder()).map_err(text)?;
    let mut releases = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(text)?;
    releases.sort();
    if releases.is_empty() {
        return Err("expected at least one release".into());
    }
    Ok(releases)
}

pub fn trial() -> Trial {
    Trial::test("user/golden-block", || Ok(reads()?))
}

/// Compares current results with the recorded results of each release.
fn reads() -> Result<(), String> {
    for release in releases()? {
        let expected = fs::read(release.join(NUMBERS)).map_err(text)?;
        let expected: Tensors = serde_json::from_slice(&expected).map_err(text)?;
        for (name, got) in block(&release)? {
            let expected = expected
                .get(&name)
                .ok_or(format!("{name}: expected a record, got none"))?;
            let name = format!("{}: {name}", release.display());
            close(&name, &got, expected, Tolerance::F32.gradient)?;
        }
    }
    Ok(())
}

fn block(folder: &Path) -> Result<Tensors, String> {
    let block = GruBlock::from_file(folder.join(BLOCK), &Device::flex()).map_err(text)?;
    let numbers: Vec<f64> = (0..24).map(number).collect();
    // Two bidirectional layers, time-major.
    let x = super::runs::tensor(&numbers, [4, 3, 2], &Device::flex(), DType::F32);
    let (y, state) = block.forward_with(x, SequenceOptions::new().lengths(&[4, 0, 2]));
    Ok(Tensors::from([
        ("y".into(), values(y)),
        ("state".into(), values(state)),
    ]))
}

/// A fixed value in (−0.7, 0.7).
fn number(k: usize) -> f64 {
    (k * 37 % 101) as f64 / 72.0 - 0.7
}

struct Numbered(usize);

impl ModuleMapper for Numbered {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let shape: [usize; D] = tensor.dims();
            let from = self.0;
            self.0 += shape.iter().product::<usize>();
            let numbers: Vec<f64> = (from..self.0).map(number).collect();
            let place = (tensor.device(), tensor.dtype());
            super::runs::tensor(&numbers, shape, &place.0, place.1)
        })
    }
}

/// Writes the files of this release. Existing files stay.
pub fn write() -> Result<(), String> {
    let folder = folder().join(env!("CARGO_PKG_VERSION"));
    if folder.exists() {
        return Err(format!("{}: expected no such folder", folder.display()));
    }
    fs::create_dir_all(&folder).map_err(text)?;
    let odd = Activations {
        reset: Activation::HardSigmoid {
            alpha: 0.25,
            beta: 0.5,
        },
        update: Activation::Sigmoid,
        candidate: Activation::ScaledTanh {
            alpha: 1.5,
            beta: 0.75,
        },
    };
    let config = GruBlockConfig::new(2, 3)
        .with_num_layers(2)
        .with_bidirectional(true)
        .with_batch_first(false)
        .with_dropout(0.25)
        .with_zoneout(0.125)
        .with_checkpointing(Checkpointing::Recompute);
    let mut apart = vec![config.layer_options(); 4];
    apart[1].spec.reset = Reset::BeforeMatmul;
    apart[2].spec.activations = odd;
    apart[2].spec.clip_gates = Some(0.75);
    apart[3].spec.update = Update::Takes;
    apart[3].spec.clip_state = Some(0.5);
    let gru = config.with_per_layer(apart).init(&Device::flex());
    let gru = gru.map(&mut Numbered(0));
    gru.save_with_config(folder.join(BLOCK)).map_err(text)?;

    let numbers = block(&folder)?;
    let numbers = serde_json::to_string(&numbers).map_err(text)?;
    fs::write(folder.join(NUMBERS), numbers).map_err(text)
}
