//! Generates Rust code from every recorded ONNX case, and from published models where their wheels are.

mod book;
mod cases;
mod models;
mod no_gru;

use std::{env, path::PathBuf};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    book::write(&out);
    cases::generate(&out);
    models::generate(&out);
    println!("cargo::rerun-if-changed=build");
}
