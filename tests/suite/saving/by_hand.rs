//! Blocks whose public fields were changed.

use super::{H, I, outputs, text};
use burn::{
    module::{Lora, Module, Quantizer},
    tensor::{
        Device,
        quantization::{Calibration, QuantValue},
    },
};
use gru_op::{Activation, GruBlock, GruBlockConfig, GruFileError};
use std::{fs, path::Path};

/// Layers may be changed by hand into what no configuration says: then nothing is written.
pub fn changed_by_hand(path: &Path) -> Result<(), String> {
    let mut block = GruBlockConfig::new(I, H)
        .with_num_layers(2)
        .init(&Device::flex());
    block.layers[1].direction = gru_op::Direction::Reverse;
    match block.save_with_config(path) {
        Err(GruFileError::Block(mismatch)) if mismatch.what == "layers.1.direction" => {}
        other => return Err(format!("{other:?}, expected a mismatch")),
    }
    if path.with_extension("bpk").exists() {
        Err("a file was written".into())
    } else {
        Ok(())
    }
}

/// All fields are public. After any change of them, saving is an error, or the file is read again.
pub fn what_is_saved_is_read(path: &Path) -> Result<(), String> {
    let device = Device::flex();
    type Change = (&'static str, fn(&mut GruBlock));
    let changes: [Change; 16] = [
        ("nothing", |_| {}),
        ("zoneout 1", |b| b.layers[0].zoneout = 1.0),
        ("zoneout NaN", |b| b.layers[1].zoneout = f64::NAN),
        ("recurrent dropout 1", |b| {
            b.layers[1].recurrent_dropout = 1.0
        }),
        ("dropout 1", |b| b.dropout.prob = 1.0),
        ("clip 0", |b| b.layers[0].spec.clip_gates = Some(0.0)),
        ("clip NaN", |b| b.layers[1].spec.clip_state = Some(f64::NAN)),
        ("activation", |b| {
            let alpha = f64::NAN;
            b.layers[0].spec.activations.update = Activation::Elu { alpha };
        }),
        ("d_input", |b| b.d_input = 9),
        ("d_hidden", |b| b.d_hidden = 9),
        ("a layer less", |b| drop(b.layers.pop())),
        ("a layer more", |b| b.layers.push(b.layers[1].clone())),
        ("another weight", |b| {
            b.layers[1].w_hh = b.layers[1].w_hh.clone().map(|w| w.narrow(0, 0, 2))
        }),
        ("a bias less", |b| b.layers[1].b_hh = None),
        ("quantized", |b| {
            let scheme = Device::flex().settings().quantization.scheme;
            let scheme = scheme.with_value(QuantValue::Q8S);
            let mut quantizer = Quantizer::new(Calibration::MinMax, scheme);
            *b = b.clone().quantize_weights(&mut quantizer);
        }),
        ("adapters", |b| *b = b.clone().apply_lora(Lora::new(2, 4.0))),
    ];
    let config = GruBlockConfig::new(I, H).with_num_layers(2);
    let file = path.with_extension("bpk");
    let mut saved = Vec::new();
    for (name, change) in changes {
        let mut block = config.init(&device);
        change(&mut block);
        let reading = |read: Result<GruBlock, GruFileError>| match read {
            Ok(read) if outputs(&read) == outputs(&block) => Ok(()),
            Ok(_) => Err(format!("{name}: it was saved, and other outputs were read")),
            Err(error) => Err(format!("{name}: it was saved, and not read: {error}")),
        };
        match block.save_with_config(path) {
            Ok(()) => {
                saved.push(name);
                reading(GruBlock::from_file(path, &device))?;
                fs::remove_file(&file).map_err(text)?;
            }
            Err(_) if file.exists() => return Err(format!("{name}: refused, and written")),
            Err(_) => {}
        }
    }
    if saved == ["nothing", "a bias less"] {
        Ok(())
    } else {
        Err(format!("saved: {saved:?}"))
    }
}
