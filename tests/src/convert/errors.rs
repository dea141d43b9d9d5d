//! Every kind of error of the converters, with its text.

use super::*;
use burn::{module::Param, tensor::DType};

/// A system, its biases and options, and what is changed: an array, by its name, its shape and its type unless it is
/// float32, or options of the configuration. The last column is the error.
const CHANGES: &str = r"
pytorch both | weight_ih_l1 15x5 | weight_hh_l1: expected a tensor of this name, got none
pytorch both | weight_hr_l0 3x5 | weight_hr_l0: not expected; {pytorch}
pytorch both | weight_ih_l99999999999 1 | weight_ih_l1: expected a tensor of this name, got none
pytorch both | weight_ih_l01 15x5 | weight_ih_l01: not expected; {pytorch}
pytorch both | weight_ih_l99999999999999999999 1 | weight_ih_l99999999999999999999: not expected; {pytorch}
pytorch both | parametrizations.weight_ih_l0.0._v 15 | parametrizations.weight_ih_l0.0._v: not expected; {pytorch}
pytorch both | bias_hh_l0 16 | bias_hh_l0: expected shape [15], got [16]
pytorch both | weight_hh_l0 15 | weight_hh_l0: expected a tensor of rank 2, got shape [15]
pytorch both | weight_hh_l0 15x0 | weight_hh_l0: expected numbers, got shape [15, 0]
pytorch both | weight_hh_l0 0x4611686018427387904 | weight_hh_l0: expected numbers, got shape [0, 4611686018427387904]
pytorch both | bias_ih_l0 15 i32 | bias_ih_l0: expected floating-point numbers, got I32
pytorch both | weight_hh_l0 20x5 | weight_hh_l0: expected shape [15, 5], got [20, 5]; expected a GRU, got an LSTM: four gates
pytorch both | d_hidden=6 | d_hidden of the configuration: expected 5, as the imported GRU has it, got 6
pytorch both | d_input=4 | d_input of the configuration: expected 3, as the imported GRU has it, got 4
pytorch both | num_layers=2 | num_layers of the configuration: expected 1, as the imported GRU has it, got 2
pytorch both | bidirectional=true | bidirectional of the configuration: expected false, as the imported GRU has it, got true
pytorch both | bias=false | bias of the configuration: expected true, as the imported GRU has it, got false
pytorch both | dropout=1.5 | GruBlockConfig: dropout must be a probability, expected 0 to below 1, got 1.5
pytorch both | spec.reset=BeforeMatmul | PyTorch cannot express Reset::BeforeMatmul
pytorch both | spec.clip_gates=2.0 | PyTorch cannot express clip_gates 2
pytorch both | reverse=true | PyTorch cannot express a layer in reverse only
burn both | new_gate.bias 5 | new_gate.bias: not expected; {burn}
burn none | new_gate.input_transform.bias 5 | reset_gate.input_transform.bias: expected a tensor of this name, got none
burn both bidirectional=true | reverse.new_gate.hidden_transform.weight 4x5 | reverse.new_gate.hidden_transform.weight: expected shape [5, 5], got [4, 5]
burn both | num_layers=2 | num_layers of the configuration: expected 1, as the imported GRU has it, got 2
keras both | spec.reset=BeforeMatmul | reset of the configuration: expected AfterMatmul, as the imported GRU has it, got BeforeMatmul
keras both | bias 1x2x15 | bias: expected [3H], or [2, 3H] with reset_after, got shape [1, 2, 15]
keras both | scale 5 | scale: not expected; {keras}
keras both | 0 5 | bias: not expected; {keras}
keras none bidirectional=true | backward_layer/bias 2x15 | forward_layer/bias: expected a tensor of this name, got none
tensorflow both spec.reset=BeforeMatmul | w_c 5x5 | w_c: expected [I+H, H] with I above 0, got shape [5, 5]
cudnn none | b3 5 | b4: expected a tensor of this name, got none
onednn both | weights_layer 2x2x5x3x5 | weights_layer: expected [L, 1, H, 3, H] of several layers, got shape [2, 2, 5, 3, 5]
onednn both | weights_layer 1x3x3x3x5 | weights_layer: expected [L, 1 or 2, I, 3, H], got shape [1, 3, 3, 3, 5]
onednn both | bias 1x1x5x5 | bias: expected [L, D, 3, H] or [L, D, 4, H], got shape [1, 1, 5, 5]
onednn both | weights_iter 1x1x5x4x5 | weights_iter: expected shape [1, 1, 5, 3, 5], got [1, 1, 5, 4, 5]
mps_graph both | recurrentWeight 2x15x5 | recurrentWeight: expected [3H, H], as the descriptor is not bidirectional, got shape [2, 15, 5]
mps_graph both | spec.update=Takes | update of the configuration: expected Keeps, as the imported GRU has it, got Takes
mps_graph none | spec.reset=BeforeMatmul | reset of the configuration: expected AfterMatmul, as the imported GRU has it, got BeforeMatmul
mps_graph both | reverse=true | reverse of the configuration: expected false, as the imported GRU has it, got true
onnx both | P 1 | P: not expected; a GRU has W, R and B
";

