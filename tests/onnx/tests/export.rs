//! Exported models in ONNX Runtime: every operation by itself, and random chains, at sizes that were not captured.
//! Generated code of the published models in `GRU_MODELS` is exported again, and compared with the original file.
//!
//! `GRU_PYTHON` names a Python with onnx, onnxruntime and safetensors. Without it the models are exported, and the
//! comparison reports *ignored*. `GRU_REQUIRE_PYTHON`, if set to any value, makes that a failure. `GRU_EXPORTS` names a
//! folder where the models stay.

use burn::tensor::{Device, Int, Tensor, TensorData};
use gru_convert::onnx::{Gru, PreparedBlock};
use gru_onnx::Exporter;
use gru_onnx_tests::export::{C, Layers, OPERATIONS, chain};
use gru_op::{GruBlockConfig, Precision, SequenceOptions};
use gru_testkit::random::numbers;
use libtest_mimic::{Arguments, Failed, Trial};
use safetensors::{Dtype, tensor::TensorView};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// The number of random chains.
const CHAINS: u64 = 40;

/// Sizes that were not captured, N and T.
const SIZES: [[usize; 2]; 2] = [[3, 22], [1, 5]];

/// Sizes for chains, which branch on their sizes: any four operations return the shapes that they have in a capture.
const SIZES_OF_CHAINS: [[usize; 2]; 2] = [[3, 48], [1, 16]];

type Forward = Box<dyn Fn(&Layers, Tensor<3>) -> Tensor<3> + Send + Sync>;

