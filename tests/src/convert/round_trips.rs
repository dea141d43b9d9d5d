//! Export from a block and import again.

use super::*;

/// The name after the system, its biases, and its options.
const ROUND_TRIPS: &str = r#"
pytorch              | both      |
pytorch/deep         | both      | num_layers=3 bidirectional=true
pytorch/deep-no-bias | none      | num_layers=3 bidirectional=true
pytorch/cell         | both      |
pytorch/cell-no-bias | none      |
burn                 | both      |
burn/no-bias         | none      |
burn/both            | both      | bidirectional=true spec.reset=BeforeMatmul
burn/elu             | both      | spec.activations.candidate={"Elu":{"alpha":0.5}} spec.clip_state=0.5
keras/after          | both      |
keras/before         | input     | spec.reset=BeforeMatmul
keras/no-bias        | none      | spec.reset=BeforeMatmul
keras/relu           | both      | spec.activations.candidate=Relu
keras/reverse        | input     | spec.reset=BeforeMatmul reverse=true
keras/both           | both      | bidirectional=true
keras/both-before    | input     | spec.reset=BeforeMatmul bidirectional=true
tensorflow           | input     | spec.reset=BeforeMatmul
tensorflow/gru-cell  | input     | spec.reset=BeforeMatmul
mps_graph/after      | candidate |
mps_graph/no-b2      | input     |
mps_graph/before     | input     | spec.reset=BeforeMatmul
mps_graph/no-bias    | none      |
mps_graph/takes      | candidate | spec.update=Takes
mps_graph/reverse    | candidate | reverse=true
mps_graph/three      | input     | spec.reset=BeforeMatmul spec.activations.reset=Tanh spec.activations.candidate={"HardSigmoid":{"alpha":0.2,"beta":0.5}}
mps_graph/both       | candidate | bidirectional=true
mps_graph/both-before| input     | spec.reset=BeforeMatmul bidirectional=true
onednn/lbr           | candidate |
onednn/lbr-deep      | candidate | d_input=5 num_layers=2
onednn/lbr-both      | candidate | bidirectional=true
onednn/vanilla       | input     | spec.reset=BeforeMatmul
onednn/reverse       | input     | spec.reset=BeforeMatmul reverse=true
onednn/vanilla-deep  | input     | spec.reset=BeforeMatmul d_input=5 num_layers=2
onednn/no-bias       | none      |
cudnn                | both      |
cudnn/no-bias        | none      |
onnx/after           | both      |
onnx/before          | both      | spec.reset=BeforeMatmul
onnx/no-bias         | none      |
onnx/time-major      | both      | batch_first=false
onnx/reverse         | both      | reverse=true spec.activations.candidate=Relu
onnx/both            | both      | spec.reset=BeforeMatmul bidirectional=true spec.clip_gates=2.5
"#;

pub fn trials() -> impl Iterator<Item = Trial> {
    let trips = rows(ROUND_TRIPS).map(|row: [&str; 3]| {
        Trial::test(format!("convert/round-trip/{}", row[0]), move || {
            Ok(round_trip(row)?)
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

/// The names in an `nn.GRUCell`, and of the variables of TensorFlow's `GRUCell`.
const CELL: [(&str, &str); 5] = [
    ("_l0", ""),
    ("w_ru", "gates/kernel"),
    ("w_c", "candidate/kernel"),
    ("b_ru", "gates/bias"),
    ("b_c", "candidate/bias"),
];

/// Exports a block and imports the result. Arrays have the names in a cell if the name says so.
fn through(name: &str, block: &GruBlock) -> Result<(StateDict, GruBlock), ConvertError> {
    let (system, _) = name.split_once('/').unwrap_or((name, ""));
    let (mut dict, import) = export(system, block, "a/")?;
    if name.contains("cell") {
        let in_cell = |key: String, (from, to): &(&str, &str)| key.replace(from, to);
        dict = dict.renamed(|key| CELL.iter().fold(key.to_owned(), in_cell))?;
    }
    let layer = &block.layers[0];
    // Burn, Keras and oneDNN do not store these options in arrays.
    let options = |mut config: GruBlockConfig| {
        if system == "burn" {
            config.spec = layer.spec;
            return config;
        }
        if !matches!(system, "keras" | "onednn") {
            return config;
        }
        if !config.bias {
            config.spec.reset = layer.spec.reset;
        }
        let config = config.with_activations(layer.spec.activations);
        config.with_reverse(layer.direction == Direction::Reverse)
    };
    let imported = import(&dict, &options)?;
    Ok((dict, imported))
}

/// The imported block equals the original bit by bit, and a second export equals the first.
fn round_trip([name, biases, options]: [&'static str; 3]) -> Result<(), String> {
    let config = with_options(config(), options);
    let block = block_with(&config, biases);
    let (dict, read) = through(name, &block).map_err(text)?;
    block.check_config(&read.config()).map_err(text)?;
    if read.config().bias != (biases != "none") {
        return Err("expected the biases of the original block".into());
    }
    if read.layers.len() != config.num_layers * read.directions() {
        return Err(format!("{} layers", read.layers.len()));
    }
    for (got, expected) in read.layers.iter().zip(&block.layers) {
        same(&got.weights(), &expected.weights())?;
    }
    let (second_dict, _) = through(name, &read).map_err(text)?;
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
    for [name, biases, options] in rows(ROUND_TRIPS) {
        let config = with_options(config(), options);
        let block = runs::quantized(block_with(&config, biases), &device());
        let dequantized = config.init_with(block.weights()).map_err(text)?;
        let of = |block| {
            let converted = through(name, block).map_err(|error| format!("{name}: {error}"));
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
    for [name, options] in rows(
        "keras      | spec.reset=BeforeMatmul
         tensorflow | spec.reset=BeforeMatmul
         onednn     | spec.reset=BeforeMatmul
         onednn     |
         mps_graph  | spec.reset=BeforeMatmul
         mps_graph  |
         cudnn      |",
    ) {
        for biases in ["both", "candidate", "none"] {
            let block = block_with(&with_options(config(), options), biases);
            let (_, read) = through(name, &block).map_err(text)?;
            alike(name, &read, &block)?;
        }
    }
    Ok(())
}

/// The configuration of an imported block imports the arrays again.
fn recurrent_bias_only() -> Result<(), String> {
    let block = block_with(&config(), "none");
    let (mut dict, descriptor) = mps_graph::export(&block, "").map_err(text)?;
    dict.insert("secondaryBias", zeros([H]));
    let read = |config: &GruBlockConfig| {
        mps_graph::import(&dict, "", &descriptor, config, &device()).map_err(text)
    };
    let block = read(&mps_graph::config(&dict, "", &descriptor).map_err(text)?)?;
    read(&block.config()).map(|_| ())
}

/// If only some layers or directions have a bias, the importer fills the others with zeros.
fn some_biases() -> Result<(), String> {
    for [name, options] in rows(
        "pytorch   | bidirectional=true
         keras     | bidirectional=true
         keras     | bidirectional=true spec.reset=BeforeMatmul
         burn      | bidirectional=true
         onnx      | bidirectional=true
         mps_graph | bidirectional=true
         onednn    | d_input=5 num_layers=2",
    ) {
        let config = with_options(config(), options);
        let i = config.d_input;
        let one = vec![weights(i, "none"), weights(i, "both")];
        let block = config.init_with(one).map_err(text)?;
        let (_, read) = through(name, &block).map_err(text)?;
        alike(name, &read, &block)?;
    }
    Ok(())
}
