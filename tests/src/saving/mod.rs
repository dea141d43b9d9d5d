//! A block in one file with its configuration: round trips and errors.

mod modified;

use super::{
    backends::{TestBackend, other_device},
    conformance::text,
    runs::{self, Cast, expect, fails, values},
};
use burn::{
    module::{Module, list_param_ids},
    tensor::{DType, Device, Tensor},
};
use gru_op::{
    Activation, Activations, Checkpointing, GruBlock, GruBlockConfig, GruFileError, Reset, Update,
};
use libtest_mimic::Trial;
use std::{
    fs,
    path::{Path, PathBuf},
};

const I: usize = 3;
const H: usize = 4;

type Test = fn(&Path) -> Result<(), String>;

const TESTS: &[(&str, Test)] = &[
    ("round-trip", round_trip),
    ("with-burn", with_burn),
    ("another-configuration", another_configuration),
    ("saved-blocks-load", modified::saved_blocks_load),
    ("one-bias", one_bias),
    ("failed-save", failed_save),
    ("later-version", later_version),
    ("garbled", garbled),
    ("other-writers", other_writers),
    ("half", half),
];

/// The result does not depend on the backend, so only Flex runs.
pub fn trials(_: &[TestBackend]) -> Vec<Trial> {
    let trial = |&(name, test): &(&'static str, Test)| {
        let trial = Trial::test(format!("saving/{name}"), move || {
            let folder = tempfile::tempdir()?;
            Ok(test(&folder.path().join("block"))?)
        });
        // Burn reads numbers in the byte order of the machine.
        trial.with_ignored_flag(cfg!(target_endian = "big") && name == "with-burn")
    };
    TESTS.iter().map(trial).collect()
}

fn config() -> GruBlockConfig {
    GruBlockConfig::new(I, H)
        .with_num_layers(2)
        .with_bidirectional(true)
}

/// Blocks with every kind of option.
fn kinds() -> Vec<GruBlockConfig> {
    let odd = Activations {
        reset: Activation::HardSigmoid {
            alpha: 1.0 / 3.0,
            beta: 0.1 + 0.2,
        },
        update: Activation::Softsign,
        candidate: Activation::ScaledTanh {
            alpha: 1.7159,
            beta: 2.0 / 3.0,
        },
    };
    let before = config()
        .with_reset(Reset::BeforeMatmul)
        .with_update(Update::Takes)
        .with_activations(odd)
        .with_clip_gates(Some(5.0))
        .with_clip_state(Some(f64::INFINITY))
        .with_dropout(0.25)
        .with_recurrent_dropout(0.125)
        .with_zoneout(0.1)
        .with_checkpointing(Checkpointing::Recompute)
        .with_batch_first(false);
    let mut apart = vec![config().layer_options(); 4];
    apart[1].spec.reset = Reset::BeforeMatmul;
    apart[3].spec.clip_state = Some(0.5);
    vec![
        GruBlockConfig::new(I, H),
        GruBlockConfig::new(I, H)
            .with_reverse(true)
            .with_bias(false),
        before,
        config().with_per_layer(apart),
    ]
}

fn outputs(block: &GruBlock) -> Vec<f64> {
    let numbers = (0..6 * I).map(|k| ((k * 7 + 3) % 11) as f64 / 11.0 - 0.5);
    let numbers: Vec<f64> = numbers.collect();
    let x = runs::tensor(&numbers, [2, 3, I], &Device::flex(), DType::F32);
    let (y, state) = block.forward(x, None);
    [values(y), values(state)].concat()
}

/// The file is self-contained, gets Burn's extension also next to a folder of its name, and may be deleted after loading.
fn round_trip(path: &Path) -> Result<(), String> {
    let device = Device::flex();
    fs::create_dir(path).map_err(text)?;
    for config in kinds() {
        let block = config.init(&device);
        block.save_with_config(path).map_err(text)?;
        let file = path.with_extension("bpk");
        let read = GruBlock::from_file(path, &device).map_err(text)?;
        fs::remove_file(file).map_err(text)?;
        expect("outputs", outputs(&read), outputs(&block))?;
        expect("block", read.to_string(), block.to_string())?;
        // Optimizers use the ids.
        let [ids, expected] = [&read, &block].map(list_param_ids);
        expect("parameter ids", ids, expected)?;
        read.check_config(&config).map_err(text)?;
        block.check_config(&read.config()).map_err(text)?;
    }
    Ok(())
}

/// The configuration of a block with one bias makes a block that its record fits.
fn one_bias(path: &Path) -> Result<(), String> {
    let device = Device::flex();
    let config = config().with_recurrent_bias(false);
    let mut block = config.init(&device);
    for again in [config, block.config()] {
        block.clone().save_file(path).map_err(text)?;
        let read = again.init(&device).try_load_file(path).map_err(text)?;
        expect("outputs", outputs(&read), outputs(&block))?;
        expect("b_hh", read.layers[0].b_hh.is_some(), false)?;
        block = read;
    }
    Ok(())
}

