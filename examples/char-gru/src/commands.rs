//! The commands, their output and their exit codes.

use std::f64::consts::LN_2;
use std::io::{self, Write};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, read_sync};
use char_model::data::{Corpus, Streams};
use char_model::error::Error as ModelError;
use char_model::evaluate::evaluate;
use char_model::model::{CharGru, CharGruConfig};
use char_model::ngram::Reference;
use char_model::sample::{Choice, Writer, prompt};
use char_model::vocabulary::Vocabulary;
use char_model::{exchange, file, text};
use gru_convert::StateDict;
use training_kit::progress::say;

use crate::backend::Backend;
use crate::config::{
    Cli, Command, EvalArgs, ExportArgs, ImportArgs, SampleArgs, TrainArgs, Writing,
};
use crate::devices;
use crate::error::{Error, STOPPED};
use crate::train::{Files, train};

/// Default number of characters per window, large enough that the time per call does not matter.
const SEQ: usize = 128;

/// Runs the command of a command line. Prints an error as one line, and returns the exit code.
pub fn run(cli: &Cli) -> u8 {
    let result = match &cli.command {
        None => devices::guard(&cli.train.devices, || run_train(&cli.train)),
        Some(Command::Train(args)) => devices::guard(&args.devices, || run_train(args)),
        Some(Command::Sample(args)) => run_sample(args),
        Some(Command::Eval(args)) => run_eval(args),
        Some(Command::Export(args)) => run_export(args),
        Some(Command::Import(args)) => run_import(args),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            // Errors of some drivers have several paragraphs. This prints one line.
            let message = error.to_string();
            let line: Vec<&str> = message.split_whitespace().collect();
            eprintln!("error: {}", line.join(" "));
            error.exit_code()
        }
    }
}

fn run_train(args: &TrainArgs) -> Result<(), Error> {
    let text = if args.text.is_empty() {
        lipsum::LIBER_PRIMUS.to_string()
    } else {
        text::read(&args.text)?
    };
    let corpus = Corpus::new(&text, args.validation, args.seq)?;
    let prompt = prompt(args.writing.prompt.as_deref(), &corpus.vocabulary)?;
    let files = Files::create(&args.out)?;
    let devices = devices::open(&args.devices, args.backend)?;
    let device = &devices[0];
    let sizes = CharGruConfig::new(
        corpus.vocabulary.len(),
        args.embed,
        args.hidden,
        args.layers,
        args.dropout,
    );
    say(&format!(
        "{} characters, {} distinct; {} to train on, {} to validate",
        corpus.tokens().len(),
        corpus.vocabulary.len(),
        corpus.train().len(),
        corpus.validation().len()
    ));
    let reference = Reference::new(&corpus);
    say(&format!("reference   {}", counted(&reference)));

    let stop = Arc::new(AtomicBool::new(false));
    let on_signal = stop.clone();
    // If another handler exists, Ctrl-C ends the program as usual.
    let _ = ctrlc::set_handler(move || {
        // A second signal does not wait for the end of a step.
        if on_signal.swap(true, Ordering::Relaxed) {
            process::exit(STOPPED.into());
        }
    });
    let model = train(args, &sizes, &corpus, &reference, &files, &devices, &stop)?;
    // From here on, a signal ends the program.
    stop.store(true, Ordering::Relaxed);
    let judges = corpus.validation_streams(args.batch);
    let loss = read_sync(evaluate(&model, &judges, args.seq, device))?;
    say(&format!(
        "{} holds the model ({} parameters, validation {loss:.3} nats, {:.3} bits per character), \
         its log and its chart",
        args.out.display(),
        model.num_params(),
        loss / LN_2
    ));
    say("");
    write(
        &model,
        &corpus.vocabulary,
        &prompt,
        &args.writing,
        args.seed,
        device,
    )
}

