//! Other recurrent layers next to GRUs, and the errors that name them.

use super::*;
use burn::{
    module::{Module, Param},
    nn::{
        Linear, LinearConfig,
        gru::{Gru, GruConfig},
    },
    store::{ModuleSnapshot, bridge},
};

pub fn trials() -> impl Iterator<Item = Trial> {
    let checks: [(&str, Check); 9] = [
        ("others/pytorch", of_pytorch),
        ("others/pytorch-model", model_of_pytorch),
        ("others/own-names", own_names),
        ("others/burn", of_burn),
        ("others/burn-directions", directions_of_burn),
        ("others/keras", of_keras),
        ("others/suggestions", suggestions),
        ("others/missing-layers", missing_layers),
        ("others/variables", variables),
    ];
    checks.into_iter().map(check)
}

fn keys(dict: &StateDict) -> Vec<String> {
    dict.keys().map(String::from).collect()
}

/// A layer of PyTorch with G gates, in one layer or as a cell.
fn layer(dict: &mut StateDict, prefix: &str, suffix: &str, gates: usize, h: usize, outputs: usize) {
    for (name, inputs) in [("weight_ih", I), ("weight_hh", outputs)] {
        dict.insert(
            format!("{prefix}{name}{suffix}"),
            zeros([gates * h, inputs]),
        );
    }
    for name in ["bias_ih", "bias_hh"] {
        dict.insert(format!("{prefix}{name}{suffix}"), zeros([gates * h]));
    }
}

/// `nn.LSTM`, `nn.RNN`, their cells and an LSTM with a projection stay as they are, and are named if asked for.
fn of_pytorch() -> Result<(), String> {
    for (suffix, gates, outputs, what) in [
        ("_l0", 4, 6, "an LSTM: four gates"),
        ("_l0", 1, 6, "an RNN: one gate"),
        ("", 4, 6, "an LSTM: four gates"),
        ("", 1, 6, "an RNN: one gate"),
        ("_l0", 4, 3, "an LSTM: four gates"),
        ("_l0", 2, 6, "another cell: not three gates"),
    ] {
        let mut other = StateDict::new();
        layer(&mut other, "other.", suffix, gates, 6, outputs);
        if outputs < 6 {
            other.insert("other.weight_hr_l0", zeros([outputs, 6]));
        }
        let mut dict = pytorch::export(&block(config()), "gru.").map_err(text)?;
        dict.extend(other.clone());
        let error = pytorch::config(&dict, "other.");
        runs::fails(error, &format!("expected a GRU, got {what}"))?;
        runs::fails(pytorch::config(&dict, ""), "there are \"gru.\"")?;
        runs::fails(
            pytorch::config(&other, ""),
            &format!("there are \"other.\", {what}"),
        )?;
        let dict = pytorch::blocks(dict, &device()).map_err(text)?;
        let names = ["b_hh", "b_ih", "w_hh", "w_ih"];
        let mut expected: Vec<_> = names.map(|name| format!("gru.layers.0.{name}")).into();
        expected.extend(keys(&other));
        runs::expect(what, keys(&dict), expected)?;
        for key in other.keys() {
            runs::expect(key, dict.get(key), other.get(key))?;
        }
    }
    Ok(())
}

#[derive(Module, Debug)]
struct Lstm {
    weight_ih_l0: Param<Tensor<2>>,
    weight_hh_l0: Param<Tensor<2>>,
    bias_ih_l0: Param<Tensor<1>>,
    bias_hh_l0: Param<Tensor<1>>,
}

#[derive(Module, Debug)]
struct Both<M: Module> {
    gru: GruBlock,
    other: M,
}