/// The temporary file of a save needs a longer name, and this name has the largest length of common file systems.
fn failed_save(path: &Path) -> Result<(), String> {
    let path = path.with_file_name("b".repeat(251) + ".bpk");
    fs::write(&path, "before").map_err(text)?;
    match config().init(&Device::flex()).save_with_config(&path) {
        Err(GruFileError::File { .. }) => {}
        other => return Err(format!("expected an error of the file, got {other:?}")),
    }
    let content = fs::read_to_string(&path).map_err(text)?;
    expect("file", &content[..], "before")
}

/// A Burn record does not have a configuration. Burn reads the file of a block.
fn with_burn(path: &Path) -> Result<(), String> {
    let device = Device::flex();
    let saved = config().with_reset(Reset::BeforeMatmul).init(&device);
    saved.clone().save_file(path).map_err(text)?;
    match GruBlock::from_file(path, &device) {
        Err(GruFileError::NoConfig { .. }) => {}
        other => return Err(format!("expected NoConfig, got {other:?}")),
    }
    saved.save_with_config(path).map_err(text)?;
    let same = config().with_reset(Reset::BeforeMatmul);
    let loaded = same.init(&device).try_load_file(path).map_err(text)?;
    expect("outputs of Burn's file", outputs(&loaded), outputs(&saved))
}

/// `check_config` names each option by itself, with its layer and both values. Options of training may differ.
fn another_configuration(_: &Path) -> Result<(), String> {
    let device = Device::flex();
    let mut apart = vec![config().layer_options(); 4];
    apart[2].zoneout = 0.5;
    let relu = Activations {
        candidate: Activation::Relu,
        ..Activations::default()
    };
    for (block, says) in [
        (
            config().with_reset(Reset::BeforeMatmul),
            "layers.0.reset must be BeforeMatmul",
        ),
        (
            config().with_update(Update::Takes),
            "layers.0.update must be Takes",
        ),
        (config().with_activations(relu), "layers.0.activations must"),
        (
            config().with_clip_gates(Some(2.0)),
            "layers.0.clip_gates must be Some(2.0)",
        ),
        (
            config().with_clip_state(Some(2.0)),
            "layers.0.clip_state must",
        ),
        (
            config().with_per_layer(apart),
            "layers.2.zoneout must be 0.5, as the block has it, got 0.0",
        ),
        (
            config().with_bidirectional(false).with_num_layers(4),
            "num_layers must be 4, as the block has it, got 2",
        ),
        (
            config().with_bidirectional(false),
            "bidirectional must be false",
        ),
    ] {
        fails(block.init(&device).check_config(&config()), says)?;
    }
    // JSON may change the last digit of a number, and no other.
    for (own, saved, is_same) in [
        (12345.678901234567, 12345.678901234569, true),
        (12345.678901234567, 12345.6789013, false),
        (1e-13, 2e-13, false),
    ] {
        let of = |clip| config().with_clip_state(Some(clip));
        let check = of(own).init(&device).check_config(&of(saved));
        if check.is_ok() != is_same {
            return Err(format!("{own} and {saved}: got {check:?}"));
        }
    }
    let one = GruBlockConfig::new(I, H);
    let reverse = one.clone().with_reverse(true).init(&device);
    fails(reverse.check_config(&one), "layers.0.direction")?;
    let training = config()
        .with_dropout(0.5)
        .with_recurrent_dropout(0.5)
        .with_checkpointing(Checkpointing::Recompute);
    training.init(&device).check_config(&config()).map_err(text)
}

/// Without the options of a later version, a block would compute other numbers.
fn later_version(path: &Path) -> Result<(), String> {
    let device = Device::flex();
    let block = config()
        .with_per_layer(vec![config().layer_options(); 4])
        .init(&device);
    block.save_with_config(path).map_err(text)?;
    let file = path.with_extension("bpk");
    let saved = fs::read(&file).map_err(text)?;
    // An option of the block, which comes first in the file, of the last layer, and of its activations. The new name has
    // the same length.
    for (name, later, is_first) in [
        ("batch_first", "batch_later", true),
        ("clip_state", "clip_later", false),
        ("candidate", "nextstate", false),
    ] {
        let mut places = saved.windows(name.len());
        let is_name = |place: &[u8]| place == name.as_bytes();
        let at = if is_first {
            places.position(is_name)
        } else {
            places.rposition(is_name)
        };
        let at = at.ok_or_else(|| format!("expected {name} in the file"))?;
        let mut changed = saved.clone();
        changed[at..at + later.len()].copy_from_slice(later.as_bytes());
        fs::write(&file, changed).map_err(text)?;
        fails(GruBlock::from_file(path, &device), later)?;
    }
    Ok(())
}

