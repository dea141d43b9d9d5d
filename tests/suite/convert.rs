//! Weights out and in again, and every way in which they can be wrong.

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use gru_op::{
    Activation, Activations, GruBlock, GruBlockConfig, GruWeights, Reset, Update,
    convert::{
        ConvertError, GateOrder, StateDict, cudnn, keras, onednn, onnx, pytorch, tensorflow,
    },
};
use libtest_mimic::Trial;

use super::{conformance::numbers, runs};

const I: usize = 3;
const H: usize = 5;

pub fn trials() -> Vec<Trial> {
    type Check = fn() -> Result<(), String>;
    let checks: Vec<(&str, Check)> = vec![
        ("pytorch-cell", || {
            again(true, |w| {
                let dict = pytorch::export_cell(w, "a.")?;
                pytorch::import_cell(&dict, "a.", &device())
            })
        }),
        ("cudnn", || {
            again(true, |w| {
                cudnn::import(&cudnn::export(w, "a.")?, "a.", &device())
            })
        }),
        ("keras-after", || keras_again(Reset::AfterMatmul)),
        ("keras-before", || keras_again(Reset::BeforeMatmul)),
        ("tensorflow", || {
            again(false, |w| {
                tensorflow::import(&tensorflow::export(w, "a.")?, "a.", &device())
            })
        }),
        ("onednn-lbr", || onednn_again(Reset::AfterMatmul)),
        ("onednn-vanilla", || onednn_again(Reset::BeforeMatmul)),
        ("no-biases", no_biases),
        ("gate-order", gate_order),
        ("onednn-layout", onednn_layout),
        ("cudnn-layout", cudnn_layout),
    ];
    let checks = checks
        .into_iter()
        .map(|(name, check)| Trial::test(format!("convert/{name}"), move || Ok(check()?)));
    let errors = wrong().into_iter().map(|(name, run, says)| {
        Trial::test(format!("convert/wrong/{name}"), move || match run() {
            Ok(()) => Err("expected an error".into()),
            Err(error) if error.to_string() == says => Ok(()),
            Err(error) => Err(format!("got \"{error}\", expected \"{says}\"").into()),
        })
    });
    checks.chain(errors).collect()
}

fn device() -> Device {
    Device::flex()
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device())
}

/// Weights with both biases, or with that of the input alone.
fn weights(both: bool) -> GruWeights {
    GruWeights {
        w_ih: Some(random([I, 3 * H])),
        w_hh: random([H, 3 * H]),
        b_ih: Some(random([3 * H])),
        b_hh: both.then(|| random([3 * H])),
    }
}

fn same(got: &GruWeights, expected: &GruWeights) -> Result<(), String> {
    fn check<const D: usize>(
        name: &str,
        got: &Option<Tensor<D>>,
        expected: &Option<Tensor<D>>,
    ) -> Result<(), String> {
        let data = |tensor: &Option<Tensor<D>>| tensor.clone().map(Tensor::into_data);
        let (got, expected) = (data(got), data(expected));
        match got == expected {
            true => Ok(()),
            false => Err(format!("{name}: {got:?}, expected {expected:?}")),
        }
    }
    check("w_ih", &got.w_ih, &expected.w_ih)?;
    check(
        "w_hh",
        &Some(got.w_hh.clone()),
        &Some(expected.w_hh.clone()),
    )?;
    check("b_ih", &got.b_ih, &expected.b_ih)?;
    check("b_hh", &got.b_hh, &expected.b_hh)
}

fn again(
    both: bool,
    through: impl Fn(&GruWeights) -> Result<GruWeights, ConvertError>,
) -> Result<(), String> {
    let weights = weights(both);
    same(&through(&weights).map_err(|e| e.to_string())?, &weights)
}

fn keras_again(reset: Reset) -> Result<(), String> {
    again(reset == Reset::AfterMatmul, |w| {
        keras::import(&keras::export(w, "a/", reset)?, "a/", reset, &device())
    })
}

