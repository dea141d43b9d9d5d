//! Compares the model with the results of g2p_en for the same weights, which `reference.py` recorded,
//! and tests the program.
//!
//! G2P_WEIGHTS names the wheel or the checkpoint. Without it, trials that need the weights are ignored,
//! or fail if GRU_REQUIRE_MODELS is set. They never pass.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

use burn::tensor::Device;
use g2p::model::G2p;
use g2p::symbols::{END, PHONEMES};
use g2p::weights;
use gru_convert::StateDict;
use gru_op::Precision;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

const WEIGHTS: &str = "G2P_WEIGHTS";
const REQUIRE: &str = "GRU_REQUIRE_MODELS";
/// Rows per batch, with words of any length.
const BATCH: usize = 64;
/// The allowed distance from float64 as a multiple of the distance of numpy's float32. It allows another
/// order of summation and other approximations of exp and tanh. A wrong term is larger by orders of
/// magnitude.
const TIMES: f64 = 4.0;

fn main() {
    let model = |name: &str, test: fn(&G2p) -> Result<(), String>| {
        Trial::ignorable_test(name.to_owned(), move || with_weights(|_| test(loaded()?)))
    };
    let program = |name: &str, test: fn(&Path) -> Result<(), String>| {
        Trial::ignorable_test(name.to_owned(), move || with_weights(test))
    };
    let plain = |name: &str, test: fn() -> Result<(), String>| {
        Trial::test(name.to_owned(), move || Ok(test()?))
    };
    let trials = vec![
        model("phonemes/one-by-one", |model| phonemes(model, 1)),
        model("phonemes/batched", |model| phonemes(model, BATCH)),
        model("scores", scores),
        model("scores/batched", batched_scores),
        model("no-words", no_words),
        program("phonemes/rounded", rounded),
        program("program/words", words),
        program("program/odd-text", odd_text),
        program("program/no-text", no_text),
        plain("program/no-weights", no_weights),
        plain("program/other-weights", other_weights),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn with_weights(test: impl FnOnce(&Path) -> Result<(), String>) -> Result<Completion, Failed> {
    match env::var_os(WEIGHTS) {
        Some(path) => {
            test(Path::new(&path))?;
            Ok(Completion::Completed)
        }
        None if env::var_os(REQUIRE).is_some() => Err(Failed::from(format!(
            "{WEIGHTS} is not set, and {REQUIRE} is"
        ))),
        None => Ok(Completion::ignored_with(format!("{WEIGHTS} is not set"))),
    }
}

fn loaded() -> Result<&'static G2p, String> {
    static MODEL: OnceLock<Result<G2p, String>> = OnceLock::new();
    let load = || {
        let path = env::var_os(WEIGHTS).expect("the variable is set");
        let model = weights::load(Path::new(&path), &Device::flex(), Precision::Full);
        model.map_err(|e| e.to_string())
    };
    MODEL.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn recorded(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference")).join(file)
}

/// All recorded words with their phonemes, including the empty word.
fn list() -> Result<Vec<(String, String)>, String> {
    let text = fs::read_to_string(recorded("phonemes.tsv")).map_err(|e| e.to_string())?;
    let entry = |line: &str| {
        let (word, phonemes) = line.split_once('\t').ok_or(line)?;
        Ok((word.to_owned(), phonemes.to_owned()))
    };
    let list: Vec<_> = text.lines().map(entry).collect::<Result<_, String>>()?;
    match list.len() {
        5000.. => Ok(list),
        few => Err(format!("expected at least 5000 recorded words, got {few}")),
    }
}

fn phonemes(model: &G2p, batch: usize) -> Result<(), String> {
    for part in list()?.chunks(batch) {
        let words: Vec<&str> = part.iter().map(|(word, _)| word.as_str()).collect();
        let phonemes = model.phonemes(&words).map_err(|e| e.to_string())?;
        if phonemes.len() != part.len() {
            return Err(format!("got {} of {} words", phonemes.len(), part.len()));
        }
        for (phonemes, (word, expected)) in phonemes.iter().zip(part) {
            if phonemes.join(" ") != *expected {
                return Err(format!(
                    "{word:?}: expected {expected}, got {}",
                    phonemes.join(" ")
                ));
            }
        }
    }
    Ok(())
}

/// The words of the list that must keep their phonemes with rounded weights, in thousandths. Measured on x86-64:
/// 996.4 and 986.3. Gates of other instruction sets may change some words.
const SAME_WORDS: [(Precision, usize); 2] = [(Precision::Bf16, 995), (Precision::Int8, 985)];

/// Most words have the same phonemes with rounded weights.
fn rounded(path: &Path) -> Result<(), String> {
    let list = list()?;
    for (precision, least) in SAME_WORDS {
        let model = weights::load(path, &Device::flex(), precision).map_err(|e| e.to_string())?;
        let mut same = 0;
        for part in list.chunks(BATCH) {
            let words: Vec<&str> = part.iter().map(|(word, _)| word.as_str()).collect();
            let phonemes = model.phonemes(&words).map_err(|e| e.to_string())?;
            for (got, (_, expected)) in phonemes.iter().zip(part) {
                same += usize::from(got.join(" ") == *expected);
            }
        }
        let result = format!(
            "{precision:?}: {same} of {} words have the phonemes of float32",
            list.len()
        );
        eprintln!("{result}");
        if same * 1000 < list.len() * least {
            return Err(result);
        }
    }
    Ok(())
}

/// Words with their float64 scores.
type Scored = Vec<(String, Vec<f64>)>;

/// The scores of some words, and the distance of numpy's float32 from them.
fn expected_scores() -> Result<(Scored, f64), String> {
    let dict = StateDict::from_npz(recorded("logits.npz")).map_err(|e| e.to_string())?;
    let numbers = |key: &str| {
        let data = dict
            .get(key)
            .ok_or(format!("{key}: expected a record, got none"))?;
        data.clone()
            .try_into_vec::<f64>()
            .map_err(|e| e.to_string())
    };
    const ERROR: &str = "float32 of numpy";
    let error = numbers(ERROR)?[0];
    let words = dict.keys().filter(|key| *key != ERROR);
    let words: Scored = words
        .map(|word| Ok((word.to_owned(), numbers(word)?)))
        .collect::<Result<_, String>>()?;
    if words.len() >= 30 && error > 0.0 && error < 1e-4 {
        Ok((words, error))
    } else {
        Err(format!("{} words, error {error}", words.len()))
    }
}

fn close(word: &str, got: &[f32], expected: &[f64], allowed: f64) -> Result<f64, String> {
    if got.len() != expected.len() {
        return Err(format!(
            "{word}: {} scores, expected {}",
            got.len(),
            expected.len()
        ));
    }
    let off = |(&got, &expected): (&f32, &f64)| (f64::from(got) - expected).abs();
    // NaN counts as the largest value and is never close.
    let worst = got.iter().zip(expected).map(off).max_by(f64::total_cmp);
    let worst = worst.ok_or(format!("{word}: no scores"))?;
    if worst <= allowed {
        Ok(worst)
    } else {
        Err(format!(
            "{word}: difference {worst:.3e}, allowed {allowed:.3e}"
        ))
    }
}

fn scores(model: &G2p) -> Result<(), String> {
    let (words, error) = expected_scores()?;
    let mut worst = 0.0;
    for (word, expected) in &words {
        let (_, scores) = model.run(&[word]).map_err(|e| e.to_string())?;
        worst = f64::max(
            worst,
            close(word, &scores.concat(), expected, TIMES * error)?,
        );
    }
    eprintln!("scores: distance from float64 {worst:.2e}, of numpy's float32 {error:.2e}");
    Ok(())
}

/// All words as one batch, each until its end.
fn batched_scores(model: &G2p) -> Result<(), String> {
    let (words, error) = expected_scores()?;
    let all: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
    let (phonemes, scores) = model.run(&all).map_err(|e| e.to_string())?;
    for (row, (word, expected)) in words.iter().enumerate() {
        let steps = expected.len() / PHONEMES.len();
        let of_row = |step: &Vec<f32>| step[row * PHONEMES.len()..][..PHONEMES.len()].to_vec();
        let got: Vec<f32> = scores.iter().take(steps).flat_map(of_row).collect();
        close(word, &got, expected, TIMES * error)?;
        if phonemes[row].contains(&END) || phonemes[row].len() + 1 < steps {
            return Err(format!("{word}: {:?} in {steps} steps", phonemes[row]));
        }
    }
    Ok(())
}

fn no_words(model: &G2p) -> Result<(), String> {
    match model.phonemes(&[]).map_err(|e| e.to_string())? {
        none if none.is_empty() => Ok(()),
        some => Err(format!("{some:?}")),
    }
}

fn g2p(arguments: &[OsString], input: &[u8]) -> Result<Output, String> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_g2p"));
    program.args(arguments).stdin(Stdio::piped());
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().map_err(|e| e.to_string())?;
    let mut stdin = child.stdin.take().expect("standard input is piped");
    // The program does not read its input if the arguments are invalid.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().map_err(|e| e.to_string())
}

fn with(weights: &Path, more: &[&str]) -> Vec<OsString> {
    let mut arguments = vec!["--weights".into(), weights.into()];
    arguments.extend(more.iter().map(OsString::from));
    arguments
}

fn prints(output: &Output, expected: &str) -> Result<(), String> {
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && text == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, got {output:?}"))
    }
}

