//! Every way in which weights can be wrong: each has its own words.

mod blocks;
mod files;
mod keras;
mod onnx;
mod operators;
mod pytorch;

use super::*;

type Wrong = (&'static str, fn() -> Result<(), ConvertError>, &'static str);

pub fn trials() -> impl Iterator<Item = Trial> {
    let wrong = [
        pytorch::wrong(),
        keras::wrong(),
        onnx::wrong(),
        operators::wrong(),
        blocks::wrong(),
        files::wrong(),
    ];
    wrong.into_iter().flatten().map(|(name, run, says)| {
        Trial::test(format!("convert/wrong/{name}"), move || match run() {
            Ok(()) => Err("expected an error".into()),
            Err(error) if error.to_string() == says => Ok(()),
            Err(error) => Err(format!("got \"{error}\", expected \"{says}\"").into()),
        })
    })
}