fn counted(reference: &Reference) -> String {
    let one = |name: &str, nats: f64| format!("{name} {nats:.3} nats, {:.3} bits", nats / LN_2);
    format!(
        "{}   {} per character",
        one("1-gram", reference.unigram),
        one("2-gram", reference.bigram)
    )
}

fn run_sample(args: &SampleArgs) -> Result<(), Error> {
    let device = args.backend.device()?;
    let (model, _, vocabulary) = file::load(&args.model, &device)?;
    let prompt = prompt(args.writing.prompt.as_deref(), &vocabulary)?;
    write(
        &model,
        &vocabulary,
        &prompt,
        &args.writing,
        args.seed,
        &device,
    )
}

/// Writes the prompt and the generated text. Prints the speed to standard error.
fn write(
    model: &CharGru,
    vocabulary: &Vocabulary,
    prompt: &[i32],
    writing: &Writing,
    seed: u64,
    device: &Device,
) -> Result<(), Error> {
    let choice = Choice {
        temperature: writing.temperature,
        top_k: writing.top_k,
        seed,
    };
    let mut out = io::stdout();
    let _ = write!(out, "{}", writing.prompt.as_deref().unwrap_or_default());
    let mut writer = Writer::new(model, prompt, choice, device);
    let start = Instant::now();
    for _ in 0..writing.length {
        let token = read_sync(writer.write())?;
        let written = write!(out, "{}", vocabulary.character(token)).and_then(|()| out.flush());
        // As for `say`, a closed reader is not an error. It ends the text.
        if written.is_err() {
            return Ok(());
        }
    }
    say("");
    if writing.length > 0 {
        let speed = writing.length as f64 / start.elapsed().as_secs_f64().max(1e-9);
        let _ = writeln!(io::stderr(), "{speed:.0} characters/s");
    }
    Ok(())
}

fn run_eval(args: &EvalArgs) -> Result<(), Error> {
    let device = args.backend.device()?;
    let (model, _, vocabulary) = file::load(&args.model, &device)?;
    let tokens = vocabulary.encode(&text::read(&args.text)?)?;
    if tokens.len() < 2 {
        return Err(ModelError::NothingToJudge.into());
    }
    let everything = 0..tokens.len();
    let streams = Streams::judging(tokens.into(), everything, args.batch);
    let loss = read_sync(evaluate(&model, &streams, SEQ, &device))?;
    say(&format!(
        "{:.4} bits per character, {loss:.4} nats, over {} characters",
        loss / LN_2,
        streams.characters()
    ));
    Ok(())
}

fn cpu() -> Result<Device, Error> {
    Backend::Flex
        .device()
        .or_else(|_| Backend::Ndarray.device())
}

fn run_export(args: &ExportArgs) -> Result<(), Error> {
    let (model, _, vocabulary) = file::load(&args.model, &cpu()?)?;
    exchange::export(&model, &vocabulary)?.to_safetensors(&args.to)?;
    say(&format!("{} holds the parameters", args.to.display()));
    Ok(())
}

fn run_import(args: &ImportArgs) -> Result<(), Error> {
    let dict = if args.from.extension().is_some_and(|e| e == "safetensors") {
        StateDict::from_safetensors(&args.from)?
    } else {
        StateDict::from_pytorch(&args.from)?
    };
    let vocabulary = match &args.characters {
        Some(path) => {
            let failed = |source| ModelError::ReadText {
                path: path.clone(),
                source,
            };
            let characters = std::fs::read_to_string(path).map_err(failed)?;
            Vocabulary::new(characters.chars().collect())?
        }
        None => exchange::characters(&dict).ok_or(Error::NoCharacters)?,
    };
    let (model, sizes) = exchange::import(&dict, &vocabulary, &cpu()?)?;
    if let Some(folder) = args.to.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|e| ModelError::write(folder, e))?;
    }
    file::save(&model, &sizes, &vocabulary, &args.to)?;
    say(&format!("{} holds the model", args.to.display()));
    Ok(())
}
