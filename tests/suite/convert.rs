//! Weights out and in again, and every way in which they can be wrong.

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use gru_op::{
    Activation, Activations, Direction, GruBlock, GruBlockConfig, GruLayerOptions, GruWeights,
    Reset, Update,
    convert::{
        ConvertError, GateOrder, StateDict, cudnn, keras, mps_graph, onednn, onnx, pytorch,
        tensorflow,
    },
    mps_graph::GruDescriptor,
};
use gru_testkit::close::{Tolerance, close};
use libtest_mimic::Trial;

use super::{
    conformance::{numbers, text},
    runs::{self, values},
};

const I: usize = 3;
const H: usize = 5;

pub fn trials() -> Vec<Trial> {
    type Check = fn() -> Result<(), String>;
    let checks: Vec<(&str, Check)> = vec![
        ("one-bias-for-two", one_bias_for_two),
        ("some-biases", some_biases),
        ("keras-bidirectional", keras_bidirectional),
        ("keras-names", keras_names),
        ("mps-graph-without-secondary", mps_graph_without_secondary),
        ("noise-is-free", noise_is_free),
        ("gate-order", gate_order),
        ("onednn-layout", onednn_layout),
        ("cudnn-layout", cudnn_layout),
    ];
    let checks = checks
        .into_iter()
        .map(|(name, check)| Trial::test(format!("convert/{name}"), move || Ok(check()?)));
    let trips = round_trips().into_iter().map(|trip| {
        Trial::test(format!("convert/again/{}", trip.0), move || {
            Ok(again(trip)?)
        })
    });
    let errors = wrong().into_iter().map(|(name, run, says)| {
        Trial::test(format!("convert/wrong/{name}"), move || match run() {
            Ok(()) => Err("expected an error".into()),
            Err(error) if error.to_string() == says => Ok(()),
            Err(error) => Err(format!("got \"{error}\", expected \"{says}\"").into()),
        })
    });
    checks.chain(trips).chain(errors).collect()
}

fn device() -> Device {
    Device::flex()
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device())
}

/// Which biases a layer has.
#[derive(Clone, Copy)]
enum Biases {
    None,
    Input,
    Both,
    /// That of the input, and the recurrent one of the candidate alone.
    Candidate,
}

fn weights(i: usize, biases: Biases) -> GruWeights {
    GruWeights {
        w_ih: Some(random([i, 3 * H])),
        w_hh: random([H, 3 * H]),
        b_ih: match biases {
            Biases::None => None,
            _ => Some(random([3 * H])),
        },
        b_hh: match biases {
            Biases::None | Biases::Input => None,
            Biases::Both => Some(random([3 * H])),
            Biases::Candidate => Some(random([H])),
        },
    }
}

fn config() -> GruBlockConfig {
    GruBlockConfig::new(I, H)
}

fn block(config: GruBlockConfig) -> GruBlock {
    block_with(&config, Biases::Both)
}

fn block_with(config: &GruBlockConfig, biases: Biases) -> GruBlock {
    let directions = if config.bidirectional { 2 } else { 1 };
    let inputs = |k: usize| match k / directions {
        0 => config.d_input,
        _ => directions * H,
    };
    let weights = (0..config.num_layers * directions).map(|k| weights(inputs(k), biases));
    let block = config.init_with(weights.collect());
    block.expect("the weights have the shapes of the configuration")
}

/// Out of a block, and in again.
type Door = fn(&GruBlock) -> Result<(StateDict, GruBlock), ConvertError>;

fn through_pytorch(block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
    let dict = pytorch::export(block, "a.")?;
    let config = pytorch::config(&dict, "a.")?;
    let again = pytorch::import(&dict, "a.", &config, &device())?;
    Ok((dict, again))
}

fn through_pytorch_cell(block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
    let dict = pytorch::export(block, "a.")?.renamed(|key| key.replace("_l0", ""))?;
    let config = pytorch::config(&dict, "a.")?;
    let again = pytorch::import(&dict, "a.", &config, &device())?;
    Ok((dict, again))
}

