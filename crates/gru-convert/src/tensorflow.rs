//! The weights of TensorFlow's `GRUBlockCell`: `w_ru [I+H,2H]`, `w_c [I+H,H]`, `b_ru [2H]`, `b_c [H]`,
//! with the rows of `x` before the rows of `h`. The cell itself is [`gru_op::tensorflow`].
//!
//! `tf.nn.rnn_cell.GRUCell` has the same arrays with the names `gates/kernel`, `candidate/kernel`,
//! `gates/bias` and `candidate/bias`, which [`config`] and [`import`] read too. All names may end with `:0`, as the names
//! of variables do.
//!
//! The cell becomes a block with one layer and the reset before the product. [`GruBlock::step`] runs it
//! as TensorFlow does, and [`GruBlock::forward`] runs it over a sequence.
//!
//! ```
//! # fn main() -> Result<(), gru_convert::ConvertError> {
//! use gru_convert::tensorflow;
//! use gru_op::{GruBlockConfig, Reset};
//! # let device = burn::tensor::Device::flex();
//! # let gru = GruBlockConfig::new(8, 16).with_reset(Reset::BeforeMatmul);
//! let dict = tensorflow::export(&gru.init(&device), "cell/")?;
//! let config = tensorflow::config(&dict, "cell/")?;
//! assert_eq!(config.spec.reset, Reset::BeforeMatmul);
//! let block = tensorflow::import(&dict, "cell/", &config, &device)?;
//! # Ok(()) }
//! ```

use crate::{
    arrays::{self, Array, Form::*, N, Parameter::*, RZ},
    error::ConvertError,
    looks::{Layer, Names, explained},
    state_dict::StateDict,
    system::{PLAIN, System},
};
use burn::tensor::Device;
use gru_op::{GruBlock, GruBlockConfig, Reset};

/// The expected keys, for the error about an unexpected key.
const NAMES: &str = "a GRUBlockCell has w_ru, w_c, b_ru and b_c, a GRUCell has gates/kernel, \
                     candidate/kernel, gates/bias and candidate/bias; StateDict::retain drops others";

const SYSTEM: System = System {
    name: "GRUBlockCell",
    reset: Some(Reset::BeforeMatmul),
    ..PLAIN
};

/// The names of a cell's arrays: of `GRUBlockCell`, and of the variables of a `GRUCell`.
const ARRAYS: [[&str; 4]; 2] = [
    ["w_ru", "w_c", "b_ru", "b_c"],
    [
        "gates/kernel",
        "candidate/kernel",
        "gates/bias",
        "candidate/bias",
    ],
];

/// Cells by their names.
pub(crate) const LOOKS: Names = Names {
    module: "tensorflow",
    layer: |dict, key| {
        let name = key.strip_suffix(":0").unwrap_or(key);
        let of_gru = ARRAYS.iter().find_map(|names| name.strip_suffix(names[1]));
        if let Some(prefix) = of_gru {
            return Some(Layer::new(prefix, 3, 1));
        }
        // A BasicLSTMCell has one kernel `[I+H,4H]`, as a dense layer of four times H units.
        let prefix = name.strip_suffix("kernel")?;
        let is_lstm = prefix.ends_with("lstm_cell/") && dict.get(key)?.rank() == 2;
        is_lstm.then(|| Layer::new(prefix, 4, 1))
    },
    check: |dict, prefix| {
        let config = read(dict, prefix)?;
        arrays::check(dict, &arrays(keys(dict, prefix)?, &config))
    },
};

/// The keys of `w_ru`, `w_c`, `b_ru` and `b_c`. Names of variables may end with `:0`.
fn keys(dict: &StateDict, prefix: &str) -> Result<[String; 4], ConvertError> {
    let end = dict.end(prefix);
    let names = ARRAYS.map(|names| names.map(|name| format!("{name}{end}")));
    let keys = dict.under(prefix, NAMES)?;
    let has = |names: &&[String; 4]| keys.iter().any(|(_, key)| names.iter().any(|n| n == key));
    let names = names.iter().find(has).unwrap_or(&names[0]);
    let known: Vec<_> = names.iter().map(String::as_str).collect();
    dict.expect_only(prefix, &known, NAMES)?;
    Ok(names.clone().map(|name| format!("{prefix}{name}")))
}

/// The configuration of the cell under `prefix`: its sizes and the reset before the product.
///
/// # Errors
/// If a key is missing or unexpected, or `w_c` is not `[I+H,H]`.
pub fn config(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    read(dict, prefix).map_err(|error| explained(error, dict, prefix, &LOOKS))
}

fn read(dict: &StateDict, prefix: &str) -> Result<GruBlockConfig, ConvertError> {
    let [_, name, ..] = keys(dict, prefix)?;
    let [rows, h] = dict.shape(&name)?;
    if rows <= h {
        return Err(ConvertError::Form {
            name,
            expected: "[I+H, H] with I above 0",
            actual: vec![rows, h],
        });
    }
    Ok(GruBlockConfig::new(rows - h, h).with_reset(Reset::BeforeMatmul))
}

/// The cell under `prefix` as a block with one layer.
///
/// # Errors
/// If a key is missing or unexpected, if an array does not have the shape or dtype of such a cell, or if
/// `config` does not match.
pub fn import(
    dict: &StateDict,
    prefix: &str,
    config: &GruBlockConfig,
    device: &Device,
) -> Result<GruBlock, ConvertError> {
    let found = self::config(dict, prefix)?;
    SYSTEM.check_config(config, &found)?;
    arrays::import(dict, &arrays(keys(dict, prefix)?, &found), config, device)
}

/// The four arrays of a cell that computes the same as `block`. A cell always has one bias: a second
/// bias is added to it, and a missing bias becomes zero.
///
/// # Errors
/// If there is no such cell: several layers or directions, another reset form, update rule or
/// activation, a clip, zoneout, or a reverse layer. Also if a tensor cannot be read from its device.
pub fn export(block: &GruBlock, prefix: &str) -> Result<StateDict, ConvertError> {
    SYSTEM.check_block(block)?;
    let keys = ARRAYS[0].map(|name| format!("{prefix}{name}"));
    arrays::export(&block.layers, &arrays(keys, &block.config()))
}

/// Rows of both matrices, and one bias.
fn arrays([w_ru, w_c, b_ru, b_c]: [String; 4], config: &GruBlockConfig) -> Vec<Array> {
    let h = config.d_hidden;
    let rows = config.d_input + h;
    let weight = |gates| vec![(Input, gates, Columns), (Recurrent, gates, Columns)];
    vec![
        (w_ru, vec![rows, 2 * h], 0..1, weight(RZ)),
        (w_c, vec![rows, h], 0..1, weight(N)),
        (b_ru, vec![2 * h], 0..1, vec![(InputBias, RZ, Columns)]),
        (b_c, vec![h], 0..1, vec![(InputBias, N, Columns)]),
    ]
}