const TORCH_NAMES: &str = "an nn.GRU has weight_ih_l{k}, weight_hh_l{k}, bias_ih_l{k}, bias_hh_l{k}, each also with \
                           _reverse; StateDict::retain drops others";
const BURN_NAMES: &str = "a Gru has reset_gate, update_gate and new_gate, each with input_transform and \
                          hidden_transform, each with weight and bias, a BiGru has them under forward. and reverse.; StateDict::retain \
                          drops others";
const KERAS_NAMES: &str = "a GRU has kernel, recurrent_kernel and bias, or 0, 1 and 2, a Bidirectional has them \
                           under forward_… and backward_…; StateDict::retain drops others";

type ErrorCase = (fn() -> Result<(), ConvertError>, &'static str);

/// Changes the attributes of a node.
fn onnx_with(change: impl FnOnce(&mut onnx::Attributes)) -> Result<(), ConvertError> {
    let (dict, mut attributes) = onnx::export(&block(config()), "")?;
    change(&mut attributes);
    onnx::config(&dict, "", &attributes).map(|_| ())
}

/// Changes the fields of a block.
fn pytorch_of(change: impl FnOnce(&mut GruBlock)) -> Result<(), ConvertError> {
    let mut block = block(GruBlockConfig::new(H, H).with_num_layers(2));
    change(&mut block);
    pytorch::export(&block, "").map(|_| ())
}

/// Two layers of Keras with these prefixes.
fn keras_of(prefixes: [&str; 2]) -> Result<(), ConvertError> {
    let [mut dict, other] =
        prefixes.map(|prefix| keras::export(&block(config()), prefix).expect(prefix));
    dict.extend(other);
    keras::config(&dict, "").map(|_| ())
}

/// Arrays with these names.
fn names(names: &[&str]) -> StateDict {
    let mut dict = StateDict::new();
    for name in names {
        dict.insert(*name, zeros([1]));
    }
    dict
}

const CASES: &[ErrorCase] = &[
    (
        || pytorch::config(&names(&[]), "gru.").map(|_| ()),
        "expected tensors whose names start with \"gru.\", got none; {pytorch}",
    ),
    (
        || pytorch::config(&names(&["rnn.a", "rnn.b", "rnn.c", "rnn.d"]), "gru.").map(|_| ()),
        "expected tensors whose names start with \"gru.\", got \"rnn.a\", \"rnn.b\", \"rnn.c\" and 1 more; {pytorch}",
    ),
    (
        || {
            let mut dict = names(&["a.weight"]);
            dict.extend(pytorch::export(
                &block(config().with_num_layers(2)),
                "rnn.",
            )?);
            let cell = pytorch::export(&block(config()), "dec.")?;
            dict.extend(cell.renamed(|key| key.replace("_l0", ""))?);
            dict.extend(keras::export(&block(config()), "gru/")?);
            pytorch::config(&dict, "gru.").map(|_| ())
        },
        "expected tensors whose names start with \"gru.\", got \"dec.\", \"rnn.\"; {pytorch}",
    ),
    (
        || {
            let dict = keras::export(&block(config()), "gru/")?;
            pytorch::config(&dict, "gru.").map(|_| ())
        },
        "expected tensors whose names start with \"gru.\", got \"gru/\" for gru_convert::keras; {pytorch}",
    ),
    (
        || pytorch::config(&names(&["weight_hh", "weight_ih_l0"]), "").map(|_| ()),
        "weight_ih_l0: not expected; an nn.GRUCell has weight_ih, weight_hh, bias_ih and bias_hh; StateDict::retain drops \
         others",
    ),
    (
        || {
            let mut dict = pytorch::export(&block(config()), "rnn.")?;
            dict.insert("head.bias", zeros([1]));
            pytorch::config(&dict, "").map(|_| ())
        },
        "head.bias: not expected; {pytorch}; expected the prefix of a GRU, got \"\"; there are \"rnn.\"",
    ),
    (
        || {
            let dict = gru_convert::burn_nn::export(&block(config()), "a.")?;
            gru_convert::burn_nn::config(&dict, "a").map(|_| ())
        },
        "a.new_gate.hidden_transform.bias: not expected; {burn}; expected the prefix of a GRU, got \"a\"; there are \"a.\"",
    ),
    (
        || {
            let mut dict = pytorch::export(&block(config()), "")?;
            dict.insert("weight_hh_l0_v", zeros([15, 5]));
            dict.insert("weight_hh_l0_g", zeros([1, 5]));
            pytorch::config(&dict, "").map(|_| ())
        },
        "weight_hh_l0_g: expected [3H, 1], weight_norm with dim=0; no other dim is read, got shape [1, 5]",
    ),
    (
        || names(&["a", "b"]).renamed(|_| "weight".into()).map(|_| ()),
        "weight: expected one tensor of this name, got two",
    ),
    (
        || pytorch_of(|block| block.layers[1].direction = Direction::Reverse),
        "PyTorch cannot express layers.1.direction Reverse",
    ),
    (
        || pytorch_of(|block| block.layers.clear()),
        "weights of layers times directions: expected 2, got 0",
    ),
    (
        || pytorch_of(|block| block.d_hidden = H + 1),
        "layers.0.w_ih: expected shape [5, 18], got [5, 15]",
    ),
    (
        || {
            let both = config().with_bidirectional(true);
            let mut other = both.layer_options();
            other.spec.reset = Reset::BeforeMatmul;
            let options = vec![both.layer_options(), other];
            keras::export(&block(both.with_per_layer(options)), "").map(|_| ())
        },
        "Keras cannot express layers or directions of different GRUs",
    ),
    (
        || keras_of(["gru/gru_cell/", "gru_1/gru_cell/"]),
        "gru_1/gru_cell/recurrent_kernel: not expected; {keras}; expected the prefix of a GRU, got \"\"; there are \"gru/gru_cell/\", \"gru_1/gru_cell/\"",
    ),
    (
        || keras_of(["first/", "forward_gru/"]),
        "forward_gru/recurrent_kernel: not expected; {keras}; expected the prefix of a GRU, got \"\"; there are \"first/\", \"forward_gru/\"",
    ),
    (
        || {
            let [reset, other] = [Activation::Tanh, Activation::Sigmoid];
            keras::activation_names(&[reset, other, reset].into()).map(|_| ())
        },
        "Keras cannot express different activations of the reset and the update gate",
    ),
    (
        || {
            let (gate, candidate) = (Activation::Sigmoid, Activation::Elu { alpha: 0.5 });
            keras::activation_names(&[gate, gate, candidate].into()).map(|_| ())
        },
        "candidate gate: activation Elu { alpha: 0.5 } is not supported",
    ),
    (
        || keras::activations("mish", "sigmoid").map(|_| ()),
        "candidate gate: activation mish is not supported",
    ),
    (
        || {
            let mut dict = cudnn::export(&block(config()), "gru.")?;
            dict.insert("other.w9", zeros([1]));
            let _ = cudnn::config(&dict, "gru.")?;
            dict.insert("gru.w6", zeros([1]));
            cudnn::config(&dict, "gru.").map(|_| ())
        },
        "gru.w6: not expected; a pseudo-layer has w0 to w5 and b0 to b5",
    ),
    (
        || onednn::export(&block(config().with_num_layers(2)), "").map(|_| ()),
        "oneDNN cannot express several layers in both directions or with I other than H",
    ),
    (
        || {
            let (dict, mut descriptor) = mps_graph::export(&block(config()), "")?;
            descriptor.bidirectional = true;
            mps_graph::config(&dict, "", &descriptor).map(|_| ())
        },
        "recurrentWeight: expected [2, 3H, H], as the descriptor is bidirectional, got shape [15, 5]",
    ),
    (
        || {
            let (dict, descriptor) = mps_graph::export(&block(config()), "a.")?;
            let dict = dict.renamed(|key| key.replace("a.inputWeight", "inputWeight"))?;
            mps_graph::config(&dict, "a.", &descriptor).map(|_| ())
        },
        "a.inputWeight: expected a tensor of this name, got none",
    ),
    (
        || onnx_with(|a| a.direction = "backward".into()),
        "direction: expected forward, reverse or bidirectional, got backward",
    ),
    (
        || onnx_with(|a| a.direction = "bidirectional".into()),
        "W: expected shape [2, 15, 3], got [1, 15, 3]",
    ),
    (
        || onnx_with(|a| a.layout = 2),
        "layout: expected 0 or 1, got 2",
    ),
    (
        || onnx_with(|a| a.hidden_size = Some(7)),
        "hidden_size: expected 5, got 7",
    ),
    (
        || onnx_with(|a| a.activations = vec!["Sigmoid".into()]),
        "activations: expected 2, got 1",
    ),
    (
        || onnx_with(|a| a.activations = vec!["Affine".into(), "Tanh".into()]),
        "activation_alpha: expected a value for Affine, got none",
    ),
    (
        || {
            onnx_with(|a| {
                a.activations = vec!["Sigmoid".into(), "LeakyRelu".into()];
                a.activation_alpha = vec![-1.0];
            })
        },
        "activations: expected parameters that gru-op has kernels for, got GruSpec: \
         candidate activation LeakyRelu { alpha: -1.0 }: alpha must be finite and not negative",
    ),
    (
        || onnx_with(|a| a.clip = Some(-1.0)),
        "clip: expected a positive number, got -1",
    ),
    (
        || onnx_with(|a| a.clip = Some(0.0)),
        "clip: expected a positive number, got 0",
    ),
    (
        || onnx::export(&block(config().with_clip_gates(Some(1e-46))), "").map(|_| ()),
        "ONNX cannot express clip_gates 1e-46",
    ),
    (
        || {
            let mut gru = block(config().with_num_layers(2));
            let w_hh = gru.layers[1].w_hh.val().cast(DType::F64);
            gru.layers[1].w_hh = Param::from_tensor(w_hh);
            onnx::model(&gru, onnx::ModelInputs::default()).map(|_| ())
        },
        "ONNX cannot express parameters of which only some are float64",
    ),
    (
        || {
            config()
                .with_zoneout(1.0)
                .init_with(vec![weights(I, "both")])
                .map(|_| ())
                .map_err(Into::into)
        },
        "GruBlockConfig: zoneout must be a probability, expected 0 to below 1, got 1",
    ),
    (
        || {
            config()
                .init_with(vec![weights(I + 1, "both")])
                .map(|_| ())
                .map_err(Into::into)
        },
        "layers.0.w_ih: expected shape [3, 15], got [4, 15]",
    ),
    (
        || {
            let mut dict = StateDict::new();
            dict.insert("steps", TensorData::zeros::<i32, _>([1]));
            dict.to_safetensors("/no/such/file.safetensors")
        },
        "steps: expected floating-point numbers, got I32",
    ),
];

pub fn trials() -> impl Iterator<Item = Trial> {
    let case =
        |name: &str, expected: &str, run: Box<dyn FnOnce() -> Result<(), ConvertError> + Send>| {
            let expected = expected
                .replace("{pytorch}", TORCH_NAMES)
                .replace("{burn}", BURN_NAMES)
                .replace("{keras}", KERAS_NAMES);
            Trial::test(format!("convert/error/{name}"), move || match run() {
                Ok(()) => Err("expected an error".into()),
                Err(error) if error.to_string() == expected => Ok(()),
                Err(error) => Err(format!("expected \"{expected}\", got \"{error}\"").into()),
            })
        };
    let changes = rows(CHANGES).map(move |[of, change, expected]| {
        case(
            &format!("{of}: {change}"),
            expected,
            Box::new(move || changed(of, change)),
        )
    });
    let cases = CASES
        .iter()
        .map(move |&(run, expected)| case(expected, expected, Box::new(run)));
    changes.chain(cases)
}

/// A row of [`CHANGES`].
fn changed(of: &'static str, change: &str) -> Result<(), ConvertError> {
    let mut of = of.splitn(3, ' ');
    let mut next = || of.next().unwrap_or_default();
    let (system, biases, options) = (next(), next(), next());
    let block = block_with(&with_options(config(), options), biases);
    let (mut dict, import) = export(system, &block, "")?;
    if change.contains('=') {
        return import(&dict, &|config| with_options(config, change)).map(|_| ());
    }
    let mut change = change.split(' ');
    let (name, shape) = (
        change.next().unwrap_or_default(),
        change.next().unwrap_or_default(),
    );
    let shape: Vec<usize> = shape
        .split('x')
        .map(|size| size.parse().expect("a size"))
        .collect();
    let array = match change.next() {
        None => TensorData::zeros::<f32, _>(shape),
        Some(_) => TensorData::zeros::<i32, _>(shape),
    };
    dict.insert(name, array);
    import(&dict, &|config| config).map(|_| ())
}