/// The output must be one line with exit code 1 and must contain this text.
fn fails_with(output: &Output, expected: &str) -> Result<(), String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let refused = output.status.code() == Some(1) && output.stdout.is_empty();
    if refused && text.lines().count() == 1 && text.contains(expected) {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, got {output:?}"))
    }
}

fn words(weights: &Path) -> Result<(), String> {
    const EXPECTED: &str = "HH EH1 L OW0\nR IH0 K ER1 AH0 N T\n";
    let given = g2p(&with(weights, &["hello", "recurrent"]), b"")?;
    prints(&given, EXPECTED)?;
    prints(
        &g2p(&with(weights, &["hello", "recurrent", "--int8"]), b"")?,
        EXPECTED,
    )?;
    let piped = g2p(
        &with(weights, &["--batch", "7"]),
        b"Hello\r\n\n \tRECURRENT",
    )?;
    prints(&piped, EXPECTED)
}

/// The unusual words of the list, in lower case as the program writes them.
fn odd_text(weights: &Path) -> Result<(), String> {
    let list = list()?;
    let lower = |(word, _): &&(String, String)| {
        !word.is_empty() && word.to_lowercase() == *word && !word.is_ascii() || word.len() > 500
    };
    let odd: Vec<_> = list.iter().filter(lower).collect();
    if odd.len() < 5 {
        return Err(format!("{} odd words", odd.len()));
    }
    let mut input = String::from("\n\n");
    let mut expected = String::new();
    for (word, phonemes) in odd {
        input += &format!("{word}\n\n");
        expected += &format!("{phonemes}\n");
    }
    prints(
        &g2p(&with(weights, &["--batch", "3"]), input.as_bytes())?,
        &expected,
    )?;
    let not_text = g2p(&with(weights, &[]), b"hello\n\xff\xfe\n")?;
    match String::from_utf8_lossy(&not_text.stderr) {
        text if text.contains("error: cannot read the words: ") => Ok(()),
        text => Err(text.into_owned()),
    }
}

