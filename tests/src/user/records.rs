//! Parameters of a block without its configuration: partial records, other names.

use super::{H, I, Test, equal, outputs, text};
use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use burn_store::{ModuleSnapshot, SafetensorsStore};
use gru_op::{GruBlock, GruBlockConfig};

pub const TESTS: &[(&str, Test)] = &[
    ("partial-record", partial_record),
    ("record-with-more", record_with_more),
    ("key-remapping", key_remapping),
];

fn config() -> GruBlockConfig {
    GruBlockConfig::new(I, H)
}

/// The values of a layer's recurrent weight, which are random in every block.
fn w_hh(block: &GruBlock, layer: usize) -> Vec<f64> {
    super::values(block.layers[layer].w_hh.val())
}

/// A record of one layer for a block of two layers. Loading fails unless partial loading is allowed.
/// Then the second layer stays unchanged.
fn partial_record(device: &Device) -> Result<(), String> {
    let saved = config().init(device);
    let block = config().with_num_layers(2).init(device);
    let second = w_hh(&block, 1);
    let record = || saved.clone().into_record();
    if block.clone().try_load_record(record()).is_ok() {
        return Err("expected an error, because the second layer is missing".into());
    }
    let loaded = block.try_load_record(record().allow_partial(true));
    let loaded = loaded.map_err(text)?;
    equal("first layer", &w_hh(&loaded, 0), &w_hh(&saved, 0))?;
    equal("second layer", &w_hh(&loaded, 1), &second)
}

/// A record of two layers for a block of one layer.
fn record_with_more(device: &Device) -> Result<(), String> {
    let saved = config().with_num_layers(2).init(device);
    let record = saved.clone().into_record().allow_unused(true);
    let loaded = config().init(device).try_load_record(record);
    equal(
        "the layer",
        &w_hh(&loaded.map_err(text)?, 0),
        &w_hh(&saved, 0),
    )?;
    // Different sizes are an error with every option.
    let other = GruBlockConfig::new(I, H + 1).init(device);
    let record = saved.into_record().allow_unused(true).allow_partial(true);
    match other.try_load_record(record) {
        Ok(_) => Err("expected an error about the sizes".into()),
        Err(_) => Ok(()),
    }
}

/// A block within a model.
#[derive(Module, Debug)]
struct Model {
    encoder: GruBlock,
    scale: Param<Tensor<1>>,
}

/// Loads the block of a model into a separate block by remapping its names.
fn key_remapping(device: &Device) -> Result<(), String> {
    let model = Model {
        encoder: config().with_num_layers(2).init(device),
        scale: Param::from_tensor(Tensor::ones([1], device)),
    };
    let mut store = SafetensorsStore::from_bytes(None);
    model.save_into(&mut store).map_err(text)?;
    let bytes = store.get_bytes().map_err(text)?;
    let mut block = config().with_num_layers(2).init(device);
    let mut store = SafetensorsStore::from_bytes(Some(bytes.clone()));
    if block.load_from(&mut store).is_ok() {
        return Err("expected an error without remapping".into());
    }
    let mut store = SafetensorsStore::from_bytes(Some(bytes))
        .with_key_remapping("^encoder\\.", "")
        .with_regex("^layers\\.");
    block.load_from(&mut store).map_err(text)?;
    let [got, expected] = [&block, &model.encoder].map(|block| outputs(block, device));
    equal("outputs", &got, &expected)
}
