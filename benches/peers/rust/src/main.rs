//! candle, rten or tract as a peer of the benchmark. `benches/peer.rs` describes the protocol.
//!
//! With the arguments `MODEL.onnx INPUTS OUTPUTS`, rten runs a model for `tests/onnx/runtime.py`.

mod candle;
mod files;
mod onnx;
#[path = "../../../protocol.rs"]
mod protocol;

use std::{env, error::Error, fs, path::Path};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() {
    let version = |package| protocol::version(include_str!("../Cargo.lock"), package);
    let arguments: Vec<_> = env::args().collect();
    if let [_, model, inputs, outputs] = &arguments[..] {
        files::run(model.as_ref(), inputs.as_ref(), outputs.as_ref())
            .unwrap_or_else(|error| panic!("{error}"));
        return;
    }
    match arguments.get(1).map(String::as_str) {
        Some("candle") => protocol::serve(version("candle-core"), candle::prepare),
        Some("rten") => protocol::serve(version("rten"), onnx::rten),
        Some("tract") => protocol::serve(version("tract-onnx"), onnx::tract),
        other => protocol::say(&format!("no\t{other:?}: no such peer")),
    }
}

/// The sizes of a problem file, and its numbers: x, initial states, gradient of the output, weights.
fn read(problem: &Path) -> Result<([usize; 6], Vec<f32>)> {
    let bytes = fs::read(problem)?;
    let (words, _) = bytes.as_chunks::<4>();
    let (head, floats) = words.split_first_chunk::<8>().ok_or("too short")?;
    let [sizes @ .., kind, _] = head.map(|word| i32::from_le_bytes(word) as usize);
    if kind != 0 {
        return Err("does not compute rows with starts or lengths".into());
    }
    Ok((
        sizes,
        floats
            .iter()
            .map(|&word| f32::from_le_bytes(word))
            .collect(),
    ))
}
