//! The recorded cases of ONNX Runtime as models with one GRU, generated in four ways: with the override, as a copy
//! of `mark_grus`, prepared in full precision, and from a block that was exported again.

use burn::tensor::{Device, Int, Tensor};
use burn_onnx::{LoadStrategy, ModelGen};
use gru_convert::onnx::{self, Gru};
use gru_onnx::{Exporter, GruOverride, Precision, mark_grus};
use gru_testkit::{
    conformance::{Case, CaseSpec},
    onnx_file::{Attribute, GruModel, Value},
};
use std::{fmt::Write, fs, path::Path};

pub fn generate(out: &Path) {
    let folder = Path::new("../data/conformance");
    println!("cargo::rerun-if-changed={}", folder.display());
    let specs = CaseSpec::all(folder);
    let cases: Vec<Case> = specs
        .iter()
        .filter(|spec| spec.kind() == "onnx_gru")
        .map(|spec| spec.load(folder))
        .collect();
    let (mut modules, mut list) = (String::new(), String::new());
    fs::create_dir_all(out.join("files")).expect("a folder");
    for (k, case) in cases.iter().enumerate() {
        let name = case.spec.name();
        // Each way reads weights of both kinds, and all three combinations of outputs.
        for (w, way) in [
            (0, "built_in"),
            (1, "marked"),
            (2, "prepared"),
            (1, "exported"),
        ] {
            if way == "built_in" && !parser_accepts(case) {
                continue;
            }
            let outputs = [&["Y", "Y_h"][..], &["Y"], &["Y_h"]][(k + w) % 3];
            let model = model(case, outputs, (k + w) % 2 == 0);
            let path = out.join(format!("files/{name}.onnx"));
            let bytes = match way {
                "exported" => export(case, &model, outputs),
                _ => model.to_bytes(),
            };
            fs::write(&path, bytes).expect("a file");
            let path = path.display().to_string();
            let mut generator = ModelGen::new();
            generator.out_dir(way).load_strategy(LoadStrategy::Embedded);
            if way == "built_in" {
                generator
                    .input(&path)
                    .register_op_override(GruOverride::new());
            } else {
                let copy = mark_grus(&path).expect("the copy is written");
                generator.input(&copy);
                if way == "prepared" {
                    generator.register_custom_op(GruOverride::prepared(Precision::Full));
                } else {
                    generator.register_custom_op(GruOverride::new());
                }
            }
            generator.run_from_script();
            module(&mut modules, way, name);
            entry(&mut list, way, &model, name, outputs);
        }
    }
    let code = format!("{modules}\npub const CASES: &[(&str, &str, Run)] = &[\n{list}];\n");
    fs::write(out.join("cases.rs"), code).expect("a file");
}

/// Whether onnx-ir 0.22.0 reads the GRU without marks.
fn parser_accepts(case: &Case) -> bool {
    let activations = case.spec.option("activations").as_array();
    let same = |all: &Vec<_>| all.len() < 4 || all[..2] == all[2..];
    case.get("in.sequence_lens").is_none() && activations.is_none_or(same)
}

fn model(case: &Case, outputs: &[&str], constant_nodes: bool) -> GruModel {
    let value = |key: &str, name: &str| {
        let array = case.get(&format!("{key}.{name}"))?;
        Some(Value {
            name: name.into(),
            shape: array.shape.clone(),
            is_int: name == "sequence_lens",
            data: array.data.clone(),
        })
    };
    let names = ["X", "W", "R", "B", "sequence_lens", "initial_h"];
    let node_inputs = names.map(|name| match value("in", name) {
        Some(_) => name.to_owned(),
        None => String::new(),
    });
    let all = |names: &[&str]| names.iter().filter_map(|name| value("in", name)).collect();
    let output = |name: &str| {
        let present = outputs.contains(&name);
        if present { name.into() } else { String::new() }
    };
    GruModel {
        attributes: attributes(case),
        node_inputs: node_inputs.into(),
        node_outputs: vec![output("Y"), output("Y_h")],
        inputs: all(&["X", "sequence_lens", "initial_h"]),
        outputs: outputs
            .iter()
            .filter_map(|name| value("out", name))
            .collect(),
        constants: all(&["W", "R", "B"]),
        constant_nodes,
    }
}