/// Two layers of two directions, where I = H as oneDNN asks. LBR has the recurrent bias of the
/// candidate alone.
fn onednn_again(reset: Reset) -> Result<(), String> {
    let all: Vec<GruWeights> = (0..4)
        .map(|_| GruWeights {
            w_ih: Some(random([H, 3 * H])),
            w_hh: random([H, 3 * H]),
            b_ih: Some(random([3 * H])),
            b_hh: (reset == Reset::AfterMatmul).then(|| random([H])),
        })
        .collect();
    let dict = onednn::export(&all, "", 2, reset).map_err(|e| e.to_string())?;
    let read = onednn::import(&dict, "", reset, &device()).map_err(|e| e.to_string())?;
    if read.len() != all.len() {
        return Err(format!("{} weights, expected {}", read.len(), all.len()));
    }
    read.iter().zip(&all).try_for_each(|(got, w)| same(got, w))
}

/// Systems that can do without biases do.
fn no_biases() -> Result<(), String> {
    let text = |e: ConvertError| e.to_string();
    let none = GruWeights {
        b_ih: None,
        b_hh: None,
        ..weights(true)
    };
    let through_keras = keras::export(&none, "", Reset::AfterMatmul)
        .and_then(|dict| keras::import(&dict, "", Reset::AfterMatmul, &device()));
    same(&through_keras.map_err(text)?, &none)?;
    let through_torch =
        pytorch::export_cell(&none, "").and_then(|dict| pytorch::import_cell(&dict, "", &device()));
    same(&through_torch.map_err(text)?, &none)?;
    let through_cudnn = cudnn::export(&none, "").and_then(|d| cudnn::import(&d, "", &device()));
    same(&through_cudnn.map_err(text)?, &none)
}

fn gate_order() -> Result<(), String> {
    let gates = |order: GateOrder, sets| {
        let numbers: Vec<f32> = (0..12).map(|k| k as f32).collect();
        let tensor = Tensor::<1>::from_data(TensorData::new(numbers, [12]), &device());
        runs::values(order.reorder(tensor, 0, sets))
    };
    let one = [4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11].map(f64::from);
    let two = [2, 3, 0, 1, 4, 5, 8, 9, 6, 7, 10, 11].map(f64::from);
    let kept: Vec<f64> = (0..12).map(f64::from).collect();
    if gates(GateOrder::UpdateFirst, 1) != one || gates(GateOrder::UpdateFirst, 2) != two {
        return Err("update first".into());
    }
    match gates(GateOrder::ResetFirst, 2) == kept {
        true => Ok(()),
        false => Err("reset first".into()),
    }
}

/// One number of each gate, where oneDNN's page puts it: `ldigo`, gates u, r, o, and u, r, o and
/// the candidate's recurrent bias.
fn onednn_layout() -> Result<(), String> {
    let w = weights(true);
    let dict = onednn::export(std::slice::from_ref(&w), "", 1, Reset::AfterMatmul);
    let dict = numbers(&dict.map_err(|e| e.to_string())?);
    let w_ih = runs::values(w.w_ih.expect("it is there"));
    let (b_ih, b_hh) = (w.b_ih.expect("it is there"), w.b_hh.expect("it is there"));
    let (b_ih, b_hh) = (runs::values(b_ih), runs::values(b_hh));
    let (i, unit) = (2, 3);
    // r, z, n here; u, r, o there.
    for (here, there) in [(0, 1), (1, 0), (2, 2)] {
        let got = dict["weights_layer"][(i * 3 + there) * H + unit];
        let expected = w_ih[i * 3 * H + here * H + unit];
        if got != expected {
            return Err(format!(
                "weights_layer, gate {there}: {got}, expected {expected}"
            ));
        }
        let got = dict["bias"][there * H + unit];
        let own = f64::from(b_hh[here * H + unit] as f32);
        let sum = f64::from((b_ih[here * H + unit] + own) as f32);
        let expected = if here == 2 {
            b_ih[here * H + unit]
        } else {
            sum
        };
        if (got - expected).abs() > 1e-6 {
            return Err(format!("bias, gate {there}: {got}, expected {expected}"));
        }
    }
    match dict["bias"][3 * H + unit] == b_hh[2 * H + unit] {
        true => Ok(()),
        false => Err("the fourth bias is not the candidate's recurrent one".into()),
    }
}

/// `linLayerID` 0 and 3 are the reset gate, 1 and 4 the update gate, 2 and 5 the candidate;
/// matrices have a row for each unit.
fn cudnn_layout() -> Result<(), String> {
    let w = weights(true);
    let dict = numbers(&cudnn::export(&w, "").map_err(|e| e.to_string())?);
    let w_hh = runs::values(w.w_hh);
    let (row, unit) = (4, 1);
    for gate in 0..3 {
        let got = dict[&format!("w{}", gate + 3)][unit * H + row];
        let expected = w_hh[row * 3 * H + gate * H + unit];
        if got != expected {
            return Err(format!("w{}: {got}, expected {expected}", gate + 3));
        }
    }
    Ok(())
}

