//! The program `web`: builds and serves the page.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
        /// Also for WebGPU
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
    let page = cli.page.unwrap_or_else(|| web::folder().join("page"));
    let ready = |port| println!("http://127.0.0.1:{port} (stop with Ctrl-C)");
    let result = match cli.command {
        Command::Build { webgpu } => web::build(&page, webgpu).map(|bytes| {
            println!("{}: {bytes} bytes compressed", page.display());
        }),
        Command::Serve { port } => web::serve(&page, port, ready),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
