//! The program and the Python of the book's page on export, as tests.

use std::{fs, path::Path};

pub fn write(out: &Path) {
    let path = "../../docs/src/export.md";
    println!("cargo::rerun-if-changed={path}");
    let page = fs::read_to_string(path).expect("the page");
    let block = |language: &str, k: usize| {
        let block = page.split(&format!("```{language}\n")).nth(k);
        let block = block.and_then(|rest| rest.split("```\n").next());
        block.unwrap_or_else(|| panic!("{path}: expected block {k} of {language}"))
    };
    let (program, lengths) = (block("rust,ignore", 1), block("rust,ignore", 2));
    let more = format!(
        "pub fn run() -> Result<(), Box<dyn std::error::Error>> {{ main() }}\n\
         pub fn with_lengths(gru: &GruBlock, (x, lengths): (Tensor<3>, burn::tensor::Tensor<1, burn::tensor::Int>)) \
         -> (Tensor<3>, Tensor<3>) {{ use burn::tensor::Int; use gru_op::SequenceOptions;\n{lengths}\n(y, state) }}"
    );
    fs::write(out.join("book.rs"), format!("{program}{more}")).expect("a file");
    let check = "assert abs(y[0, :, 0] - [0.1, 0.2, 0.3, 0.4]).max() < 0.05\n";
    fs::write(out.join("book.py"), block("python", 1).to_owned() + check).expect("a file");
}