/// A model may hold the arrays of another layer, even in the shapes of a GRU.
fn model_of_pytorch() -> Result<(), String> {
    for gates in [3, 4] {
        let mut dict = pytorch::export(&block(config()), "gru.").map_err(text)?;
        layer(&mut dict, "other.", "_l0", gates, 6, 6);
        dict.insert("other.weight_hh_l0", random([gates * 6, 6]).into_data());
        let weight = |inputs| Param::from_tensor(random([gates * 6, inputs]));
        let bias = || Param::from_tensor(random([gates * 6]));
        let other = Lstm {
            weight_ih_l0: weight(I),
            weight_hh_l0: weight(6),
            bias_ih_l0: bias(),
            bias_hh_l0: bias(),
        };
        let gru = config().init(&device());
        let model = pytorch::load(dict.clone(), Both { gru, other }).map_err(text)?;
        let got = model.other.weight_hh_l0.val().into_data();
        runs::expect("weight_hh_l0", Some(&got), dict.get("other.weight_hh_l0"))?;
    }
    let mut dict = pytorch::export(&block(config()), "").map_err(text)?;
    layer(&mut dict, "other.", "_l0", 4, 6, 6);
    let expected = "other.weight_ih_l0: expected a parameter of the model of this name, got none, of an LSTM: four \
                    gates; StateDict::retain drops arrays that are not used";
    runs::fails(
        pytorch::load(dict.clone(), config().init(&device())),
        expected,
    )?;
    dict.retain(|name| !name.starts_with("other."));
    pytorch::load(dict, config().init(&device()))
        .map(|_| ())
        .map_err(text)
}

/// Parameters whose names only begin as a GRU's, and a cell with GRU's names and other shapes.
fn own_names() -> Result<(), String> {
    let gru = pytorch::export(&block(config()), "a.").map_err(text)?;
    let own: [(&str, &[usize]); 9] = [
        ("a.bias_hh_gate", &[3]),
        ("a.h0", &[5]),
        ("b.bias_hh_gate", &[3]),
        ("b.weight_ih_scale", &[3]),
        ("c.weight_hh", &[4, 6]),
        ("c.weight_ih", &[4, 6]),
        ("d.bias_hh", &[6]),
        ("d.weight_hh_l0", &[6, 6, 2]),
        ("e.weight_ih_l0", &[18, 2]),
    ];
    let mut dict = gru.clone();
    for (name, shape) in own {
        dict.insert(name, TensorData::zeros::<f32, _>(shape.to_vec()));
    }
    let all = pytorch::blocks(dict, &device()).map_err(text)?;
    let own = own.map(|(name, _)| name.to_owned());
    let left: Vec<_> = keys(&all)
        .into_iter()
        .filter(|key| !key.starts_with("a.layers."))
        .collect();
    runs::expect("own arrays", left, own.into())
}

#[derive(Module, Debug)]
struct Cell {
    update_gate: Linear,
    reset_gate: Linear,
    new_gate: Linear,
}

#[derive(Module, Debug)]
struct Directions<G: Module> {
    forward: G,
    reverse: G,
}

fn record(module: &impl Module) -> Result<StateDict, String> {
    let mut dict = StateDict::new();
    for tensor in module.collect(None, None, false) {
        dict.insert(&tensor.name, bridge::to_data(&tensor).map_err(text)?);
    }
    Ok(dict)
}

/// A cell of the user with the gates of a `Gru`, and Burn's other layers.
fn of_burn() -> Result<(), String> {
    #[derive(Module, Debug)]
    struct Model<G: Module> {
        cell: Cell,
        gru: G,
        lstm: burn::nn::Lstm,
    }
    let linear = || LinearConfig::new(I, H).init(&device());
    let cell = || Cell {
        update_gate: linear(),
        reset_gate: linear(),
        new_gate: linear(),
    };
    let lstm = || burn::nn::LstmConfig::new(I, H, true).init(&device());
    let gru = GruConfig::new(I, H, true).init(&device());
    let old = Model {
        cell: cell(),
        gru,
        lstm: lstm(),
    };
    let dict = record(&old)?;
    runs::fails(
        burns::config(&dict, "lstm."),
        "expected a GRU, got an LSTM: four gates",
    )?;
    runs::fails(burns::config(&dict, ""), "there are \"gru.\"")?;
    let gru = config().init(&device());
    let new = Model {
        cell: cell(),
        gru,
        lstm: lstm(),
    };
    let new = burns::load(dict, new).map_err(text)?;
    let weight = |cell: &Cell| cell.new_gate.weight.val().into_data();
    runs::expect("new_gate", weight(&new.cell), weight(&old.cell))
}

