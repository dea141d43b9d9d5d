//! The program `char-gru`: trains a character-level GRU on a text, and generates more of it.

mod chart;
mod folder;

use std::f64::consts::LN_2;
use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{Device, read_sync};
use char_gru::data::{DOCUMENTATION, Streams, Text, VALIDATION_STREAM, Vocabulary};
use char_gru::device;
use char_gru::error::Error;
use char_gru::model::CharGru;
use char_gru::sample::{self, Sampling};
use char_gru::train::{self, Progress, Settings, Trainer};
use clap::{Args, Parser, Subcommand};
use gru_convert::StateDict;
use gru_op::instruction_set;
use indicatif::{ProgressBar, ProgressStyle};

use crate::folder::Folder;

/// Trains a character-level GRU on a text and generates more text
///
/// Without arguments, the program trains on the documentation of this project, which is built in, saves the model to the
/// folder char-gru, and generates text.
#[derive(Parser)]
#[command(name = "char-gru", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    train: Train,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // One value per run.
enum Command {
    /// Train on a text, then generate a sample. This is the default command
    Train(Train),
    /// Generate text with a model
    Generate(Generate),
    /// Print the loss of a model on a text
    Evaluate(Evaluate),
}

#[derive(Args)]
struct Train {
    /// UTF-8 text for training instead of the built-in text. The last tenth is for validation
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Folder for the model, the checkpoint, the log and the chart
    #[arg(long, value_name = "DIR", default_value = "char-gru")]
    out: PathBuf,

    /// Continue from the checkpoint in --out, with the same losses as without the break. The other arguments must be
    /// the same, except --max-steps and --backend
    #[arg(long)]
    resume: bool,

    /// Replace the run in --out
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,

    /// Stop after this many steps, regardless of --epochs
    #[arg(long, value_name = "K")]
    max_steps: Option<usize>,

    /// Where to compute: flex, ndarray, wgpu, vulkan, metal, webgpu, cuda or rocm, or a device with a number, as cuda:1
    #[arg(long, default_value = "flex")]
    backend: String,

    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
struct Generate {
    /// The model file
    #[arg(value_name = "MODEL", default_value = "char-gru/model.safetensors")]
    model: PathBuf,
    #[command(flatten)]
    sampling: Sampling,
}

#[derive(Args)]
struct Evaluate {
    /// UTF-8 text
    #[arg(value_name = "FILE")]
    text: PathBuf,

    /// The model file
    #[arg(long, default_value = "char-gru/model.safetensors")]
    model: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command.unwrap_or(Command::Train(cli.train)) {
        Command::Train(args) => train(args),
        Command::Generate(args) => generate(&args.model, &args.sampling),
        Command::Evaluate(args) => evaluate(&args),
    };
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error}");
    ExitCode::from(error.exit_code())
}

fn train(args: Train) -> Result<(), Error> {
    let text = match &args.text {
        Some(path) => fs::read_to_string(path).map_err(Error::file(path))?,
        None => DOCUMENTATION.to_string(),
    };
    let text = Text::new(&text, args.settings.batch, args.settings.seq)?;
    let device = device::open(&args.backend)?;
    let folder = Folder::open(&args.out, args.resume, args.overwrite)?;
    print(format_args!(
        "backend {}; CPU kernels: {}",
        args.backend,
        instruction_set()
    ))?;
    let mut trainer = Trainer::new(args.settings, text, &device);
    if args.resume {
        trainer.load(folder.load_checkpoint()?)?;
        let done = trainer.progress.steps.len();
        print(format_args!("resuming after step {done}"))?;
    }

    let last = args.max_steps.unwrap_or(usize::MAX).min(trainer.steps());
    let style = ProgressStyle::with_template("{percent:>3}% {wide_bar} {msg}  {per_sec}  {eta}");
    let bar = ProgressBar::new(last as u64).with_style(style.expect("the template is valid"));
    bar.set_position(trainer.progress.steps.len() as u64);
    bar.reset_eta();
    if !args.resume {
        validate(&mut trainer, &folder)?;
    }
    let stop = stop_on_ctrl_c();
    while trainer.progress.steps.len() < last {
        let step = read_sync(trainer.step())?;
        bar.set_message(format!("epoch {}  loss {:.3}", step.epoch, step.loss));
        bar.inc(1);
        if trainer.is_between_epochs() || step.step == last {
            validate(&mut trainer, &folder)?;
            bar.suspend(|| print(line(&trainer)))?;
        }
        if stop.load(Ordering::Relaxed) {
            folder.save(&trainer)?;
            return Err(Error::Stopped(step.step));
        }
    }
    bar.finish_and_clear();
    print(format_args!("{} contains the model\n", args.out.display()))?;
    generate(&folder.model(), &Sampling::parse_from(["generate"]))
}

/// The first Ctrl-C sets the flag. The second one does not wait for the end of a step.
fn stop_on_ctrl_c() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    // If another handler exists, Ctrl-C ends the program as usual.
    let _ = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            process::exit(130);
        }
    });
    stop
}

/// Computes the validation loss, and saves the best model and a checkpoint.
fn validate(trainer: &mut Trainer, folder: &Folder) -> Result<(), Error> {
    if read_sync(trainer.validate())? {
        folder.save_model(trainer)?;
    }
    folder.save(trainer)
}

/// The losses of the last epoch.
fn line(trainer: &Trainer) -> String {
    let Progress { steps, validations } = &trainer.progress;
    let steps = &steps[steps.len().saturating_sub(trainer.windows())..];
    let training = steps.iter().map(|s| f64::from(s.loss)).sum::<f64>() / steps.len() as f64;
    let epoch = steps[steps.len() - 1].epoch;
    let validation = bits(validations[validations.len() - 1].1);
    format!("epoch {epoch:>3}   training {training:.3}   validation {validation}")
}

fn generate(model: &Path, sampling: &Sampling) -> Result<(), Error> {
    let device = Device::flex();
    let (model, vocabulary) = load(model, &device)?;
    let text = sample::generate(&model, &vocabulary, sampling, &device);
    print(read_sync(text)?)
}

fn evaluate(args: &Evaluate) -> Result<(), Error> {
    let device = Device::flex();
    let (model, vocabulary) = load(&args.model, &device)?;
    let text = fs::read_to_string(&args.text).map_err(Error::file(&args.text))?;
    let streams = Streams::new(vocabulary.encode(&text)?, 16, VALIDATION_STREAM)?;
    let loss = train::evaluate(&model, &streams, 128, &device);
    print(format_args!("{} per character", bits(read_sync(loss)?)))
}

fn load(path: &Path, device: &Device) -> Result<(CharGru, Vocabulary), Error> {
    CharGru::from_arrays(&StateDict::from_safetensors(path)?, device)
}

/// `println!`, with an error if nothing reads the output.
fn print(line: impl Display) -> Result<(), Error> {
    writeln!(io::stdout(), "{line}").map_err(Error::file("standard output"))
}

fn bits(nats: f64) -> String {
    format!("{nats:.3} nats, {:.3} bits", nats / LN_2)
}
