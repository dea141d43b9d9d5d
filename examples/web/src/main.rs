//! Builds and serves the page. Commands and exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use web::bundle::{bundle, folder};
use web::error::Error;
use web::serve::Site;

/// A web page that trains a character-level GRU
#[derive(Parser)]
#[command(name = "web", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Folder of the page. Default: in Cargo's target directory
    #[arg(long, value_name = "DIR", global = true)]
    page: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Compile the module and build the page
    Build {
        /// Also build the module for WebGPU
        #[arg(long)]
        webgpu: bool,
    },
    /// Serve the page, only to this machine
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
            println!("{}: {all} bytes compressed in total", page.display());
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
    println!("http://{} (stop with Ctrl-C)", site.address());
    site.serve();
    Ok(())
}