/// Two modules in the fields of a `BiGru`: of different H, and of equal shapes in a model that has both.
fn directions_of_burn() -> Result<(), String> {
    for h in [H, H + 1] {
        let gru = |h| -> Gru { GruConfig::new(I, h, true).init(&device()) };
        let old = Directions {
            forward: gru(H),
            reverse: gru(h),
        };
        let new = |h| GruBlockConfig::new(I, h).init(&device());
        let new = Directions {
            forward: new(H),
            reverse: new(h),
        };
        let new = burns::load(record(&old)?, new).map_err(text)?;
        let x = random([2, 4, I]);
        let expected = values(old.reverse.forward(x.clone(), None));
        let got = values(output(&new.reverse, &x));
        close("reverse", &got, &expected, Tolerance::F32.forward)?;
    }
    Ok(())
}

/// A layer of a file of Keras 3 with G gates.
fn keras_layer(dict: &mut StateDict, group: &str, gates: usize, h: usize) {
    dict.insert(format!("{group}vars/0"), random([I, gates * h]).into_data());
    dict.insert(format!("{group}vars/1"), random([h, gates * h]).into_data());
    let bias = if gates == 3 {
        vec![2, 3 * h]
    } else {
        vec![gates * h]
    };
    dict.insert(format!("{group}vars/2"), TensorData::zeros::<f32, _>(bias));
}

fn model_of_keras() -> StateDict {
    let mut dict = StateDict::new();
    for (group, gates, h) in [
        ("layers/gru/cell/", 3, 5),
        ("layers/gru_cell/", 3, 4),
        ("layers/gru_cell_1/", 3, 4),
        ("layers/rnn/cell/cells/gru_cell/", 3, 4),
        ("layers/rnn/cell/cells/gru_cell_1/", 3, 6),
        ("layers/bidirectional/forward_layer/cell/", 3, 5),
        ("layers/bidirectional/backward_layer/cell/", 3, 5),
        (
            "layers/bidirectional_1/forward_layer/cell/cells/gru_cell/",
            3,
            5,
        ),
        (
            "layers/bidirectional_1/forward_layer/cell/cells/gru_cell_1/",
            3,
            5,
        ),
        (
            "layers/bidirectional_1/backward_layer/cell/cells/gru_cell/",
            3,
            5,
        ),
        (
            "layers/bidirectional_1/backward_layer/cell/cells/gru_cell_1/",
            3,
            5,
        ),
        ("layers/lstm/cell/", 4, 5),
        ("layers/simple_rnn/cell/", 1, 5),
        ("layers/bidirectional_2/forward_layer/cell/", 4, 5),
        ("layers/bidirectional_2/backward_layer/cell/", 4, 5),
    ] {
        keras_layer(&mut dict, group, gates, h);
    }
    dict.insert("layers/dense/vars/0", zeros([5, 15]));
    dict.insert("layers/dense/vars/1", zeros([15]));
    dict
}

fn of_keras() -> Result<(), String> {
    let dict = model_of_keras();
    for (prefix, what) in [
        ("layers/lstm/", "an LSTM: four gates"),
        ("layers/simple_rnn/", "an RNN: one gate"),
        ("layers/bidirectional_2/", "an LSTM: four gates"),
    ] {
        runs::fails(
            keras::config(&dict, prefix),
            &format!("expected a GRU, got {what}"),
        )?;
    }
    Ok(())
}

