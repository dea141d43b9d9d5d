//! Texts of several files, read in chunks from any position. A reader returns the text of all bytes, and
//! rejects all bytes that are not UTF-8.
#![cfg_attr(fuzzing, no_main)]

use arbitrary::Arbitrary;
use char_model::{data::Corpus, text::Text};
use gru_fuzz::fuzz_target;
use std::{env, fs, path::PathBuf, process};

#[derive(Arbitrary, Debug)]
struct Case {
    /// Bytes of a file, and their number of repetitions, so that few bytes fill more than one chunk.
    files: Vec<(Vec<u8>, u16)>,
    start: u16,
    validation: u8,
    seq: u8,
    batch: u8,
}

const LARGEST: usize = 50_000;

fuzz_target!(|case: Case| {
    let folder = env::temp_dir().join(format!("gru-fuzz-text-{}", process::id()));
    fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let files = case.files.iter().take(3).enumerate();
    let files: Vec<(PathBuf, Vec<u8>)> = files
        .map(|(k, (bytes, times))| {
            let times = (*times as usize).min(LARGEST / bytes.len().max(1));
            (folder.join(k.to_string()), bytes.repeat(times))
        })
        .collect();
    for (path, bytes) in &files {
        fs::write(path, bytes).expect("the file can be written");
    }
    read(&case, &files);
    fs::remove_dir_all(&folder).expect("the folder still exists");
});

fn read(case: &Case, files: &[(PathBuf, Vec<u8>)]) {
    let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
    let expected = expected(files).filter(|text| {
        let first = text.chars().next();
        text.chars().any(|c| Some(c) != first)
    });
    let text = Text::open(&paths);
    assert_eq!(text.is_ok(), expected.is_some(), "{:?}", text.err());
    let (Ok((text, vocabulary)), Some(expected)) = (text, expected) else {
        return;
    };
    assert_eq!(text.characters(), expected.chars().count());
    let start = case.start as usize % (text.characters() + 1);
    let mut reader = text.read_from(start);
    for c in expected.chars().skip(start) {
        assert_eq!(reader.read().expect("reading succeeded before"), Some(c));
    }
    assert_eq!(reader.read().expect("reading succeeded before"), None);

    let validation = (case.validation as f64 + 1.0) / 257.0;
    let (seq, batch) = (case.seq as usize + 1, case.batch as usize + 1);
    let Ok(corpus) = Corpus::new(text, vocabulary, validation, seq) else {
        return;
    };
    let streams = corpus.train_streams(batch, seq);
    let slack = streams.slack(seq);
    for windows in [
        streams.read(seq, slack),
        streams.read_all(seq),
        corpus.validation_streams(batch).read_all(seq),
    ] {
        let mut windows = windows.expect("reading succeeded before");
        while let Some(window) = windows.read().expect("reading succeeded before") {
            assert!(window.len() > 0);
        }
    }
}

/// All files as one text, or none if one file is not UTF-8.
fn expected(files: &[(PathBuf, Vec<u8>)]) -> Option<String> {
    let mut all = String::new();
    for (k, (_, bytes)) in files.iter().enumerate() {
        let text = std::str::from_utf8(bytes).ok()?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = text.replace("\r\n", "\n");
        all.push_str(&text);
        if k + 1 < files.len() && !bytes.is_empty() && !text.ends_with('\n') {
            all.push('\n');
        }
    }
    Some(all)
}
