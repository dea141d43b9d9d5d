//! A block in one file with its configuration.

mod by_hand;

use super::{backends::TestBackend, runs::values};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
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
    ("another-gru", another_gru),
    ("changed-by-hand", by_hand::changed_by_hand),
    ("what-is-saved-is-read", by_hand::what_is_saved_is_read),
    ("garbled", garbled),
];

/// The backend plays no part: Flex stands for all.
pub fn trials(_: &[TestBackend]) -> Vec<Trial> {
    let trial = |&(name, test): &(&'static str, Test)| {
        Trial::test(format!("saving/{name}"), move || {
            let folder = format!("gru-op-saving-{}-{name}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            fs::create_dir_all(&folder)?;
            let result = test(&folder.join("block"));
            fs::remove_dir_all(&folder)?;
            Ok(result?)
        })
    };
    TESTS.iter().map(trial).collect()
}

fn config() -> GruBlockConfig {
    GruBlockConfig::new(I, H)
        .with_num_layers(2)
        .with_bidirectional(true)
}

/// Blocks of every kind of option.
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
    apart[1].reset = Reset::BeforeMatmul;
    apart[3].clip_state = Some(0.5);
    vec![
        GruBlockConfig::new(I, H),
        GruBlockConfig::new(I, H)
            .with_reverse(true)
            .with_bias(false),
        before,
        config().with_per_layer(apart),
    ]
}

fn text<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

fn outputs(block: &GruBlock) -> Vec<f64> {
    let numbers = (0..6 * I).map(|k| ((k * 7 + 3) % 11) as f64 / 11.0 - 0.5);
    let numbers: Vec<f64> = numbers.collect();
    let x = super::runs::tensor(
        &numbers,
        [2, 3, I],
        &Device::flex(),
        burn::tensor::DType::F32,
    );
    let (y, state) = block.forward(x, None);
    [values(y), values(state)].concat()
}

/// A file needs nothing but itself, takes its extension as Burn's do, and may go once it is read.
fn round_trip(path: &Path) -> Result<(), String> {
    let device = Device::flex();
    for config in kinds() {
        let block = config.init(&device);
        block.save_with_config(path).map_err(text)?;
        let file = path.with_extension("bpk");
        let read = GruBlock::from_file(path, &device).map_err(text)?;
        fs::remove_file(file).map_err(text)?;
        if outputs(&read) != outputs(&block) {
            return Err(format!("{config}: other outputs"));
        }
        if read.to_string() != block.to_string() {
            return Err(format!("{read}, expected {block}"));
        }
        let ids = |block: &GruBlock| -> Vec<_> {
            let ids = block.layers.iter().map(|layer| {
                let bias =
                    |bias: &Option<_>| bias.as_ref().map(|b: &burn::module::Param<Tensor<1>>| b.id);
                let biases = (bias(&layer.b_ih), bias(&layer.b_hh));
                (layer.w_ih.id, layer.w_hh.id, biases)
            });
            ids.collect()
        };
        if ids(&read) != ids(&block) {
            return Err("the ids of the parameters changed, which optimizers use".into());
        }
        read.check_config(&config).map_err(text)?;
        block.check_config(&read.config()).map_err(text)?;
    }
    Ok(())
}

/// A record of Burn has no configuration. Burn reads the file of a block.
fn with_burn(path: &Path) -> Result<(), String> {
    let device = Device::flex();
    let saved = config().with_reset(Reset::BeforeMatmul).init(&device);
    saved.clone().save_file(path).map_err(text)?;
    match GruBlock::from_file(path, &device) {
        Err(GruFileError::NoConfig { .. }) => {}
        other => return Err(format!("{other:?}, expected NoConfig")),
    }
    saved.save_with_config(path).map_err(text)?;
    let same = config().with_reset(Reset::BeforeMatmul);
    let loaded = same.init(&device).try_load_file(path).map_err(text)?;
    if outputs(&loaded) == outputs(&saved) {
        Ok(())
    } else {
        Err("Burn reads other parameters from the file".into())
    }
}

/// `check_config` names each option by itself, with its layer and both values. Options of training may differ.
fn another_gru(_: &Path) -> Result<(), String> {
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
            "layers.0.reset must be BeforeMatmul, as the block has it, got AfterMatmul",
        ),
        (
            config().with_update(Update::Takes),
            "layers.0.update must be Takes, as the block has it, got Keeps",
        ),
        (config().with_activations(relu), "layers.0.activations must"),
        (
            config().with_clip_gates(Some(2.0)),
            "layers.0.clip_gates must be Some(2.000000000000), as the block has it, got None",
        ),
        (
            config().with_clip_state(Some(2.0)),
            "layers.0.clip_state must",
        ),
        (
            config().with_per_layer(apart),
            "layers.2.zoneout must be 0.500000000000, as the block has it, got 0.000000000000",
        ),
        (
            config().with_bidirectional(false).with_num_layers(4),
            "num_layers must be 4, as the block has it, got 2",
        ),
        (
            config().with_bidirectional(false),
            "bidirectional must be false, as the block has it, got true",
        ),
    ] {
        match block.init(&device).check_config(&config()) {
            Err(mismatch) if mismatch.to_string().contains(says) => {}
            other => return Err(format!("{other:?}, expected {says:?}")),
        }
    }
    let one = GruBlockConfig::new(I, H);
    let reverse = one.clone().with_reverse(true).init(&device);
    match reverse.check_config(&one) {
        Err(mismatch) if mismatch.what == "layers.0.direction" => {}
        other => return Err(format!("{other:?}, expected another direction")),
    }
    let training = config()
        .with_dropout(0.5)
        .with_recurrent_dropout(0.5)
        .with_checkpointing(Checkpointing::Recompute);
    training.init(&device).check_config(&config()).map_err(text)
}

/// A file cut short anywhere, or with any byte of its head changed, is an error or a block.
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
            return Err(format!("{len} of {} bytes were accepted", bytes.len()));
        }
    }
    let head = bytes.len() - 4 * 36;
    let mut refused = 0;
    for at in 0..head {
        for flip in [0x01, 0x20, 0x80, 0xff] {
            let mut garbled = bytes.clone();
            garbled[at] ^= flip;
            refused += usize::from(!read(&garbled)?);
        }
    }
    fs::remove_file(&file).map_err(text)?;
    if refused < head {
        return Err(format!("{refused} of {} changes were refused", 4 * head));
    }
    match GruBlock::from_file(PathBuf::from("no such file"), &device) {
        Err(GruFileError::File { .. }) => Ok(()),
        other => Err(format!("{other:?}, expected an error of the file")),
    }
}
