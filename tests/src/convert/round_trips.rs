//! Export from a block and import again.

use super::*;

pub fn trials() -> impl Iterator<Item = Trial> {
    let trips = round_trips().into_iter().map(|trip| {
        Trial::test(format!("convert/round-trip/{}", trip.0), move || {
            Ok(round_trip(trip)?)
        })
    });
    let checks: [(&str, Check); 4] = [
        ("one-bias-for-two", one_bias_for_two),
        ("recurrent-bias-only", recurrent_bias_only),
        ("some-biases", some_biases),
        ("quantized", quantized),
    ];
    trips.chain(checks.map(check))
}

/// Exports a block and imports the result.
type RoundTrip = fn(&GruBlock) -> Result<(StateDict, GruBlock), ConvertError>;

macro_rules! through {
    ($($through:ident: $system:ident, $rename:expr, $configure:expr;)+) => {$(
        fn $through(block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
            let rename: fn(&str) -> String = $rename;
            let configure: fn(GruBlockConfig, &GruBlock) -> GruBlockConfig = $configure;
            let dict = $system::export(block, "a/")?.renamed(rename)?;
            let config = configure($system::config(&dict, "a/")?, block);
            let imported = $system::import(&dict, "a/", &config, &device())?;
            Ok((dict, imported))
        }
    )+};
}

through! {
    through_pytorch: pytorch, str::to_owned, |config, _| config;
    through_pytorch_cell: pytorch, |key| key.replace("_l0", ""), |config, _| config;
    through_keras: keras, str::to_owned, |config, block| {
        options(config.with_activations(block.layers[0].spec.activations), block)
    };
    through_tensorflow: tensorflow, str::to_owned, |config, _| config;
    through_gru_cell: tensorflow, gru_cell, |config, _| config;
    through_onednn: onednn, str::to_owned, options;
    through_cudnn: cudnn, str::to_owned, |config, _| config;
}

/// The options that Keras and oneDNN do not store in arrays.
fn options(mut config: GruBlockConfig, block: &GruBlock) -> GruBlockConfig {
    if !config.bias {
        config.spec.reset = block.layers[0].spec.reset;
    }
    config.with_reverse(block.layers[0].direction == Direction::Reverse)
}

/// The names of the variables of TensorFlow's `GRUCell`.
fn gru_cell(key: &str) -> String {
    let (place, gates) = key.split_at(2);
    let name = match gates {
        "w_ru" => "gates/kernel",
        "w_c" => "candidate/kernel",
        "b_ru" => "gates/bias",
        _ => "candidate/bias",
    };
    format!("{place}{name}")
}

fn through_mps_graph(block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
    let (dict, descriptor) = mps_graph::export(block, "a.")?;
    let config = mps_graph::config(&descriptor, &dict, "a.")?;
    let imported = mps_graph::import(&descriptor, &dict, "a.", &config, &device())?;
    Ok((dict, imported))
}

fn through_onnx(block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
    let (dict, attributes) = onnx::export(block, "a.")?;
    let config = onnx::config(&attributes, &dict, "a.")?;
    let imported = onnx::import(&dict, "a.", &config, &device())?;
    Ok((dict, imported))
}

type Trip = (&'static str, GruBlockConfig, Biases, RoundTrip);

fn round_trips() -> Vec<Trip> {
    use Biases::{Both, Candidate, Input, None};
    let before = || config().with_reset(Reset::BeforeMatmul);
    let reverse = || config().with_reverse(true);
    let both = || config().with_bidirectional(true);
    let stack = || GruBlockConfig::new(H, H).with_num_layers(2);
    let relu = Activations {
        candidate: Activation::Relu,
        ..Activations::default()
    };
    let three = Activations::from([Activation::Tanh, Activation::Sigmoid, HARD_SIGMOID]);
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
        ("keras-both", both(), Both, through_keras),
        (
            "keras-both-before",
            before().with_bidirectional(true),
            Input,
            through_keras,
        ),
        ("tensorflow", before(), Input, through_tensorflow),
        ("tensorflow-gru-cell", before(), Input, through_gru_cell),
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
        ("mps-graph-reverse", reverse(), Candidate, through_mps_graph),
        (
            "mps-graph-activations",
            before().with_activations(three),
            Input,
            through_mps_graph,
        ),
        ("mps-graph-both", both(), Candidate, through_mps_graph),
        (
            "mps-graph-both-before",
            before().with_bidirectional(true),
            Input,
            through_mps_graph,
        ),
        ("onednn-lbr", config(), Candidate, through_onednn),
        ("onednn-lbr-deep", stack(), Candidate, through_onednn),
        ("onednn-lbr-both", both(), Candidate, through_onednn),
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
        ("onnx-after", config(), Both, through_onnx),
        ("onnx-before", before(), Both, through_onnx),
        ("onnx-no-bias", config(), None, through_onnx),
        (
            "onnx-batch-first",
            config().with_batch_first(true),
            Both,
            through_onnx,
        ),
        (
            "onnx-reverse",
            reverse().with_activations(relu),
            Both,
            through_onnx,
        ),
        (
            "onnx-both",
            before().with_bidirectional(true).with_clip_gates(Some(2.5)),
            Both,
            through_onnx,
        ),
    ]
}

