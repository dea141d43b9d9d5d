//! Removes noise from speech. Commands and exit codes.

use std::fs::File;
use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use denoise::config::{Cli, Command, CompareArgs, DemoArgs, FileArgs, WeightsArgs};
use denoise::error::Error;
use denoise::model::Model;
use denoise::weights::{LONGEST, PUBLISHED};
use denoise::{compare, demo, file, picture};

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

/// Loads the weights: their bytes and the model.
fn load(args: &WeightsArgs) -> Result<(Vec<u8>, Arc<Model>), Error> {
    let Some(path) = &args.weights else {
        let model = Model::parse(PUBLISHED).expect("a test reads these weights");
        return Ok((PUBLISHED.to_vec(), Arc::new(model)));
    };
    let mut bytes = Vec::new();
    let read = File::open(path)
        // Reads one byte more than allowed, because a device could be endless.
        .and_then(|file| file.take(LONGEST as u64 + 1).read_to_end(&mut bytes));
    let path = path.clone();
    match read {
        Err(source) => Err(Error::ReadWeights { path, source }),
        Ok(read) if read > LONGEST => Err(Error::LongWeights { path }),
        Ok(_) => match Model::parse(&bytes) {
            Ok(model) => Ok((bytes, Arc::new(model))),
            Err(source) => Err(Error::Weights { path, source }),
        },
    }
}

fn run_file(args: &FileArgs) -> Result<(), Error> {
    let (Some(input), Some(output)) = (&args.input, &args.output) else {
        unreachable!("clap requires both without a command");
    };
    let (_, model) = load(&args.weights)?;
    let start = std::time::Instant::now();
    let heard = file::denoise(&model, input, output)?;
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
    if let Some(path) = &args.picture {
        if heard.samples == 0 {
            let path = input.clone();
            return Err(Error::Empty { path });
        }
        picture::draw(&heard.noisy, &heard.denoised, path)?;
        println!("wrote {}: spectrograms before and after", path.display());
    }
    Ok(())
}

fn run_demo(args: &DemoArgs) -> Result<(), Error> {
    let (_, model) = load(&args.weights)?;
    print!("{}", demo::run(&model, &args.folder)?);
    Ok(())
}

fn run_compare(args: &CompareArgs) -> Result<(), Error> {
    let (bytes, model) = load(&args.weights)?;
    print!("{}", compare::run(&bytes, &model, &args.input)?);
    Ok(())
}
