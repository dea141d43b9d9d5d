//! Exported models in ONNX Runtime: every operation by itself, and random chains, at sizes that were not captured.
//! Generated code of the published models in `GRU_MODELS` is exported again, and compared with the original file.
//!
//! `GRU_PYTHON` names a Python with onnx, onnxruntime and safetensors. Without it the models are exported, and the
//! comparison reports *ignored*. `GRU_REQUIRE_PYTHON`, if set to any value, makes that a failure.

use burn::tensor::{Device, Tensor, TensorData};
use gru_convert::onnx::{Gru, PreparedBlock};
use gru_onnx::Exporter;
use gru_onnx_tests::export::{C, Layers, OPERATIONS, chain};
use gru_op::{GruBlockConfig, Precision, SequenceOptions};
use gru_testkit::random::numbers;
use libtest_mimic::{Arguments, Failed, Trial};
use safetensors::{Dtype, tensor::TensorView};
use std::{
    env, fs,
    path::Path,
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
    let folder = tempfile::tempdir().expect("a folder");
    let (path, python) = (folder.path().to_owned(), env::var_os("GRU_PYTHON"));
    let is_optional = python.is_none() && env::var_os("GRU_REQUIRE_PYTHON").is_none();
    let export = {
        let path = path.clone();
        move || {
            let layers = Layers::new(&Device::flex());
            let errors: Vec<_> = models
                .iter()
                .filter_map(|model| export(&layers, model, &path).err())
                .collect();
            if errors.is_empty() {
                Ok(())
            } else {
                Err(errors.join("\n"))
            }
        }
    };
    let exported = export();
    #[cfg(gtcrn)]
    published::gtcrn(&path);
    #[cfg(nsnet2)]
    published::nsnet2(&path);
    let compare = move || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("runtime.py");
        let python = python.ok_or("GRU_PYTHON: expected a Python, got none")?;
        let output = Command::new(python).arg(script).arg(&path).output();
        let output = output.map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        println!("{}", text(&output.stdout));
        let error = text(&output.stdout) + &text(&output.stderr);
        if output.status.success() {
            Ok(())
        } else {
            Err(error.into())
        }
    };
    let trials = vec![
        Trial::test("every_model_is_exported", || Ok(exported?)),
        Trial::test("eight_bits_are_exported_in_full_precision", eight_bits),
        Trial::test("onnx_runtime", compare).with_ignored_flag(is_optional),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
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
        let (x, y) = (x.into_data(), y.into_data());
        let view = |data: &'_ TensorData| {
            let bytes: Vec<u8> = data.iter::<f32>().flat_map(f32::to_le_bytes).collect();
            (data.shape().to_vec(), bytes)
        };
        let views = [("in.x", view(&x)), ("out.y", view(&y))];
        let views = views.iter().map(|(name, (shape, bytes))| {
            (
                *name,
                TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor"),
            )
        });
        let bytes = safetensors::serialize(views, None).expect("tensors");
        fs::write(folder.join(format!("{name}.{n}x{t}.safetensors")), bytes).expect("a file");
    }
    Ok(())
}

/// Exports of generated code, and copies of the original files.
#[cfg(any(gtcrn, nsnet2))]
mod published {
    use super::*;
    use gru_onnx_tests::models;

    fn write(folder: &Path, name: &str, onnx: Vec<u8>, original: &str) {
        fs::write(folder.join(format!("{name}.onnx")), onnx).expect("a file");
        let models = env::var_os("GRU_MODELS").expect("the build script found models there");
        let copy = folder.join(format!("{name}.original"));
        fs::copy(Path::new(&models).join(original), copy).expect("the model can be copied");
    }

    #[cfg(gtcrn)]
    pub fn gtcrn(folder: &Path) {
        let device = Device::flex();
        let model = models::gtcrn::gru_op::load(&device);
        let inputs = |[]: [usize; 0]| {
            let mix = Tensor::<4>::zeros([1, 257, 1, 2], &device);
            let conv = Tensor::<5>::zeros([2, 1, 16, 16, 33], &device);
            let tra = Tensor::<5>::zeros([2, 3, 1, 1, 16], &device);
            (mix, conv, tra, Tensor::<4>::zeros([2, 1, 33, 16], &device))
        };
        let onnx = Exporter::new().export(&model, [], inputs, |model, (mix, conv, tra, inter)| {
            model.forward(mix, conv, tra, inter)
        });
        write(
            folder,
            "gtcrn",
            onnx.expect("an export"),
            "gtcrn/gtcrn_simple.onnx",
        );
    }

    #[cfg(nsnet2)]
    pub fn nsnet2(folder: &Path) {
        let device = Device::flex();
        let model = models::nsnet2::gru_op::load(&device);
        let inputs = |[t]: [usize; 1]| Tensor::<3>::zeros([1, t, 513], &device);
        let onnx = Exporter::new().export(&model, ["T"], inputs, |model, x| model.forward(x));
        write(
            folder,
            "nsnet2",
            onnx.expect("an export"),
            "nsnet2/nsnet2-20ms-48k-baseline.onnx",
        );
    }
}