fn main() -> ExitCode {
    let mut models: Vec<(String, Forward)> = Vec::new();
    for &(name, operation) in OPERATIONS {
        models.push((name.into(), Box::new(operation)));
    }
    for seed in 0..CHAINS {
        models.push((
            format!("chain_{seed}"),
            Box::new(move |layers, x| chain(layers, x, seed)),
        ));
    }
    let temporary = tempfile::tempdir().expect("a folder");
    let kept = env::var_os("GRU_EXPORTS").map(PathBuf::from);
    let folder = kept.unwrap_or(temporary.path().to_owned());
    let layers = Layers::new(&Device::flex());
    let mut errors: Vec<_> = models
        .iter()
        .filter_map(|model| export(&layers, model, &folder).err())
        .collect();
    errors.extend(published(&folder));
    let written = text(&layers, &folder);
    let program = book(&folder.join("book"));
    let python = env::var_os("GRU_PYTHON");
    let is_optional = python.is_none() && env::var_os("GRU_REQUIRE_PYTHON").is_none();
    let in_python = |name: &str, script: PathBuf, folder: PathBuf| {
        let python = python.clone();
        let run = move || {
            let mut command =
                Command::new(python.ok_or("GRU_PYTHON: expected a Python, got none")?);
            let output = command.arg(script).current_dir(folder).output()?;
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            println!("{text}");
            if output.status.success() {
                Ok(())
            } else {
                Err(text.into())
            }
        };
        Trial::test(name, run).with_ignored_flag(is_optional)
    };
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("runtime.py");
    let of_book = Path::new(env!("OUT_DIR")).join("book.py");
    let trials = vec![
        in_python("onnx_runtime", runtime, folder.clone()),
        in_python("book_python", of_book, folder.join("book")),
        Trial::test("book_program", || Ok(program?)),
        Trial::test("text_is_exported", || written),
        Trial::test("eight_bits_are_exported_in_full_precision", eight_bits),
        Trial::test("every_model_is_exported", move || match errors.len() {
            0 => Ok(()),
            _ => Err(errors.join("\n").into()),
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Trains and exports with the program of the book, and exports its call with lengths.
fn book(folder: &Path) -> Result<(), String> {
    #[allow(missing_docs)]
    mod page {
        include!(concat!(env!("OUT_DIR"), "/book.rs"));
    }
    fs::create_dir_all(folder).expect("a folder");
    env::set_current_dir(folder).expect("a folder");
    page::run().map_err(|error| error.to_string())?;
    let device = Device::flex();
    let gru = GruBlockConfig::new(C, C).init(&device);
    let inputs = |[n, t]: [usize; 2]| {
        let lengths = Tensor::<1, Int>::ones([n], &device);
        (Tensor::<3>::zeros([n, t, C], &device), lengths)
    };
    let exporter = Exporter::new().with_prefix_masks(true);
    let onnx = exporter.export(&gru, ["N", "T"], inputs, page::with_lengths);
    onnx.map(|_| ()).map_err(|error| error.to_string())
}

fn eight_bits() -> Result<(), Failed> {
    let device = Device::flex();
    let block = GruBlockConfig::new(C, C).init(&device);
    let [full, int8] = [Precision::Full, Precision::Int8].map(|precision| {
        let model = PreparedBlock::new(block.clone(), precision);
        let x = |[n, t]: [usize; 2]| Tensor::<3>::zeros([n, t, C], &device);
        let forward = |model: &PreparedBlock, x| model.forward_with(x, SequenceOptions::new());
        Exporter::new().export(&model, ["N", "T"], x, forward)
    });
    if full? == int8? {
        Ok(())
    } else {
        Err("expected equal files".into())
    }
}

/// Writes the model, and its inputs and outputs on Flex.
fn export(
    layers: &Layers,
    (name, forward): &(String, Forward),
    folder: &Path,
) -> Result<(), String> {
    let device = Device::flex();
    let onnx = Exporter::new()
        .with_input_names(["x"])
        .with_output_names(["y"])
        .with_prefix_masks(true)
        .export(
            layers,
            ["N", "T"],
            |[n, t]| Tensor::<3>::zeros([n, t, C], &device),
            forward,
        );
    let onnx = onnx.map_err(|error| format!("{name}: {error}"))?;
    fs::write(folder.join(format!("{name}.onnx")), onnx).expect("a file");
    let sizes = if name.starts_with("chain") {
        SIZES_OF_CHAINS
    } else {
        SIZES
    };
    for [n, t] in sizes {
        let x = TensorData::new(numbers(name, n * t * C, 1.0), [n, t, C]);
        let x = Tensor::<3>::from_data(x, &device);
        let y = forward(layers, x.clone());
        let path = folder.join(format!("{name}.{n}x{t}.safetensors"));
        save(&path, &[("in.x", x.into_data()), ("out.y", y.into_data())]);
    }
    Ok(())
}

/// Greedy text of a model of characters, a step at a time. Python generates the same text from `text.onnx`.
fn text(layers: &Layers, folder: &Path) -> Result<(), Failed> {
    let device = Device::flex();
    let forward = |m: &Layers, (tokens, state): (Tensor<2, Int>, Tensor<3>)| {
        let (y, state) = m.before.forward(m.embedding.forward(tokens), Some(state));
        (m.linear.forward(y).narrow(2, 0, 5), state)
    };
    let inputs = |[n, t]: [usize; 2]| {
        let tokens = Tensor::<2, Int>::zeros([n, t], &device);
        (tokens, Tensor::<3>::zeros([2, n, C], &device))
    };
    let exporter = Exporter::new().with_input_names(["tokens", "state"]);
    let onnx = exporter.export(layers, ["N", "T"], inputs, forward)?;
    fs::write(folder.join("text.onnx"), onnx)?;
    let first = Tensor::<1, Int>::arange(0..5, &device).unsqueeze_dim::<2>(1);
    let (mut tokens, mut state, mut all) = (first.clone(), inputs([5, 1]).1, vec![first]);
    for _ in 0..30 {
        let (scores, next) = forward(layers, (tokens, state));
        tokens = scores.argmax(2).squeeze_dim::<2>(2);
        state = next;
        all.push(tokens.clone());
    }
    let all = Tensor::cat(all, 1).float().into_data();
    save(&folder.join("text.text"), &[("text", all)]);
    Ok(())
}

fn save(path: &Path, tensors: &[(&str, TensorData)]) {
    let floats = |data: &TensorData| data.iter::<f32>().flat_map(f32::to_le_bytes).collect();
    let bytes: Vec<Vec<u8>> = tensors.iter().map(|(_, data)| floats(data)).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, data), bytes)| {
        let view = TensorView::new(Dtype::F32, data.shape().to_vec(), bytes);
        (*name, view.expect("a tensor"))
    });
    fs::write(path, safetensors::serialize(views, None).expect("tensors")).expect("a file");
}

/// Exports generated code of published models, and copies the original files. Returns errors.
///
/// Generated code makes tensors on the device where it was loaded, so it is loaded on the device of its input.
fn published(_folder: &Path) -> Vec<String> {
    #[allow(unused_mut)]
    let mut errors = Vec::new();
    macro_rules! export {
        ($model:ident, $file:literal, $symbols:expr, $inputs:expr, |$m:ident, $x:pat_param| $first:expr => $forward:expr) => {
            #[cfg($model)]
            {
                use gru_onnx_tests::models::$model::gru_op::load;
                let onnx =
                    Exporter::new().export(&load(&Device::flex()), $symbols, $inputs, |_, $x| {
                        let $m = load(&$first.device());
                        $forward
                    });
                match onnx {
                    Ok(onnx) => {
                        let path = _folder.join(concat!(stringify!($model), ".onnx"));
                        fs::write(&path, onnx).expect("a file");
                        let models =
                            env::var_os("GRU_MODELS").expect("the build script found models there");
                        let original = Path::new(&models).join($file);
                        fs::copy(original, path.with_extension("original")).expect("a copy");
                    }
                    Err(error) => errors.push(format!("{}: {error}", stringify!($model))),
                }
            }
        };
    }
    #[allow(unused)]
    fn zeros<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        Tensor::zeros(shape, &Device::flex())
    }
    export!(gtcrn, "gtcrn/gtcrn_simple.onnx", [], |[]| {
        let caches = (zeros([2, 1, 16, 16, 33]), zeros([2, 3, 1, 1, 16]), zeros([2, 1, 33, 16]));
        (zeros([1, 257, 1, 2]), caches)
    }, |m, (mix, (conv, tra, inter))| mix => m.forward(mix, conv, tra, inter));
    export!(nsnet2, "nsnet2/nsnet2-20ms-48k-baseline.onnx", ["N", "T"], |[n, t]| zeros([n, t, 513]),
        |m, x| x => m.forward(x));
    // The other parts of DeepFilterNet read values of tensors.
    export!(df_erb_dec, "deepfilternet3/erb_dec.onnx", ["T"], |[t]| {
        let each = (zeros([1, 64, t, 8]), zeros([1, 64, t, 8]), zeros([1, 64, t, 16]), zeros([1, 64, t, 32]));
        (zeros([1, t, 512]), each)
    }, |m, (emb, (e3, e2, e1, e0))| emb => m.forward(emb, e3, e2, e1, e0));
    errors
}