type Wrong = (&'static str, fn() -> Result<(), ConvertError>, &'static str);

fn zeros<const D: usize>(shape: [usize; D]) -> TensorData {
    TensorData::zeros::<f32, _>(shape)
}

/// An `nn.GRU(3, 5)` of zeros, changed.
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

/// A bidirectional node of zeros with other attributes.
fn node(change: impl FnOnce(&mut onnx::Attributes, &mut StateDict)) -> Result<(), ConvertError> {
    let mut dict = StateDict::new();
    dict.insert("W", zeros([1, 3 * H, I]));
    dict.insert("R", zeros([1, 3 * H, H]));
    let mut attributes = onnx::Attributes::default();
    change(&mut attributes, &mut dict);
    let config = onnx::config(&attributes, &dict, "")?;
    onnx::import(&dict, "", &config, &device())?;
    Ok(())
}

fn block(config: GruBlockConfig) -> GruBlock {
    config.init(&device())
}

fn config() -> GruBlockConfig {
    GruBlockConfig::new(I, H)
}

fn wrong() -> Vec<Wrong> {
    vec![
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
            "weight_hh_l0: expected 2 dimensions, got shape [15]",
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
            "empty",
            || pytorch::config(&StateDict::new(), "gru.").map(|_| ()),
            "gru.weight_ih_l0: expected a tensor of this name, got none",
        ),
        (
            "other-config",
            || {
                let gru = pytorch::export(&block(config()), "")?;
                let other = GruBlockConfig::new(I, H + 1);
                pytorch::import(&gru, "", &other, &device()).map(|_| ())
            },
            "d_hidden: expected 6, got 5",
        ),
        (
            "torch-before",
            || {
                let gru = block(config().with_reset(Reset::BeforeMatmul));
                pytorch::export(&gru, "").map(|_| ())
            },
            "PyTorch cannot express BeforeMatmul",
        ),
        (
            "torch-takes",
            || {
                let gru = block(config().with_update(Update::Takes));
                pytorch::export(&gru, "").map(|_| ())
            },
            "PyTorch cannot express Update::Takes",
        ),
        (
            "torch-reverse",
            || pytorch::export(&block(config().with_reverse(true)), "").map(|_| ()),
            "PyTorch cannot express a layer in reverse only",
        ),
        (
            "torch-zoneout",
            || pytorch::export(&block(config().with_zoneout(0.1)), "").map(|_| ()),
            "PyTorch cannot express zoneout",
        ),
        (
            "cell-key",
            || {
                let mut dict = pytorch::export_cell(&weights(true), "")?;
                dict.insert("weight_ih_l0", zeros([1]));
                pytorch::import_cell(&dict, "", &device()).map(|_| ())
            },
            "weight_ih_l0: not expected; an nn.GRUCell has weight_ih, weight_hh, bias_ih and \
             bias_hh",
        ),
        (
            "unexpected-elsewhere",
            || {
                let mut dict = cudnn::export(&weights(true), "gru.")?;
                dict.insert("other.w9", zeros([1]));
                cudnn::import(&dict, "gru.", &device())?;
                dict.insert("gru.w6", zeros([1]));
                cudnn::import(&dict, "gru.", &device()).map(|_| ())
            },
            "gru.w6: not expected; a pseudo-layer has w0 to w5 and b0 to b5",
        ),
        (
            "onnx-unexpected",
            || node(|_, d| d.insert("P", zeros([1]))),
            "P: not expected; a GRU has W, R and B",
        ),
        (
            "keras-bias",
            || {
                let dict = keras::export(&weights(true), "", Reset::AfterMatmul)?;
                keras::import(&dict, "", Reset::BeforeMatmul, &device()).map(|_| ())
            },
            "bias: expected 1 dimensions, got shape [2, 15]",
        ),
        (
            "keras-activation",
            || keras::activations("mish", "sigmoid").map(|_| ()),
            "candidate gate: activation mish is not supported",
        ),
        (
            "onnx-direction",
            || node(|a, _| a.direction = "backward".into()),
            "direction: expected forward, reverse or bidirectional, got backward",
        ),
        (
            "onnx-layout",
            || node(|a, _| a.layout = 2),
            "layout: expected 0 or 1, got 2",
        ),
        (
            "onnx-hidden-size",
            || node(|a, _| a.hidden_size = Some(7)),
            "hidden_size: expected 5, got 7",
        ),
        (
            "onnx-activations",
            || node(|a, _| a.activations = vec!["Sigmoid".into()]),
            "activations: expected 2, got 1",
        ),
        (
            "onnx-affine",
            || node(|a, _| a.activations = vec!["Affine".into(), "Tanh".into()]),
            "activation_alpha: expected a value for Affine, got none",
        ),
        (
            "onnx-alpha",
            || node(|a, _| a.activation_alpha = vec![0.5]),
            "activation_alpha: expected 0, got 1",
        ),
        (
            "onnx-slope",
            || {
                node(|a, _| {
                    a.activations = vec!["Sigmoid".into(), "LeakyRelu".into()];
                    a.activation_alpha = vec![-1.0];
                })
            },
            "activations: expected parameters that this crate has kernels for, got GruSpec: \
             candidate activation LeakyRelu { alpha: -1.0 }: alpha must be finite and not negative",
        ),
        (
            "onnx-clip",
            || node(|a, _| a.clip = Some(-1.0)),
            "clip: expected a positive number, got Some(-1.0)",
        ),
        (
            "onnx-directions",
            || node(|a, _| a.direction = "bidirectional".into()),
            "W: expected shape [2, 15, 3], got [1, 15, 3]",
        ),
        (
            "onnx-gates",
            || {
                let activations = Activations {
                    reset: Activation::Tanh,
                    ..Default::default()
                };
                let gru = block(config().with_activations(activations));
                onnx::export(&gru, "").map(|_| ())
            },
            "ONNX cannot express different activations of the reset and the update gate",
        ),
        (
            "onnx-layers",
            || onnx::export(&block(config().with_num_layers(2)), "").map(|_| ()),
            "ONNX cannot express several layers in one node",
        ),
        (
            "tensorflow-rows",
            || {
                let mut dict = StateDict::new();
                dict.insert("w_ru", zeros([H - 1, 2 * H]));
                dict.insert("w_c", zeros([H - 1, H]));
                dict.insert("b_ru", zeros([2 * H]));
                dict.insert("b_c", zeros([H]));
                tensorflow::import(&dict, "", &device()).map(|_| ())
            },
            "w_c: expected shape [5, 5], got [4, 5]",
        ),
        (
            "onednn-count",
            || onednn::export(&[weights(true)], "", 2, Reset::AfterMatmul).map(|_| ()),
            "weights of layers times directions: expected 2, got 1",
        ),
        (
            "projected",
            || {
                let projected = GruWeights {
                    w_ih: None,
                    ..weights(true)
                };
                cudnn::export(&projected, "").map(|_| ())
            },
            "cuDNN cannot express a GRU without w_ih",
        ),
        (
            "init-with",
            || {
                let narrow = GruWeights {
                    w_ih: Some(random([I + 1, 3 * H])),
                    ..weights(true)
                };
                config().init_with(vec![narrow]).map(|_| ())
            },
            "layers.0.w_ih: expected shape [3, 15], got [4, 15]",
        ),
        (
            "integers-out",
            || {
                let mut dict = StateDict::new();
                dict.insert("steps", TensorData::zeros::<i32, _>([1]));
                dict.to_safetensors(runs::scratch_file("integers.safetensors"))
            },
            "steps: expected floating-point numbers, got I32",
        ),
        (
            "no-file",
            || match StateDict::from_safetensors("/no/such/file.safetensors") {
                // What the system says of it is its own.
                Err(ConvertError::File { path, .. }) => Err(ConvertError::MissingKey { key: path }),
                other => other.map(|_| ()),
            },
            "/no/such/file.safetensors: expected a tensor of this name, got none",
        ),
        (
            "no-pytorch-file",
            || {
                let path = runs::scratch_file("not-a.pt");
                std::fs::write(&path, b"not a zip, not a pickle").expect("the file can be written");
                let result = StateDict::from_pytorch(&path);
                std::fs::remove_file(&path).expect("it was just written");
                match result {
                    Err(ConvertError::File { .. }) => Err(ConvertError::MissingKey {
                        key: "not-a.pt".into(),
                    }),
                    other => other.map(|_| ()),
                }
            },
            "not-a.pt: expected a tensor of this name, got none",
        ),
    ]
}
