//! Removes noise from speech. Commands and exit codes.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use gru_cpu::spec::Precision;

use denoise::config::{Cli, Command, CompareArgs, DemoArgs, FileArgs, WeightsArgs};
use denoise::error::Error;
use denoise::model::Model;
use denoise::suppressor::Suppressor;
use denoise::v2::arrays::{self, Arrays};
use denoise::{compare, demo, file, v2};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        None => run_file(&cli.file),
        Some(Command::Demo(args)) => run_demo(args),
        Some(Command::Compare(args)) => run_compare(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Loads RNNoise 0.2 in some precisions.
fn load_v2<const N: usize>(
    path: &Path,
    precisions: [Precision; N],
) -> Result<[Arc<v2::model::Model>; N], Error> {
    let path = path.to_path_buf();
    let mut bytes = Vec::new();
    let read = File::open(&path)
        // Reads one byte more than allowed, because a device could be endless.
        .and_then(|file| {
            file.take(arrays::LONGEST as u64 + 1)
                .read_to_end(&mut bytes)
        });
    match read {
        Err(source) => return Err(Error::ReadWeights { path, source }),
        Ok(read) if read > arrays::LONGEST => return Err(Error::LongModel { path }),
        Ok(_) => {}
    }
    let models = || {
        let arrays = Arrays::parse(&bytes)?;
        let mut models = Vec::with_capacity(N);
        for precision in precisions {
            models.push(Arc::new(v2::model::Model::new(&arrays, precision)?));
        }
        Ok(models
            .try_into()
            .ok()
            .expect("one model for each precision"))
    };
    models().map_err(|source| Error::Model { path, source })
}

fn load(args: &WeightsArgs) -> Result<Box<dyn Suppressor>, Error> {
    match &args.model {
        Some(path) => {
            let [model] = load_v2(path, [args.precision.into()])?;
            Ok(Box::new(model))
        }
        None => Ok(Box::new(Arc::new(Model::published()))),
    }
}

fn run_file(args: &FileArgs) -> Result<(), Error> {
    let (Some(input), Some(output)) = (&args.input, &args.output) else {
        unreachable!("clap requires both without a command");
    };
    let model = load(&args.weights)?;
    let start = std::time::Instant::now();
    let heard = file::denoise(&*model, input, output)?;
    let seconds = heard.samples as f64 / f64::from(denoise::RATE);
    println!(
        "wrote {}: {seconds:.2} s, {}, a voice in {:.0}% of the frames; took {:.2} s",
        output.display(),
        match heard.channels {
            1 => "1 channel".to_owned(),
            channels => format!("{channels} channels"),
        },
        100.0 * heard.voiced,
        start.elapsed().as_secs_f64(),
    );
    Ok(())
}

fn run_demo(args: &DemoArgs) -> Result<(), Error> {
    let model = load(&args.weights)?;
    print!("{}", demo::run(&*model, &args.folder)?);
    Ok(())
}

fn run_compare(args: &CompareArgs) -> Result<(), Error> {
    let model = Arc::new(Model::published());
    let text = match &args.model {
        Some(path) => {
            let precisions = [Precision::Full, Precision::Bf16, Precision::Int8];
            compare::precisions(&model, &load_v2(path, precisions)?, &args.input)?
        }
        None => compare::run(&model, &args.input)?,
    };
    print!("{text}");
    Ok(())
}