/// A file that is truncated anywhere, or has a changed byte in its header, is an error or a block.
fn garbled(path: &Path) -> Result<(), String> {
    let device = Device::flex();
    let block = GruBlockConfig::new(2, 2).init(&device);
    block.save_with_config(path).map_err(text)?;
    let file = path.with_extension("bpk");
    let bytes = fs::read(&file).map_err(text)?;
    let read = |bytes: &[u8]| -> Result<bool, String> {
        fs::write(&file, bytes).map_err(text)?;
        Ok(GruBlock::from_file(&file, &device).is_ok())
    };
    for len in 0..bytes.len() {
        if read(&bytes[..len])? {
            return Err(format!(
                "expected an error for {len} of {} bytes",
                bytes.len()
            ));
        }
    }
    let head = bytes.len() - 4 * 36;
    let mut errors = 0;
    for at in 0..head {
        for flip in [0x01, 0x20, 0x80, 0xff] {
            let mut garbled = bytes.clone();
            garbled[at] ^= flip;
            errors += usize::from(!read(&garbled)?);
        }
    }
    fs::remove_file(&file).map_err(text)?;
    if errors < head {
        return Err(format!(
            "expected errors for most changes, got {errors} of {}",
            4 * head
        ));
    }
    match GruBlock::from_file(PathBuf::from("no such file"), &device) {
        Err(GruFileError::File { .. }) => Ok(()),
        other => Err(format!("expected an error of the file, got {other:?}")),
    }
}

/// Parameters may start anywhere in a file. Ones that share bytes, or have different types, are an error.
fn other_writers(path: &Path) -> Result<(), String> {
    let device = Device::flex();
    let file = path.with_extension("bpk");
    let read = |layers: usize, h: u32, [w_ih, w_hh]: [(&str, u32); 2]| {
        fs::write(&file, pack(layers, h, [w_ih, w_hh])).map_err(text)?;
        GruBlock::from_file(&file, &device).map_err(|error| error.to_string())
    };
    let block = read(1, 2, [("F32", 1), ("F32", 3)])?;
    block.step(Tensor::zeros([1, 2], &device), None);
    block.prepare(gru_op::Precision::Full);
    let types = read(1, 2, [("F32", 0), ("F64", 0)]);
    fails(
        types,
        "layers.0.w_ih: expected F64, the type of layers.0.w_hh, got F32",
    )?;
    fails(read(60, 256, [("F32", 0); 2]), "but its arrays claim")
}

/// A burnpack of layers without bias, with the type and the first byte of their weights.
fn pack(layers: usize, h: u32, weights: [(&str, u32); 2]) -> Vec<u8> {
    let text = |text: &str| [&[0x78, text.len() as u8], text.as_bytes()].concat();
    let number = |number: u32| [&[0x1a][..], &number.to_be_bytes()].concat();
    let mut metadata = [&[0xa2][..], &text("tensors"), &[0xb9, 0, 2 * layers as u8]].concat();
    for k in 0..layers {
        for (name, (dtype, start)) in ["w_ih", "w_hh"].into_iter().zip(weights) {
            let bytes = h * 3 * h * if dtype == "F64" { 8 } else { 4 };
            let place = [number(start), number(start + bytes)].concat();
            metadata.extend([&text(&format!("layers.{k}.{name}"))[..], &[0xa3]].concat());
            metadata.extend([text("dtype"), text(dtype), text("shape")].concat());
            metadata.extend([&[0x82][..], &number(h), &number(3 * h)].concat());
            metadata.extend([&text("data_offsets")[..], &[0x82], &place].concat());
        }
    }
    let json =
        format!("{{\"d_input\":{h},\"d_hidden\":{h},\"num_layers\":{layers},\"bias\":false}}");
    metadata.extend(
        [
            &text("metadata")[..],
            &[0xa1],
            &text("gru-op.config"),
            &text(&json),
        ]
        .concat(),
    );
    let size = (metadata.len() as u32).to_le_bytes();
    let mut file = [&b"NRUB\x01\0"[..], &size, &metadata].concat();
    file.resize(
        file.len().next_multiple_of(256) + 8 + (8 * h * 3 * h) as usize,
        0,
    );
    file
}

/// A block in float16, on a device that has it, and on one that does not.
fn half(path: &Path) -> Result<(), String> {
    let block = config().init(&Device::flex());
    let block = block.map(&mut Cast(DType::F16));
    let text = |error: GruFileError| error.to_string();
    block.save_with_config(path).map_err(text)?;
    let loaded = GruBlock::from_file(path, &Device::flex()).map_err(text)?;
    expect("w_hh", loaded.layers[0].w_hh.dtype(), DType::F16)?;
    let without = GruBlock::from_file(path, &other_device());
    fails(without, "does not support F16")
}
