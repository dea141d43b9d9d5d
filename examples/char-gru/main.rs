//! Train a character-level GRU on a text and let it write. Arguments and exit codes only; the
//! loop is in `train.rs`.

mod backend;
mod checkpoint;
mod clip;
mod config;
mod data;
mod error;
mod model;
mod ngram;
mod progress;
mod sample;
mod train;

use std::f64::consts::LN_2;
use std::io::{self, Write};
use std::process::ExitCode;

use burn::module::Module;
use clap::Parser;
use rand::SeedableRng;
use rand::rngs::StdRng;

use config::Config;
use data::{Corpus, Vocabulary};
use error::Error;
use model::CharGruConfig;
use ngram::Reference;
use progress::say;

fn main() -> ExitCode {
    match run(&Config::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Some drivers explain themselves in paragraphs; one line is promised.
            let message = error.to_string();
            let line: Vec<&str> = message.split_whitespace().collect();
            eprintln!("error: {}", line.join(" "));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(config: &Config) -> Result<(), Error> {
    let text = match &config.text {
        Some(path) => data::read_text(path)?,
        None => lipsum::LIBER_PRIMUS.to_string(),
    };
    let corpus = Corpus::new(&text, config.validation, config.seq)?;
    let vocabulary = &corpus.vocabulary;
    let prompt = prompt(config, vocabulary)?;
    for path in [Some(&config.out), config.save_init.as_ref()]
        .into_iter()
        .flatten()
    {
        checkpoint::check_writable(path)?;
    }
    let device = config.backend.device()?;

    let sizes = CharGruConfig::new(
        vocabulary.len(),
        config.embed,
        config.hidden,
        config.layers,
        config.dropout,
    );
    say(&format!(
        "{} characters, {} distinct; {} to train on, {} to validate",
        corpus.train.len() + corpus.validation.len(),
        vocabulary.len(),
        corpus.train.len(),
        corpus.validation.len()
    ));
    let Reference { unigram, bigram } =
        Reference::new(&corpus.train, &corpus.validation, vocabulary.len());
    say(&format!(
        "reference   1-gram {unigram:.3} nats, {:.3} bits   2-gram {bigram:.3} nats, {:.3} bits per character",
        unigram / LN_2,
        bigram / LN_2
    ));

    let trained = train::train(config, &sizes, &corpus, &device)?;
    checkpoint::save(&trained.model, &sizes, vocabulary, &config.out)?;
    say(&format!(
        "saved {} ({} parameters): epoch {}, validation {:.3} nats, {:.3} bits per character",
        config.out.display(),
        trained.model.num_params(),
        trained.epoch,
        trained.validation,
        trained.validation / LN_2
    ));

    let mut rng = StdRng::seed_from_u64(config.seed);
    let mut out = io::stdout();
    // As with `say`, a reader that went away is no error of ours.
    let _ = write!(out, "\n{}", config.prompt.as_deref().unwrap_or_default());
    sample::sample(
        &trained.model,
        &prompt,
        config.sample_length,
        config.temperature,
        &mut rng,
        &device,
        |token| {
            let _ = write!(out, "{}", vocabulary.character(token)).and_then(|()| out.flush());
        },
    )?;
    say("");
    Ok(())
}

/// The tokens to continue: those of `--prompt`, or a line's beginning, or the text's.
fn prompt(config: &Config, vocabulary: &Vocabulary) -> Result<Vec<i32>, Error> {
    match config.prompt.as_deref() {
        Some(prompt) if !prompt.is_empty() => vocabulary.encode(prompt),
        _ => Ok(vocabulary.encode("\n").unwrap_or_else(|_| vec![0])),
    }
}
