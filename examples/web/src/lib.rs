//! Builds and serves the web page that trains a character-level GRU.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use flate2::{Compression, write::GzEncoder};
use tiny_http::{Header, Response, Server};
use wasm_bindgen_cli_support::Bindgen;

/// The target of the module.
pub const TARGET: &str = "wasm32-unknown-unknown";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
/// Burn's GPU side is large, and its shaders do the work: 23 MB with these options, 57 MB if optimised for speed.
const WEBGPU: &str = "--features webgpu --config profile.release.lto='fat' --config profile.release.opt-level='s' \
                      --config profile.release.codegen-units=1 --config profile.release.package.gru-cpu.opt-level=3";

/// An error of the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, io::Error),

    /// Cargo failed, and printed why.
    #[error("cannot build the module; is the target installed? rustup target add {TARGET}")]
    Cargo,

    /// The module has no JavaScript.
    #[error("cannot create the JavaScript of the module: {0}")]
    Bind(String),

    /// The port is not available.
    #[error("port {0}: {1}")]
    Port(u16, String),
}

/// The default folder of the page, in Cargo's target directory.
pub fn folder() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from);
    // Cargo runs in other folders.
    std::path::absolute(&target).unwrap_or(target).join("web")
}

/// Builds the page into `page`, with WebGPU if `webgpu` is set. Returns the size of the module in bytes, compressed with
/// gzip as most servers do.
///
/// # Errors
/// If the compiler fails, or if a file cannot be written.
pub fn build(page: &Path, webgpu: bool) -> Result<usize, Error> {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["rustc", "--release", "-p", "char-web", "--lib"])
        .args(["--crate-type", "cdylib", "--target", TARGET])
        // WebAssembly does not unwind.
        .args(["--config", "profile.release.panic='abort'"])
        .args(
            webgpu
                .then(|| WEBGPU.split_whitespace())
                .into_iter()
                .flatten(),
        )
        // All browsers support 128-bit vectors since 2023.
        .env("RUSTFLAGS", "-Ctarget-feature=+simd128")
        .env("CARGO_TARGET_DIR", folder());
    if !cargo.status().is_ok_and(|status| status.success()) {
        return Err(Error::Cargo);
    }
    let built = folder().join(TARGET).join("release/char_web.wasm");
    let bind = |bindgen: &mut Bindgen| {
        bindgen
            .input_path(built)
            .web(true)?
            // `init()` finds the module next to its script.
            .omit_default_module_path(false)
            .typescript(false)
            .generate(page)
    };
    bind(&mut Bindgen::new()).map_err(|reason| Error::Bind(format!("{reason:#}")))?;
    let finish = || -> io::Result<usize> {
        for name in ["index.html", "page.js", "worker.js"] {
            fs::copy(Path::new(PAGE).join(name), page.join(name))?;
        }
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&fs::read(page.join("char_web_bg.wasm"))?)?;
        Ok(gzip.finish()?.len())
    };
    finish().map_err(|source| Error::File(page.into(), source))
}

/// Serves the folder `page`, only to this machine. Calls `ready` with the port, which is a free one for 0.
///
/// # Errors
/// If the port is not available.
pub fn serve(page: &Path, port: u16, ready: impl FnOnce(u16)) -> Result<(), Error> {
    let server = Server::http(("127.0.0.1", port));
    let server = server.map_err(|reason| Error::Port(port, reason.to_string()))?;
    ready(server.server_addr().to_ip().map_or(port, |ip| ip.port()));
    for request in server.incoming_requests() {
        let path = request.url().split(['?', '#']).next().unwrap_or_default();
        let name = path.rsplit('/').next().filter(|name| !name.is_empty());
        let name = name.unwrap_or("index.html");
        let kind = match name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            _ => "application/wasm",
        };
        let kind = Header::from_bytes("Content-Type", kind).expect("the header is ASCII");
        // A closed reader is not an error.
        let _ = match fs::read(page.join(name)) {
            Ok(content) => request.respond(Response::from_data(content).with_header(kind)),
            Err(_) => request.respond(Response::empty(404)),
        };
    }
    Ok(())
}
