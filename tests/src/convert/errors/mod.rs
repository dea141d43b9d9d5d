//! Every error of the converters, with its text.

mod blocks;
mod files;
mod keras;
mod onnx;
mod operators;
mod pytorch;

use super::*;

type ErrorCase = (&'static str, fn() -> Result<(), ConvertError>, &'static str);

pub fn trials() -> impl Iterator<Item = Trial> {
    let cases = [
        pytorch::CASES,
        keras::CASES,
        onnx::CASES,
        operators::CASES,
        blocks::CASES,
        files::CASES,
    ];
    let cases = cases.into_iter().flatten().map(|&(name, run, expected)| {
        Trial::test(format!("convert/error/{name}"), move || match run() {
            Ok(()) => Err("expected an error".into()),
            Err(error) if error.to_string() == expected => Ok(()),
            Err(error) => Err(format!("expected \"{expected}\", got \"{error}\"").into()),
        })
    });
    cases.chain(blocks::exports())
}
