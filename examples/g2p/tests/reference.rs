//! Compares the model with the results of g2p_en for the same weights, which `reference.py` recorded, and runs the
//! program.
//!
//! G2P_WEIGHTS names the wheel. Without it, the trials are ignored, or fail if GRU_REQUIRE_MODELS is set. They never
//! pass.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use burn::tensor::Device;
use g2p::symbols::PHONEMES;
use g2p::{Error, weights};
use gru_convert::StateDict;
use gru_op::Precision;
use libtest_mimic::{Arguments, Completion, Trial};

const WEIGHTS: &str = "G2P_WEIGHTS";
const REQUIRE: &str = "GRU_REQUIRE_MODELS";

fn main() {
    let trial = |name: &str, test: fn(&Path) -> Result<(), Error>| {
        Trial::ignorable_test(name.to_owned(), move || match env::var_os(WEIGHTS) {
            Some(path) => {
                test(Path::new(&path)).map_err(|e| e.to_string())?;
                Ok(Completion::Completed)
            }
            None if env::var_os(REQUIRE).is_some() => {
                Err(format!("{WEIGHTS} is not set, and {REQUIRE} is").into())
            }
            None => Ok(Completion::ignored_with(format!("{WEIGHTS} is not set"))),
        })
    };
    let trials = vec![
        trial("phonemes/one-by-one", |path| {
            phonemes(path, Precision::Full, 1, 1000)
        }),
        trial("phonemes/batched", |path| {
            phonemes(path, Precision::Full, 64, 1000)
        }),
        // Most words have the same phonemes with rounded weights. Measured on x86-64: 996.4 and 986.3 of 1000. Gates of
        // other instruction sets may change some words.
        trial("phonemes/bf16", |path| {
            phonemes(path, Precision::Bf16, 64, 995)
        }),
        trial("phonemes/int8", |path| {
            phonemes(path, Precision::Int8, 64, 985)
        }),
        trial("scores/one-by-one", |path| scores(path, 1)),
        trial("scores/batched", |path| scores(path, 64)),
        trial("program", program),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn recorded(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference")).join(file)
}

/// At least `least` of 1000 words have the phonemes of the package.
fn phonemes(path: &Path, precision: Precision, batch: usize, least: usize) -> Result<(), Error> {
    let model = weights::load(path, precision, &Device::flex())?;
    let text = fs::read_to_string(recorded("phonemes.tsv"))?;
    let list: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    assert!(list.len() > 5000, "{} recorded words", list.len());
    let mut wrong = vec![];
    for part in list.chunks(batch) {
        let words: Vec<&str> = part.iter().map(|(word, _)| *word).collect();
        for (got, entry) in model.phonemes(&words)?.iter().zip(part) {
            if got.join(" ") != entry.1 {
                wrong.push((entry, got.join(" ")));
            }
        }
    }
    eprintln!("{precision:?}: {} of {} differ", wrong.len(), list.len());
    if wrong.len() * 1000 <= list.len() * (1000 - least) {
        Ok(())
    } else {
        Err(format!("{precision:?}: {wrong:?}").into())
    }
}

/// The scores of some words are as close to float64 as numpy's float32, up to this factor. It allows another order of
/// summation and other approximations of exp and tanh. A wrong term is larger by orders of magnitude.
const TIMES: f64 = 4.0;

fn scores(path: &Path, batch: usize) -> Result<(), Error> {
    const NUMPY: &str = "float32 of numpy";
    let model = weights::load(path, Precision::Full, &Device::flex())?;
    let dict = StateDict::from_npz(recorded("logits.npz"))?;
    let numbers = |key: &str| -> Result<Vec<f64>, Error> {
        let data = dict.get(key).ok_or("expected the record")?.clone();
        Ok(data.try_into_vec()?)
    };
    let of_numpy = numbers(NUMPY)?[0];
    assert!(of_numpy > 0.0 && of_numpy < 1e-4, "{of_numpy}");
    let words: Vec<&str> = dict.keys().filter(|key| *key != NUMPY).collect();
    assert!(words.len() >= 30, "{} words", words.len());
    for words in words.chunks(batch) {
        let (_, scores) = model.run(words)?;
        for (row, word) in words.iter().enumerate() {
            let expected = numbers(word)?;
            let steps = expected.chunks_exact(PHONEMES.len());
            assert!(scores.len() >= steps.len(), "{word}: {}", scores.len());
            for (step, expected) in scores.iter().zip(steps) {
                let got = &step[row * PHONEMES.len()..];
                for (&got, expected) in got.iter().zip(expected) {
                    let off = (f64::from(got) - expected).abs();
                    // False for NaN too.
                    assert!(off <= TIMES * of_numpy, "{word}: off by {off:e}");
                }
            }
        }
    }
    Ok(())
}

fn program(path: &Path) -> Result<(), Error> {
    for precision in [&[][..], &["--int8"]] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_g2p"));
        program.arg("--weights").arg(path).args(precision);
        let output = program.args(["Hello", "recurrent"]).output()?;
        let text = String::from_utf8(output.stdout)?;
        assert_eq!(text, "HH EH1 L OW0\nR IH0 K ER1 AH0 N T\n");
    }
    Ok(())
}