fn through_keras(block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
    let spec = block.layers[0].spec;
    let dict = keras::export(block, "a/")?;
    let (activation, gates) = keras::activation_names(&spec.activations)?;
    let mut config = keras::config(&dict, "a/")?
        .with_activations(keras::activations(activation, gates)?)
        .with_reverse(spec.direction == Direction::Reverse);
    if !config.bias {
        config.reset = spec.reset;
    }
    let again = keras::import(&dict, "a/", &config, &device())?;
    Ok((dict, again))
}

fn through_tensorflow(block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
    let dict = tensorflow::export(block, "a/")?;
    let config = tensorflow::config(&dict, "a/")?;
    let again = tensorflow::import(&dict, "a/", &config, &device())?;
    Ok((dict, again))
}

fn through_mps_graph(block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
    let (dict, descriptor) = mps_graph::export(block, "a.")?;
    let config = mps_graph::config(&descriptor, &dict, "a.")?;
    let again = mps_graph::import(&descriptor, &dict, "a.", &config, &device())?;
    Ok((dict, again))
}

fn through_onednn(block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
    let spec = block.layers[0].spec;
    let dict = onednn::export(block, "")?;
    let mut config = onednn::config(&dict, "")?
        .with_reverse(spec.direction == Direction::Reverse && !block.bidirectional);
    if !config.bias {
        config.reset = spec.reset;
    }
    let again = onednn::import(&dict, "", &config, &device())?;
    Ok((dict, again))
}

fn through_cudnn(block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
    let dict = cudnn::export(block, "a.")?;
    let config = cudnn::config(&dict, "a.")?;
    let again = cudnn::import(&dict, "a.", &config, &device())?;
    Ok((dict, again))
}

