//! Saving blocks with modified public fields.

use super::{H, I, expect, outputs, runs, text};
use burn::{
    module::{Lora, Module},
    tensor::Device,
};
use gru_op::{Activation, Direction, GruBlock, GruBlockConfig, GruFileError};
use std::{fs, path::Path};

/// Whatever the public fields of a block contain, either saving returns an error or the file can be read.
pub fn saved_blocks_load(path: &Path) -> Result<(), String> {
    let device = Device::flex();
    type Change = (&'static str, fn(&mut GruBlock));
    let changes: [Change; 17] = [
        ("nothing", |_| {}),
        ("direction", |b| b.layers[1].direction = Direction::Reverse),
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
            *b = runs::quantized(b.clone(), &Device::flex());
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
            Ok(_) => Err(format!("{name}: expected the outputs of the saved block")),
            Err(error) => Err(format!("{name}: saved, but loading failed: {error}")),
        };
        match block.save_with_config(path) {
            Ok(()) => {
                saved.push(name);
                reading(GruBlock::from_file(path, &device))?;
                fs::remove_file(&file).map_err(text)?;
            }
            Err(_) if file.exists() => {
                return Err(format!("{name}: expected no file after an error"));
            }
            Err(_) => {}
        }
    }
    expect("saved", &saved[..], &["nothing", "a bias less"])
}
