//! PyTorch: arrays that are not an `nn.GRU` or `nn.GRUCell`, and configurations that PyTorch does not
//! have.

use super::{super::*, ErrorCase};

/// Changes the arrays of an `nn.GRU(3, 5)` of zeros and imports them.
fn torch(change: impl FnOnce(&mut StateDict)) -> Result<(), ConvertError> {
    let mut dict = StateDict::new();
    dict.insert("weight_ih_l0", zeros([3 * H, I]));
    dict.insert("weight_hh_l0", zeros([3 * H, H]));
    dict.insert("bias_ih_l0", zeros([3 * H]));
    dict.insert("bias_hh_l0", zeros([3 * H]));
    change(&mut dict);
    let config = pytorch::config(&dict, "")?;
    pytorch::import(&dict, "", &config, &device())?;
    Ok(())
}

/// Imports PyTorch arrays with a changed configuration.
fn torch_as(configure: impl FnOnce(GruBlockConfig) -> GruBlockConfig) -> Result<(), ConvertError> {
    let dict = pytorch::export(&block(config()), "")?;
    let config = configure(pytorch::config(&dict, "")?);
    pytorch::import(&dict, "", &config, &device()).map(|_| ())
}

pub const CASES: &[ErrorCase] = &[
    (
        "missing",
        || torch(|d| d.insert("weight_ih_l1", zeros([3 * H, H]))),
        "weight_hh_l1: expected a tensor of this name, got none",
    ),
    (
        "unexpected",
        || torch(|d| d.insert("weight_hr_l0", zeros([3, H]))),
        "weight_hr_l0: not expected; an nn.GRU has weight_ih_l{k}, weight_hh_l{k}, \
         bias_ih_l{k}, bias_hh_l{k}, each also with _reverse",
    ),
    (
        "absurd-layer",
        || torch(|d| d.insert("weight_ih_l99999999999", zeros([1]))),
        "weight_ih_l99999999999: not expected; an nn.GRU has weight_ih_l{k}, weight_hh_l{k}, \
         bias_ih_l{k}, bias_hh_l{k}, each also with _reverse",
    ),
    (
        "shape",
        || torch(|d| d.insert("bias_hh_l0", zeros([3 * H + 1]))),
        "bias_hh_l0: expected shape [15], got [16]",
    ),
    (
        "rank",
        || torch(|d| d.insert("weight_hh_l0", zeros([3 * H]))),
        "weight_hh_l0: expected a tensor of rank 2, got shape [15]",
    ),
    (
        "no-numbers",
        || torch(|d| d.insert("weight_hh_l0", zeros([3 * H, 0]))),
        "weight_hh_l0: expected numbers, got shape [15, 0]",
    ),
    (
        "absurd-size-without-numbers",
        || torch(|d| d.insert("weight_hh_l0", zeros([0, 1 << 62]))),
        "weight_hh_l0: expected numbers, got shape [0, 4611686018427387904]",
    ),
    (
        "dtype",
        || torch(|d| d.insert("bias_ih_l0", TensorData::zeros::<i32, _>([3 * H]))),
        "bias_ih_l0: expected floating-point numbers, got I32",
    ),
    (
        "no-such-prefix",
        || pytorch::config(&StateDict::new(), "gru.").map(|_| ()),
        "expected tensors whose names start with \"gru.\", got none; an nn.GRU has weight_ih_l{k}, \
         weight_hh_l{k}, bias_ih_l{k}, bias_hh_l{k}, each also with _reverse",
    ),
    (
        "another-prefix",
        || {
            let mut dict = StateDict::new();
            for name in ["rnn.a", "rnn.b", "rnn.c", "rnn.d"] {
                dict.insert(name, zeros([1]));
            }
            pytorch::config(&dict, "gru.").map(|_| ())
        },
        "expected tensors whose names start with \"gru.\", got \"rnn.a\", \"rnn.b\", \"rnn.c\" and 1 more; an \
         nn.GRU has weight_ih_l{k}, weight_hh_l{k}, bias_ih_l{k}, bias_hh_l{k}, each also with _reverse",
    ),
    (
        "prefixes-of-grus",
        || {
            let mut dict = StateDict::new();
            for name in [
                "a.weight",
                "dec.weight_hh",
                "enc.parametrizations.weight_hh_l0.original0",
                "gru/recurrent_kernel:0",
                "layers/gru/cell/vars/1",
                "rnn.weight_hh_l0",
                "rnn.weight_hh_l1_reverse",
            ] {
                dict.insert(name, zeros([1]));
            }
            pytorch::config(&dict, "gru.").map(|_| ())
        },
        "expected tensors whose names start with \"gru.\", got \"dec.\", \"enc.\", \"gru/\" and 2 more; an \
         nn.GRU has weight_ih_l{k}, weight_hh_l{k}, bias_ih_l{k}, bias_hh_l{k}, each also with _reverse",
    ),
    (
        "other-hidden",
        || {
            torch_as(|mut config| {
                config.d_hidden = H + 1;
                config
            })
        },
        "d_hidden of the configuration: expected 5, as the imported GRU has it, got 6",
    ),
    (
        "other-input",
        || {
            torch_as(|mut config| {
                config.d_input = I + 1;
                config
            })
        },
        "d_input of the configuration: expected 3, as the imported GRU has it, got 4",
    ),
    (
        "other-layers",
        || torch_as(|config| config.with_num_layers(2)),
        "num_layers of the configuration: expected 1, as the imported GRU has it, got 2",
    ),
    (
        "other-directions",
        || torch_as(|config| config.with_bidirectional(true)),
        "bidirectional of the configuration: expected false, as the imported GRU has it, got true",
    ),
    (
        "other-bias",
        || torch_as(|config| config.with_bias(false)),
        "bias of the configuration: expected true, as the imported GRU has it, got false",
    ),
    (
        "no-block",
        || torch_as(|config| config.with_dropout(1.5)),
        "GruBlockConfig: dropout must be a probability, expected 0 to below 1, got 1.5",
    ),
    (
        "config-before",
        || torch_as(|config| config.with_reset(Reset::BeforeMatmul)),
        "PyTorch cannot express Reset::BeforeMatmul",
    ),
    (
        "config-clip",
        || torch_as(|config| config.with_clip_gates(Some(2.0))),
        "PyTorch cannot express clip_gates 2",
    ),
    (
        "config-reverse",
        || torch_as(|config| config.with_reverse(true)),
        "PyTorch cannot express a layer in reverse only",
    ),
    (
        "no-lstm",
        || torch(|d| d.insert("weight_hh_l0", zeros([4 * H, H]))),
        "weight_hh_l0: expected shape [15, 5], got [20, 5]",
    ),
    (
        "cell-key",
        || {
            let mut dict =
                pytorch::export(&block(config()), "")?.renamed(|key| key.replace("_l0", ""))?;
            dict.insert("weight_ih_l0", zeros([1]));
            pytorch::config(&dict, "").map(|_| ())
        },
        "weight_ih_l0: not expected; an nn.GRUCell has weight_ih, weight_hh, bias_ih and \
         bias_hh",
    ),
];