/// Each prefix that an error lists can be imported.
fn suggestions() -> Result<(), String> {
    let mut dict = model_of_keras();
    let mut found = Vec::new();
    // An error lists three.
    loop {
        let Err(error) = keras::config(&dict, "none/") else {
            return Err("expected an error".into());
        };
        let error = error.to_string();
        let listed = error.split("got ").nth(1).unwrap_or_default();
        let prefixes: Vec<_> = listed.split('"').skip(1).step_by(2).collect();
        if prefixes.is_empty() || listed.contains(", an ") {
            break;
        }
        for prefix in prefixes {
            let config = keras::config(&dict, prefix).map_err(text)?;
            keras::import(&dict, prefix, &config, &device()).map_err(text)?;
            dict.retain(|name| !name.starts_with(prefix));
            found.push(prefix.to_owned());
        }
    }
    let expected = [
        "bidirectional/",
        "bidirectional_1/backward_layer/cell/cells/gru_cell/",
        "bidirectional_1/backward_layer/cell/cells/gru_cell_1/",
        "bidirectional_1/forward_layer/cell/cells/gru_cell/",
        "bidirectional_1/forward_layer/cell/cells/gru_cell_1/",
        "gru/",
        "gru_cell/",
        "gru_cell_1/",
        "rnn/cell/cells/gru_cell/",
        "rnn/cell/cells/gru_cell_1/",
    ];
    runs::expect(
        "prefixes",
        found,
        expected.map(|one| format!("layers/{one}")).into(),
    )?;
    // The prefix of another system is not one of this system.
    let error = pytorch::config(&model_of_keras(), "gru.");
    runs::fails(error, "and 7 more for gru_convert::keras")
}

/// One of several shards, and a gap.
fn missing_layers() -> Result<(), String> {
    let deep = config().with_num_layers(3).with_bidirectional(true);
    let all = pytorch::export(&block(deep), "gru.").map_err(text)?;
    for (lost, missing) in [("_l0", 0), ("_l1", 1)] {
        let mut dict = all.clone();
        dict.retain(|name| !name.contains(lost));
        let expected =
            format!("gru.weight_ih_l{missing}: expected a tensor of this name, got none");
        runs::fails(pytorch::config(&dict, "gru."), &expected)?;
        runs::fails(pytorch::blocks(dict, &device()), &expected)?;
    }
    Ok(())
}

/// Names of variables end with `:0`, and an optimizer adds slots.
fn variables() -> Result<(), String> {
    let before = block_with(&config().with_reset(Reset::BeforeMatmul), "input");
    let dict = tensorflow::export(&before, "cell/").map_err(text)?;
    let of_cell = [
        ("w_ru", "gates/kernel"),
        ("w_c", "candidate/kernel"),
        ("b_ru", "gates/bias"),
        ("b_c", "candidate/bias"),
    ];
    for names in [&of_cell[..0], &of_cell] {
        let renamed = |key: &str, (from, to): &(&str, &str)| key.replace(from, to);
        let dict = dict.clone().renamed(|key| {
            let name = names
                .iter()
                .fold(key.to_owned(), |key, pair| renamed(&key, pair));
            format!("{name}:0")
        });
        let mut dict = dict.map_err(text)?;
        let config = tensorflow::config(&dict, "cell/").map_err(text)?;
        let read = tensorflow::import(&dict, "cell/", &config, &device()).map_err(text)?;
        alike("variables", &read, &before)?;
        dict.insert("cell/gates/kernel/Adam:0", zeros([1]));
        let error = tensorflow::config(&dict, "cell/");
        runs::fails(error, "cell/gates/kernel/Adam:0: not expected; ")?;
        runs::fails(
            tensorflow::config(&dict, "cell/"),
            "; StateDict::retain drops others",
        )?;
        dict.retain(|name| !name.contains("/Adam"));
        runs::fails(tensorflow::config(&dict, ""), "there are \"cell/\"")?;
    }
    Ok(())
}