/// The model from a block that was read from the model.
fn export(case: &Case, model: &GruModel, outputs: &[&str]) -> Vec<u8> {
    let device = Device::flex();
    let file = onnx::Model::from_bytes(model.to_bytes()).expect("a model");
    let block = file.import(file.grus()[0].name(), &device).expect("a GRU");
    let exporter = Exporter::new()
        .with_input_names(model.inputs.iter().map(|input| &input.name))
        .with_output_names(outputs.iter().copied())
        .with_prefix_masks(true);
    // The features are the ones of the case. Its first two sizes are N and T, or T and N.
    let features = |name: &str| case.tensor(&format!("in.{name}")).shape[2];
    let symbols = if block.batch_first() {
        ["N", "T"]
    } else {
        ["T", "N"]
    };
    let inputs = |[first, second]: [usize; 2]| {
        let n = if block.batch_first() { first } else { second };
        let d = block.directions();
        let state = if block.batch_first() { [n, d] } else { [d, n] };
        let x = Tensor::<3>::zeros([first, second, features("X")], &device);
        let h0 = case.get("in.initial_h").map(|_| {
            vec![Tensor::<3>::zeros(
                [state[0], state[1], block.d_hidden],
                &device,
            )]
        });
        let lengths = case
            .get("in.sequence_lens")
            .map(|_| vec![Tensor::<1, Int>::ones([n], &device)]);
        (x, lengths.unwrap_or_default(), h0.unwrap_or_default())
    };
    let forward = |block: &gru_convert::gru_op::GruBlock, (x, mut lengths, mut h0): Inputs| {
        let (y, y_h) = match lengths.pop() {
            Some(lengths) => onnx::run_with_lengths(block, x, lengths, h0.pop()),
            None => onnx::run(block, x, None, h0.pop()),
        };
        let has = |name| outputs.contains(&name);
        (
            if has("Y") { vec![y] } else { vec![] },
            if has("Y_h") { vec![y_h] } else { vec![] },
        )
    };
    let bytes = exporter.export(&block, symbols, inputs, forward);
    bytes.unwrap_or_else(|error| panic!("{}: {error}", case.spec.name()))
}

/// `X`, and `sequence_lens` and `initial_h` if they are present.
type Inputs = (Tensor<3>, Vec<Tensor<1, Int>>, Vec<Tensor<3>>);

fn attributes(case: &Case) -> Vec<(String, Attribute)> {
    let spec = &case.spec;
    let numbers = |name: &str| -> Option<Attribute> {
        let values = spec.option(name).as_array()?.iter().map(|v| v.as_f64());
        let values = values.map(|v| v.expect("a number") as f32);
        Some(Attribute::Floats(values.collect()))
    };
    let texts = |name: &str| -> Option<Attribute> {
        let values = spec.option(name).as_array()?.iter().map(|v| v.as_str());
        let values = values.map(|v| v.expect("a text").to_owned());
        Some(Attribute::Texts(values.collect()))
    };
    let int = |name: &str| spec.option(name).as_i64().map(Attribute::Int);
    let direction = spec.option("direction").as_str();
    let clip = spec.option("clip").as_f64();
    let all = [
        ("hidden_size", spec.option("H").as_i64().map(Attribute::Int)),
        ("linear_before_reset", int("linear_before_reset")),
        ("layout", int("layout")),
        ("direction", direction.map(|d| Attribute::Text(d.into()))),
        ("clip", clip.map(|c| Attribute::Float(c as f32))),
        ("activations", texts("activations")),
        ("activation_alpha", numbers("activation_alpha")),
        ("activation_beta", numbers("activation_beta")),
    ];
    let present = |(name, value): (&str, Option<_>)| Some((name.to_owned(), value?));
    all.into_iter().filter_map(present).collect()
}

fn module(code: &mut String, way: &str, name: &str) {
    writeln!(
        code,
        "mod {way}_{name} {{ include!(concat!(env!(\"OUT_DIR\"), \"/{way}/{name}.rs\")); }}"
    )
    .expect("a string");
}

/// Calls `forward` with the inputs of the case, and names the outputs.
fn entry(code: &mut String, way: &str, model: &GruModel, name: &str, outputs: &[&str]) {
    let inputs: Vec<String> = model
        .inputs
        .iter()
        .map(|input| {
            let read = if input.is_int { "lengths" } else { "floats" };
            format!("{read}(case, {:?}, device)", input.name)
        })
        .collect();
    let inputs = inputs.join(", ");
    let (pattern, results) = match outputs {
        ["Y", "Y_h"] => ("(y, y_h)", "result(\"Y\", y), result(\"Y_h\", y_h)"),
        ["Y"] => ("y", "result(\"Y\", y)"),
        _ => ("y_h", "result(\"Y_h\", y_h)"),
    };
    writeln!(
        code,
        "({way:?}, {name:?}, |case, device| {{ let model = {way}_{name}::Model::from_embedded(device); \
         let {pattern} = model.forward({inputs}); vec![{results}] }}),"
    )
    .expect("a string");
}
