//! Published models from the folder `GRU_MODELS` of `benches/models/fetch.py`. Each is generated with `GruBlock`,
//! prepared with 8 bits, with Burn's own GRU, and without GRUs. A missing model is left out.

use crate::no_gru::NoGru;
use burn_onnx::ModelGen;
use gru_onnx::{GruOverride, Precision};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The name of the module and of the `cfg`, and the file.
const MODELS: [(&str, &str); 5] = [
    ("gtcrn", "gtcrn/gtcrn_simple.onnx"),
    ("nsnet2", "nsnet2/nsnet2-20ms-48k-baseline.onnx"),
    ("df_enc", "deepfilternet3/enc.onnx"),
    ("df_erb_dec", "deepfilternet3/erb_dec.onnx"),
    ("df_dec", "deepfilternet3/df_dec.onnx"),
];

pub fn generate(out: &Path) {
    println!("cargo::rerun-if-env-changed=GRU_MODELS");
    let folder = env::var_os("GRU_MODELS").map(PathBuf::from);
    for (name, file) in MODELS {
        println!("cargo::rustc-check-cfg=cfg({name})");
        let path = folder.as_ref().map(|folder| folder.join(file));
        let Some(path) = path.filter(|path| path.exists()) else {
            continue;
        };
        println!("cargo::rerun-if-changed={}", path.display());
        println!("cargo::rustc-cfg={name}");
        // The generated file has the name of the model file.
        let input = out.join(format!("{name}.onnx"));
        fs::copy(&path, &input).expect("the model can be copied");
        let input = input.display().to_string();
        let mut ours = ModelGen::new();
        ours.input(&input).out_dir("gru_op");
        ours.register_op_override(GruOverride::new())
            .run_from_script();
        let mut int8 = ModelGen::new();
        int8.input(&input).out_dir("int8");
        int8.register_op_override(GruOverride::prepared(Precision::Int8))
            .run_from_script();
        let mut burn = ModelGen::new();
        burn.input(&input).out_dir("burn_gru").run_from_script();
        let mut rest = ModelGen::new();
        rest.input(&input).out_dir("rest");
        rest.register_op_override(NoGru).run_from_script();
    }
}