type Trip = (&'static str, GruBlockConfig, Biases, Door);

fn round_trips() -> Vec<Trip> {
    use Biases::{Both, Candidate, Input, None};
    let before = || config().with_reset(Reset::BeforeMatmul);
    let stack = || GruBlockConfig::new(H, H).with_num_layers(2);
    let relu = Activations {
        reset: Activation::Sigmoid,
        update: Activation::Sigmoid,
        candidate: Activation::Relu,
    };
    let three = Activations {
        reset: Activation::Tanh,
        update: Activation::Sigmoid,
        candidate: Activation::Elu { alpha: 0.5 },
    };
    let deep = config().with_num_layers(3).with_bidirectional(true);
    vec![
        ("pytorch", config(), Both, through_pytorch),
        ("pytorch-deep", deep.clone(), Both, through_pytorch),
        ("pytorch-deep-no-bias", deep, None, through_pytorch),
        ("pytorch-cell", config(), Both, through_pytorch_cell),
        ("pytorch-cell-no-bias", config(), None, through_pytorch_cell),
        ("keras-after", config(), Both, through_keras),
        ("keras-before", before(), Input, through_keras),
        ("keras-no-bias", before(), None, through_keras),
        (
            "keras-relu",
            config().with_activations(relu),
            Both,
            through_keras,
        ),
        (
            "keras-reverse",
            before().with_reverse(true),
            Input,
            through_keras,
        ),
        (
            "keras-both",
            config().with_bidirectional(true),
            Both,
            through_keras,
        ),
        (
            "keras-both-before",
            before().with_bidirectional(true),
            Input,
            through_keras,
        ),
        ("tensorflow", before(), Input, through_tensorflow),
        ("mps-graph-after", config(), Candidate, through_mps_graph),
        ("mps-graph-after-no-b2", config(), Input, through_mps_graph),
        ("mps-graph-before", before(), Input, through_mps_graph),
        ("mps-graph-no-bias", config(), None, through_mps_graph),
        (
            "mps-graph-takes",
            config().with_update(Update::Takes),
            Candidate,
            through_mps_graph,
        ),
        (
            "mps-graph-reverse",
            config().with_reverse(true),
            Candidate,
            through_mps_graph,
        ),
        (
            "mps-graph-activations",
            before().with_activations(three),
            Input,
            through_mps_graph,
        ),
        (
            "mps-graph-both",
            config().with_bidirectional(true),
            Candidate,
            through_mps_graph,
        ),
        (
            "mps-graph-both-before",
            before().with_bidirectional(true),
            Input,
            through_mps_graph,
        ),
        ("onednn-lbr", config(), Candidate, through_onednn),
        ("onednn-lbr-deep", stack(), Candidate, through_onednn),
        (
            "onednn-lbr-both",
            config().with_bidirectional(true),
            Candidate,
            through_onednn,
        ),
        ("onednn-vanilla", before(), Input, through_onednn),
        (
            "onednn-vanilla-reverse",
            before().with_reverse(true),
            Input,
            through_onednn,
        ),
        (
            "onednn-vanilla-deep",
            stack().with_reset(Reset::BeforeMatmul),
            Input,
            through_onednn,
        ),
        ("onednn-no-bias", config(), None, through_onednn),
        ("cudnn", config(), Both, through_cudnn),
        ("cudnn-no-bias", config(), None, through_cudnn),
    ]
}

/// What comes in again is the block, bit by bit, and goes out as before.
fn again((_, config, biases, door): Trip) -> Result<(), String> {
    let block = block_with(&config, biases);
    let (dict, read) = door(&block).map_err(text)?;
    block.check_config(&read.config()).map_err(text)?;
    if read.config().bias != !matches!(biases, Biases::None) {
        return Err("has biases, or none, otherwise than before".into());
    }
    if read.layers.len() != config.num_layers * read.directions() {
        return Err(format!("{} layers", read.layers.len()));
    }
    for (got, expected) in read.layers.iter().zip(&block.layers) {
        same(&got.weights(), &expected.weights())?;
    }
    let (dict_again, _) = door(&read).map_err(text)?;
    let bits = |dict: &StateDict| {
        let arrays = dict
            .keys()
            .map(|key| (key.to_owned(), dict.get(key).cloned()));
        arrays.collect::<Vec<_>>()
    };
    match bits(&dict_again) == bits(&dict) {
        true => Ok(()),
        false => Err("goes out otherwise than before".into()),
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

/// The output of a block over a sequence, batch first.
fn output(block: &GruBlock, x: &Tensor<3>) -> Tensor<3> {
    let mut block = block.clone();
    block.batch_first = true;
    block.forward(x.clone(), None).0
}

/// Two blocks compute the same: a bias was added to another, which rounds.
fn alike(name: &str, got: &GruBlock, expected: &GruBlock) -> Result<(), String> {
    let x = random([2, 4, expected.d_input]);
    let (got, expected) = (output(got, &x), output(expected, &x));
    close(
        name,
        &values(got),
        &values(expected),
        Tolerance::F32.forward,
    )
}

/// A system with one bias where the block has two gets their sum.
fn one_bias_for_two() -> Result<(), String> {
    let before = config().with_reset(Reset::BeforeMatmul);
    let doors: [(&str, GruBlockConfig, Door); 7] = [
        ("keras", before.clone(), through_keras),
        ("tensorflow", before.clone(), through_tensorflow),
        ("onednn vanilla", before.clone(), through_onednn),
        ("onednn lbr", config(), through_onednn),
        ("mps_graph before", before, through_mps_graph),
        ("mps_graph after", config(), through_mps_graph),
        ("cudnn", config(), through_cudnn),
    ];
    for (name, config, door) in doors {
        for biases in [Biases::Both, Biases::Candidate, Biases::None] {
            let block = block_with(&config, biases);
            let (_, read) = door(&block).map_err(text)?;
            alike(name, &read, &block)?;
        }
    }
    Ok(())
}

/// Where one layer or direction has a bias, the others get zeros: what an exporter wrote is read.
fn some_biases() -> Result<(), String> {
    let both = config().with_bidirectional(true);
    let deep = GruBlockConfig::new(H, H).with_num_layers(2);
    let doors: [(&str, GruBlockConfig, Door); 4] = [
        ("pytorch", both.clone(), through_pytorch),
        ("keras", both.clone(), through_keras),
        ("mps_graph", both, through_mps_graph),
        ("onednn", deep, through_onednn),
    ];
    for (name, config, door) in doors {
        let i = config.d_input;
        let one = vec![weights(i, Biases::None), weights(i, Biases::Both)];
        let block = config.init_with(one).map_err(text)?;
        let (_, read) = door(&block).map_err(text)?;
        alike(name, &read, &block)?;
    }
    Ok(())
}

/// Under the names of Keras' variables: the first half of the output is the forward layer's, the
/// second that of the layer that goes backwards.
fn keras_bidirectional() -> Result<(), String> {
    let (forward, backward) = (block(config()), block(config().with_reverse(true)));
    let mut dict = keras::export(&forward, "bidirectional/forward_gru/gru_cell/").map_err(text)?;
    let other = keras::export(&backward, "bidirectional/backward_gru/gru_cell/");
    dict.extend(other.map_err(text)?);
    let config = keras::config(&dict, "bidirectional/").map_err(text)?;
    let both = keras::import(&dict, "bidirectional/", &config, &device()).map_err(text)?;
    let x = random([2, 4, I]);
    let y = output(&both, &x);
    for (half, one) in [&forward, &backward].into_iter().enumerate() {
        let got = y.clone().narrow(2, half * H, H);
        let expected = values(output(one, &x));
        close("half", &values(got), &expected, Tolerance::F32.forward)?;
    }
    Ok(())
}

/// Every name is an activation, and that one has this name.
fn keras_names() -> Result<(), String> {
    for name in [
        "linear",
        "sigmoid",
        "tanh",
        "relu",
        "hard_sigmoid",
        "elu",
        "leaky_relu",
        "softsign",
        "softplus",
    ] {
        let activations = keras::activations(name, "tanh").map_err(text)?;
        let names = keras::activation_names(&activations).map_err(text)?;
        if names != (name, "tanh") {
            return Err(format!("{name}: {names:?}"));
        }
    }
    Ok(())
}

/// A secondary bias may be there without the other, and the other way round.
fn mps_graph_without_secondary() -> Result<(), String> {
    let one = GruWeights {
        b_ih: None,
        ..weights(I, Biases::Candidate)
    };
    let block = config().init_with(vec![one]).map_err(text)?;
    let (dict, read) = through_mps_graph(&block).map_err(text)?;
    if dict.get("a.bias").is_some() {
        return Err("a bias that the block has not".into());
    }
    same(&read.layers[0].weights(), &block.layers[0].weights())
}

/// What only training knows, and the layout, is the user's to add.
fn noise_is_free() -> Result<(), String> {
    let dict = pytorch::export(&block(config()), "").map_err(text)?;
    let config = pytorch::config(&dict, "")
        .map_err(text)?
        .with_batch_first(true)
        .with_recurrent_dropout(0.25)
        .with_zoneout(0.125);
    let read = pytorch::import(&dict, "", &config, &device()).map_err(text)?;
    match (read.batch_first, read.layers[0].zoneout) {
        (true, 0.125) => Ok(()),
        other => Err(format!("{other:?}")),
    }
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
    let block = block(config());
    let dict = numbers(&onednn::export(&block, "").map_err(text)?);
    let w = block.layers[0].weights();
    let w_ih = values(w.w_ih.expect("it is there"));
    let b_ih = values(w.b_ih.expect("it is there"));
    let b_hh = values(w.b_hh.expect("it is there"));
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
    let block = block(config());
    let dict = numbers(&cudnn::export(&block, "").map_err(text)?);
    let w_hh = values(block.layers[0].w_hh.val());
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

/// A block's arrays under Keras' names, changed, and imported with a changed configuration.
fn keras_with(
    of: GruBlockConfig,
    change: impl FnOnce(&mut StateDict),
    configure: impl FnOnce(GruBlockConfig) -> GruBlockConfig,
) -> Result<(), ConvertError> {
    let mut dict = keras::export(&block(of), "")?;
    change(&mut dict);
    let config = configure(keras::config(&dict, "")?);
    keras::import(&dict, "", &config, &device()).map(|_| ())
}

/// A block's arrays of oneDNN, changed, and imported.
fn onednn_with(
    of: GruBlockConfig,
    change: impl FnOnce(&mut StateDict),
) -> Result<(), ConvertError> {
    let mut dict = onednn::export(&block(of), "")?;
    change(&mut dict);
    let config = onednn::config(&dict, "")?;
    onednn::import(&dict, "", &config, &device()).map(|_| ())
}

/// A block's arrays of MPSGraph and its descriptor, changed, and imported with a changed
/// configuration.
fn mps_graph_with(
    change: impl FnOnce(&mut GruDescriptor, &mut StateDict),
    configure: impl FnOnce(GruBlockConfig) -> GruBlockConfig,
) -> Result<(), ConvertError> {
    let (mut dict, mut descriptor) = mps_graph::export(&block(config()), "")?;
    change(&mut descriptor, &mut dict);
    let config = configure(mps_graph::config(&descriptor, &dict, "")?);
    mps_graph::import(&descriptor, &dict, "", &config, &device()).map(|_| ())
}

/// What a configuration says of arrays that PyTorch wrote.
fn torch_as(configure: impl FnOnce(GruBlockConfig) -> GruBlockConfig) -> Result<(), ConvertError> {
    let dict = pytorch::export(&block(config()), "")?;
    let config = configure(pytorch::config(&dict, "")?);
    pytorch::import(&dict, "", &config, &device()).map(|_| ())
}

/// `block` handed to all exporters but ONNX', which must all refuse it, and say that they lack it.
fn all_lack(config: GruBlockConfig, what: &str) -> Result<(), ConvertError> {
    let block = block(config);
    let exports: [(&str, Result<(), ConvertError>); 6] = [
        ("PyTorch", pytorch::export(&block, "").map(|_| ())),
        ("Keras", keras::export(&block, "").map(|_| ())),
        ("GRUBlockCell", tensorflow::export(&block, "").map(|_| ())),
        ("MPSGraph", mps_graph::export(&block, "").map(|_| ())),
        ("oneDNN", onednn::export(&block, "").map(|_| ())),
        (
            "a pseudo-layer of cuDNN",
            cudnn::export(&block, "").map(|_| ()),
        ),
    ];
    let mut last = Ok(());
    for (system, export) in exports {
        let says = format!("{system} cannot express {what}");
        match &export {
            Err(error) if error.to_string() == says => last = export,
            other => panic!("{other:?}, expected {says}"),
        }
    }
    last
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
            "other-hidden",
            || {
                torch_as(|config| GruBlockConfig {
                    d_hidden: H + 1,
                    ..config
                })
            },
            "d_hidden of the configuration: expected 5, as the imported GRU has it, got 6",
        ),
        (
            "other-input",
            || {
                torch_as(|config| GruBlockConfig {
                    d_input: I + 1,
                    ..config
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
            "torch-before",
            || {
                let gru = block(config().with_reset(Reset::BeforeMatmul));
                pytorch::export(&gru, "").map(|_| ())
            },
            "PyTorch cannot express Reset::BeforeMatmul",
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
            "all-zoneout",
            || {
                all_lack(
                    config().with_reset(Reset::BeforeMatmul).with_zoneout(0.1),
                    "zoneout",
                )
            },
            "a pseudo-layer of cuDNN cannot express zoneout",
        ),
        (
            "clips",
            || keras::export(&block(config().with_clip_state(Some(1.5))), "").map(|_| ()),
            "Keras cannot express clip_state 1.5",
        ),
        (
            "hand-made",
            || {
                let mut odd = block(config().with_num_layers(2));
                odd.layers[1].spec.direction = Direction::Reverse;
                pytorch::export(&odd, "").map(|_| ())
            },
            "PyTorch cannot express layers.1.direction Reverse",
        ),
        (
            "hand-emptied",
            || {
                let mut odd = block(config());
                odd.layers.clear();
                pytorch::export(&odd, "").map(|_| ())
            },
            "layers times directions: expected 1, got 0",
        ),
        (
            "hand-sized",
            || {
                let mut odd = block(config());
                odd.d_hidden = H + 1;
                onednn::export(&odd, "").map(|_| ())
            },
            "layers.0.w_ih: expected shape [3, 18], got [3, 15]",
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
        (
            "same-name",
            || {
                let dict = pytorch::export(&block(config()), "")?;
                dict.renamed(|_| "weight".into()).map(|_| ())
            },
            "weight: expected one tensor of this name, got two",
        ),
        (
            "unexpected-elsewhere",
            || {
                let mut dict = cudnn::export(&block(config()), "gru.")?;
                dict.insert("other.w9", zeros([1]));
                cudnn::config(&dict, "gru.")?;
                dict.insert("gru.w6", zeros([1]));
                cudnn::config(&dict, "gru.").map(|_| ())
            },
            "gru.w6: not expected; a pseudo-layer has w0 to w5 and b0 to b5",
        ),
        (
            "cudnn-one-bias",
            || {
                let mut dict = cudnn::export(&block_with(&config(), Biases::None), "")?;
                dict.insert("b3", zeros([H]));
                let config = cudnn::config(&dict, "")?;
                cudnn::import(&dict, "", &config, &device()).map(|_| ())
            },
            "b0: expected a tensor of this name, got none",
        ),
        (
            "cudnn-directions",
            || {
                let both = block(config().with_bidirectional(true));
                cudnn::export(&both, "").map(|_| ())
            },
            "a pseudo-layer of cuDNN cannot express both directions",
        ),
        (
            "cudnn-layers",
            || cudnn::export(&block(config().with_num_layers(2)), "").map(|_| ()),
            "a pseudo-layer of cuDNN cannot express several layers",
        ),
        (
            "onnx-unexpected",
            || node(|_, d| d.insert("P", zeros([1]))),
            "P: not expected; a GRU has W, R and B",
        ),
        (
            "keras-other-reset",
            || {
                keras_with(
                    config(),
                    |_| {},
                    |config| config.with_reset(Reset::BeforeMatmul),
                )
            },
            "reset of the configuration: expected AfterMatmul, as the imported GRU has it, got BeforeMatmul",
        ),
        (
            "keras-bias",
            || keras_with(config(), |d| d.insert("bias", zeros([1, 2, 3 * H])), |c| c),
            "bias: expected [3H], or [2, 3H] with reset_after, got shape [1, 2, 15]",
        ),
        (
            "keras-two-layers",
            || {
                let mut dict = keras::export(&block(config()), "gru/gru_cell/")?;
                dict.extend(keras::export(&block(config()), "gru_1/gru_cell/")?);
                keras::config(&dict, "").map(|_| ())
            },
            "gru_1/gru_cell/recurrent_kernel: not expected; a GRU has kernel, recurrent_kernel and \
             bias, or 0, 1 and 2, a Bidirectional has them under forward_… and backward_…",
        ),
        (
            "keras-bias-of-one",
            || {
                let both = config().with_bidirectional(true);
                let mut dict = keras::export(&block_with(&both, Biases::None), "")?;
                dict.insert("backward_layer/bias", zeros([2, 3 * H]));
                let config = keras::config(&dict, "")?;
                keras::import(&dict, "", &config, &device()).map(|_| ())
            },
            "forward_layer/bias: expected a tensor of this name, got none",
        ),
        (
            "keras-layers",
            || keras::export(&block(config().with_num_layers(2)), "").map(|_| ()),
            "Keras cannot express several layers",
        ),
        (
            "keras-takes",
            || keras::export(&block(config().with_update(Update::Takes)), "").map(|_| ()),
            "Keras cannot express Update::Takes",
        ),
        (
            "keras-gates",
            || {
                let activations = Activations {
                    reset: Activation::Tanh,
                    ..Default::default()
                };
                keras::activation_names(&activations).map(|_| ())
            },
            "Keras cannot express different activations of the reset and the update gate",
        ),
        (
            "keras-no-name",
            || {
                let activations = Activations {
                    candidate: Activation::Elu { alpha: 0.5 },
                    ..Default::default()
                };
                keras::activation_names(&activations).map(|_| ())
            },
            "candidate gate: activation Elu { alpha: 0.5 } is not supported",
        ),
        (
            "directions-differ",
            || {
                let both = config().with_bidirectional(true);
                let other = GruLayerOptions {
                    reset: Reset::BeforeMatmul,
                    ..both.layer_options()
                };
                let both = both
                    .clone()
                    .with_per_layer(vec![both.layer_options(), other]);
                keras::export(&block(both), "").map(|_| ())
            },
            "Keras cannot express layers or directions of different GRUs",
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
            "ONNX cannot express Activations { reset: Tanh, update: Sigmoid, candidate: Tanh }",
        ),
        (
            "onnx-layers",
            || onnx::export(&block(config().with_num_layers(2)), "").map(|_| ()),
            "ONNX cannot express several layers",
        ),
        (
            "tensorflow-rows",
            || {
                let mut dict = StateDict::new();
                dict.insert("w_ru", zeros([H, 2 * H]));
                dict.insert("w_c", zeros([H, H]));
                dict.insert("b_ru", zeros([2 * H]));
                dict.insert("b_c", zeros([H]));
                tensorflow::config(&dict, "").map(|_| ())
            },
            "w_c: expected [I+H, H] with I above 0, got shape [5, 5]",
        ),
        (
            "tensorflow-after",
            || tensorflow::export(&block(config()), "").map(|_| ()),
            "GRUBlockCell cannot express Reset::AfterMatmul",
        ),
        (
            "tensorflow-reverse",
            || {
                let gru = config().with_reset(Reset::BeforeMatmul).with_reverse(true);
                tensorflow::export(&block(gru), "").map(|_| ())
            },
            "GRUBlockCell cannot express a layer in reverse only",
        ),
        (
            "onednn-stack",
            || onednn::export(&block(config().with_num_layers(2)), "").map(|_| ()),
            "oneDNN cannot express several layers in both directions or with I other than H",
        ),
        (
            "onednn-two-stacks",
            || {
                onednn_with(config(), |d| {
                    d.insert("weights_layer", zeros([2, 2, H, 3, H]))
                })
            },
            "weights_layer: expected [L, 1, H, 3, H] of several layers, got shape [2, 2, 5, 3, 5]",
        ),
        (
            "onednn-directions",
            || {
                onednn_with(config(), |d| {
                    d.insert("weights_layer", zeros([1, 3, I, 3, H]))
                })
            },
            "weights_layer: expected [L, 1 or 2, I, 3, H], got shape [1, 3, 3, 3, 5]",
        ),
        (
            "onednn-biases",
            || onednn_with(config(), |d| d.insert("bias", zeros([1, 1, 5, H]))),
            "bias: expected [L, D, 3, H] or [L, D, 4, H], got shape [1, 1, 5, 5]",
        ),
        (
            "onednn-gates",
            || {
                onednn_with(config(), |d| {
                    d.insert("weights_iter", zeros([1, 1, H, 4, H]))
                })
            },
            "weights_iter: expected shape [1, 1, 5, 3, 5], got [1, 1, 5, 4, 5]",
        ),
        (
            "mps-graph-direction",
            || mps_graph_with(|d, _| d.bidirectional = true, |c| c),
            "recurrentWeight: expected [2, 3H, H], as the descriptor is bidirectional, got shape [15, 5]",
        ),
        (
            "mps-graph-two",
            || {
                mps_graph_with(
                    |_, d| d.insert("recurrentWeight", zeros([2, 3 * H, H])),
                    |c| c,
                )
            },
            "recurrentWeight: expected [3H, H], as the descriptor is not bidirectional, got shape [2, 15, 5]",
        ),
        (
            "mps-graph-secondary",
            || mps_graph_with(|d, _| d.reset_after = false, |c| c),
            "secondaryBias: not expected; a GRU without resetAfter has recurrentWeight, inputWeight and \
             bias",
        ),
        (
            "mps-graph-projected",
            || {
                let (dict, descriptor) = mps_graph::export(&block(config()), "a.")?;
                let dict = dict.renamed(|key| key.replace("a.inputWeight", "inputWeight"))?;
                mps_graph::config(&descriptor, &dict, "a.").map(|_| ())
            },
            "a.inputWeight: expected a tensor of this name, got none",
        ),
        (
            "mps-graph-update",
            || mps_graph_with(|_, _| {}, |config| config.with_update(Update::Takes)),
            "update of the configuration: expected Keeps, as the imported GRU has it, got Takes",
        ),
        (
            "mps-graph-reset",
            || {
                let (dict, descriptor) =
                    mps_graph::export(&block_with(&config(), Biases::None), "")?;
                let config = mps_graph::config(&descriptor, &dict, "")?;
                let config = config.with_reset(Reset::BeforeMatmul);
                mps_graph::import(&descriptor, &dict, "", &config, &device()).map(|_| ())
            },
            "reset of the configuration: expected AfterMatmul, as the imported GRU has it, got BeforeMatmul",
        ),
        (
            "mps-graph-reverse",
            || mps_graph_with(|_, _| {}, |config| config.with_reverse(true)),
            "reverse of the configuration: expected false, as the imported GRU has it, got true",
        ),
        (
            "mps-graph-layers",
            || mps_graph::export(&block(config().with_num_layers(2)), "").map(|_| ()),
            "MPSGraph cannot express several layers",
        ),
        (
            "init-with",
            || {
                let narrow = GruWeights {
                    w_ih: Some(random([I + 1, 3 * H])),
                    ..weights(I, Biases::Both)
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
