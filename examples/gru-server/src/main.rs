//! Makes this machine's device available to other machines: a Burn server that runs the GRU operator.

mod error;

use std::io::{self, Write};
use std::net::TcpListener;
use std::process::ExitCode;

use burn::backend::ir::BackendIr;
use burn::server::{CustomOpRegistry, RemoteServer, WebSocketTransport};
use burn::tensor::Device;
use clap::Parser;

use char_gru::backend::Backend;
#[cfg(not(any(feature = "wgpu", feature = "cuda", feature = "rocm")))]
use char_gru::error::Error as DeviceError;
use gru_op::backend::GruBackend;
use training_kit::allocator::keep_buffers;

use crate::error::Error;

/// Makes this machine's device available to `char-gru --devices` and other Burn programs
#[derive(Parser, Debug)]
#[command(name = "gru-server", version)]
struct Cli {
    /// Where to compute. A GPU requires the Cargo feature with the same name
    #[arg(long, value_name = "NAME", default_value_t = Backend::Flex, value_enum)]
    backend: Backend,

    /// Address and port. Port 0 uses a free port. Every program that can connect may use the device: the
    /// traffic is neither encrypted nor authenticated
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    listen: String,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    keep_buffers();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(cli: &Cli) -> Result<(), Error> {
    let device = cli.backend.device()?;
    let failed = |source| Error::Listen {
        address: cli.listen.clone(),
        source,
    };
    let listener = TcpListener::bind(&cli.listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let mut out = io::stdout();
    // A closed reader is not an error.
    let _ = writeln!(out, "ws://{address}").and_then(|()| out.flush());
    match cli.backend {
        #[cfg(feature = "flex")]
        Backend::Flex => serve::<burn::backend::Flex>(device, listener),
        // Deprecated, but supported as long as it exists.
        #[cfg(feature = "ndarray")]
        #[allow(deprecated)]
        Backend::Ndarray => serve::<burn::backend::NdArray>(device, listener),
        #[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
        _ => serve::<burn::backend::Cube>(device, listener),
        #[cfg(not(any(feature = "wgpu", feature = "cuda", feature = "rocm")))]
        other => Err(DeviceError::BackendMissing { name: other.name() }.into()),
    }
}

/// Serves until Ctrl-C.
fn serve<B: BackendIr + GruBackend>(device: Device, listener: TcpListener) -> Result<(), Error> {
    let mut operations = CustomOpRegistry::<B>::new();
    gru_op::remote::register(&mut operations);
    RemoteServer::new([device])
        .with_custom_ops(operations)
        .serve(WebSocketTransport::from_listener(listener))?;
    Ok(())
}