fn no_text(weights: &Path) -> Result<(), String> {
    prints(&g2p(&with(weights, &[]), b"")?, "")
}

fn no_weights() -> Result<(), String> {
    let nowhere = Path::new("no/such/checkpoint.npz");
    fails_with(
        &g2p(&with(nowhere, &["hello"]), b"")?,
        "error: no/such/checkpoint.npz: ",
    )?;
    let nowhere = Path::new("no/such.whl");
    fails_with(
        &g2p(&with(nowhere, &["hello"]), b"")?,
        "error: cannot read no/such.whl: ",
    )
}

/// Arrays of another model, a file without arrays, an archive without the weights.
fn other_weights() -> Result<(), String> {
    let seeds = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds"));
    let other = g2p(&with(&seeds.join("npz/stored"), &["hello"]), b"")?;
    fails_with(&other, "enc_emb: expected a tensor of this name, got none")?;
    let text = g2p(&with(&seeds.join("make.py"), &["hello"]), b"")?;
    fails_with(&text, "make.py: ")?;
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let wheel = folder.path().join("g2p.whl");
    fs::copy(seeds.join("npz/stored"), &wheel).map_err(|e| e.to_string())?;
    let output = g2p(&with(&wheel, &["hello"]), b"")?;
    fails_with(&output, "expected a wheel with g2p_en/checkpoint20.npz: ")
}
