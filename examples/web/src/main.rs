//! Build the page and serve it. Commands and exit codes only.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use web::bundle::{bundle, folder};
use web::error::Error;
use web::serve::Site;

/// The page on which a character-level GRU learns
#[derive(Parser)]
#[command(name = "web", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Folder of the page; in Cargo's target directory where none is given
    #[arg(long, value_name = "DIR", global = true)]
    page: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Compile the module and lay the page together
    Build {
        /// Also the module for WebGPU
        #[arg(long)]
        webgpu: bool,
    },
    /// Serve the page, to this machine alone
    Serve {
        #[arg(long, default_value_t = 8000)]
        port: u16,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let page = cli.page.unwrap_or_else(|| folder().join("page"));
    let result = match cli.command {
        Command::Build { webgpu } => bundle(&page, webgpu).map(|files| {
            let all: usize = files.iter().map(|file| file.compressed).sum();
            for file in files {
                let (bytes, compressed) = (file.bytes, file.compressed);
                println!(
                    "{bytes:>10} bytes, {compressed:>9} compressed   {}",
                    file.name
                );
            }
            println!("{}: {all} bytes compressed in all", page.display());
        }),
        Command::Serve { port } => serve(&page, port),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn serve(page: &std::path::Path, port: u16) -> Result<(), Error> {
    let site = Site::open(page, port)?;
    println!("http://{} — Ctrl-C ends it", site.address());
    site.serve();
    Ok(())
}
