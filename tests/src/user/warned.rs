//! Warnings of a block in the log.

use super::{H, I, child, expect, input};
use crate::{conformance::text, runs::Cast, warnings};
use burn::{
    module::Module,
    tensor::{DType, Device},
};
use gru_op::{GruBlock, GruBlockConfig, Precision};

/// In a separate process, because a process has one logger.
pub fn runs() -> Result<(), String> {
    child::run("warnings")
}

pub fn role() -> Result<(), String> {
    warnings::collect();
    let (device, dtype) = (Device::flex().autodiff(), DType::BF16);
    let config = GruBlockConfig::new(I, H)
        .with_num_layers(2)
        .with_dropout(0.25);
    let gru = config.init(&device);
    let x = input(&device);
    gru.forward(x.clone(), None);
    let cast = gru.valid().map(&mut Cast(dtype)).train();
    cast.forward(x.clone().cast(dtype), None);
    gru.clone().no_grad().forward(x.clone(), None);
    expect("warnings", warnings::take(), vec![])?;

    config.with_num_layers(1).init(&device);
    let expected = "GruBlockConfig: dropout 0.25 acts between layers, but num_layers is 1";
    expect("warnings", warnings::take(), vec![expected.to_owned()])?;

    // An imported block, and a block of a file.
    let one = GruBlockConfig::new(I, H);
    let weights = one.init(&device).weights();
    let one = one.with_dropout(0.25).init_with(weights).map_err(text)?;
    expect("warnings", warnings::take(), vec![expected.to_owned()])?;
    let folder = tempfile::tempdir().map_err(text)?;
    let path = folder.path().join("one.bpk");
    one.save_with_config(&path).map_err(text)?;
    GruBlock::from_file(&path, &device).map_err(text)?;
    expect("warnings", warnings::take(), vec![expected.to_owned()])?;
    one.prepare(Precision::Full);
    expect("warnings", warnings::take(), vec![])?;

    let cast = gru.map(&mut Cast(dtype));
    for _ in 0..2 {
        cast.forward(x.clone().cast(dtype), None);
    }
    let [warning] = &warnings::take()[..] else {
        return Err("expected one warning of parameters that are no leaves".into());
    };
    let expected = "GruBlock::forward: parameters are results of an operation";
    expect("warning", warning.starts_with(expected), true)
}