/// The imported block equals the original bit by bit, and a second export equals the first.
fn round_trip((_, config, biases, convert): Trip) -> Result<(), String> {
    let block = block_with(&config, biases);
    let (dict, read) = convert(&block).map_err(text)?;
    block.check_config(&read.config()).map_err(text)?;
    if read.config().bias != !matches!(biases, Biases::None) {
        return Err("expected the biases of the original block".into());
    }
    if read.layers.len() != config.num_layers * read.directions() {
        return Err(format!("{} layers", read.layers.len()));
    }
    for (got, expected) in read.layers.iter().zip(&block.layers) {
        same(&got.weights(), &expected.weights())?;
    }
    let (second_dict, _) = convert(&read).map_err(text)?;
    if arrays(&second_dict) == arrays(&dict) {
        Ok(())
    } else {
        Err("expected the second export to equal the first".into())
    }
}

fn arrays(dict: &StateDict) -> Vec<(String, Option<TensorData>)> {
    let arrays = dict.keys();
    arrays
        .map(|key| (key.to_owned(), dict.get(key).cloned()))
        .collect()
}

/// Parameters that Burn quantized are exported dequantized.
fn quantized() -> Result<(), String> {
    for (name, config, biases, convert) in round_trips() {
        let block = runs::quantized(block_with(&config, biases), &device());
        let dequantized = config.init_with(block.weights()).map_err(text)?;
        let of = |block| {
            let converted = convert(block).map_err(|error| format!("{name}: {error}"));
            converted.map(|(dict, _)| arrays(&dict))
        };
        if of(&block)? != of(&dequantized)? {
            return Err(format!("{name}: expected the dequantized numbers"));
        }
    }
    Ok(())
}

/// A system with one bias gets the sum of the block's two biases.
fn one_bias_for_two() -> Result<(), String> {
    let before = config().with_reset(Reset::BeforeMatmul);
    let conversions: [(&str, GruBlockConfig, RoundTrip); 7] = [
        ("keras", before.clone(), through_keras),
        ("tensorflow", before.clone(), through_tensorflow),
        ("onednn vanilla", before.clone(), through_onednn),
        ("onednn lbr", config(), through_onednn),
        ("mps_graph before", before, through_mps_graph),
        ("mps_graph after", config(), through_mps_graph),
        ("cudnn", config(), through_cudnn),
    ];
    for (name, config, convert) in conversions {
        for biases in [Biases::Both, Biases::Candidate, Biases::None] {
            let block = block_with(&config, biases);
            let (_, read) = convert(&block).map_err(text)?;
            alike(name, &read, &block)?;
        }
    }
    Ok(())
}

/// The configuration of an imported block imports the arrays again.
fn recurrent_bias_only() -> Result<(), String> {
    let block = block_with(&config(), Biases::None);
    let (mut dict, descriptor) = mps_graph::export(&block, "").map_err(text)?;
    dict.insert("secondaryBias", zeros([H]));
    let read = |config: &GruBlockConfig| {
        mps_graph::import(&descriptor, &dict, "", config, &device()).map_err(text)
    };
    let block = read(&mps_graph::config(&descriptor, &dict, "").map_err(text)?)?;
    read(&block.config()).map(|_| ())
}

/// If only some layers or directions have a bias, the importer fills the others with zeros.
fn some_biases() -> Result<(), String> {
    let both = config().with_bidirectional(true);
    let deep = GruBlockConfig::new(H, H).with_num_layers(2);
    let before = both.clone().with_reset(Reset::BeforeMatmul);
    let conversions: [(&str, GruBlockConfig, RoundTrip); 6] = [
        ("pytorch", both.clone(), through_pytorch),
        ("keras", both.clone(), through_keras),
        ("keras-before", before, through_keras),
        ("onnx", both.clone(), through_onnx),
        ("mps_graph", both, through_mps_graph),
        ("onednn", deep, through_onednn),
    ];
    for (name, config, convert) in conversions {
        let i = config.d_input;
        let one = vec![weights(i, Biases::None), weights(i, Biases::Both)];
        let block = config.init_with(one).map_err(text)?;
        let (_, read) = convert(&block).map_err(text)?;
        alike(name, &read, &block)?;
    }
    Ok(())
}
