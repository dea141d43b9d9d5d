//! Builds a folder of static files from the Rust crates.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::{Compression, write::GzEncoder};
use wasm_bindgen_cli_support::Bindgen;

use crate::error::Error;

const TARGET: &str = "wasm32-unknown-unknown";
/// Burn's GPU side is large, and its shaders do the work: 23 MB with these options, 57 MB if optimised
/// for speed. `wasm-opt` reduces it to 12 MB.
const WEBGPU: [&str; 10] = [
    "--features",
    "webgpu",
    "--config",
    "profile.release.lto='fat'",
    "--config",
    "profile.release.codegen-units=1",
    "--config",
    "profile.release.opt-level='s'",
    "--config",
    "profile.release.package.gru-cpu.opt-level=3",
];
/// The oldest compiler that Burn supports.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");
/// The package of the module.
const PACKAGE: &str = "char-web";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/page");

/// The files of the module for WebGPU. If they exist, the page offers it.
const GPU_FILES: [&str; 2] = ["char_web_gpu.js", "char_web_gpu_bg.wasm"];

const DEBIAN_CARGO: &str = "/usr/bin/cargo";

/// The compiler for the module.
enum Compiler {
    /// The compiler of this program has the target.
    Same,
    /// Debian's compiler, which also builds the standard library, with this linker.
    Debian(PathBuf),
}

/// A file of the page, with its size and its compressed size.
pub struct File {
    pub name: String,
    pub bytes: usize,
    pub compressed: usize,
}

/// The default folder of a build, in Cargo's target directory.
pub fn folder() -> PathBuf {
    let here = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(here, PathBuf::from);
    // Cargo runs in other folders.
    std::path::absolute(&target).unwrap_or(target).join("web")
}

/// Builds the page into `page`: the module for the CPU, and a module for WebGPU if `webgpu` is set.
///
/// # Errors
/// If there is no compiler for WebAssembly, or if a compiler fails.
pub fn bundle(page: &Path, webgpu: bool) -> Result<Vec<File>, Error> {
    let compiler = Compiler::find()?;
    fs::create_dir_all(page).map_err(Error::file(page))?;
    module(&compiler, page, "char_web", &[])?;
    if webgpu {
        module(&compiler, page, "char_web_gpu", &WEBGPU)?;
        shrink(&page.join("char_web_gpu_bg.wasm"))?;
    } else {
        // An earlier build may have left them.
        for file in GPU_FILES.map(|name| page.join(name)) {
            if file.exists() {
                fs::remove_file(&file).map_err(Error::file(file))?;
            }
        }
    }
    for entry in fs::read_dir(PAGE).map_err(Error::file(PAGE))? {
        let from = entry.map_err(Error::file(PAGE))?.path();
        let to = page.join(from.file_name().expect("an entry has a name"));
        fs::copy(&from, to).map_err(Error::file(from))?;
    }
    sizes(page)
}

/// Checks whether the page can be built.
///
/// # Errors
/// If there is no compiler for WebAssembly, or if a crate can be neither found nor downloaded.
pub fn possible() -> Result<(), Error> {
    let mut cargo = Compiler::find()?.cargo();
    // This command reads every package of the build.
    let read = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["tree", "-p", PACKAGE, "--target", TARGET])
        .output();
    let read = read.map_err(|e| Error::Cargo(e.to_string()))?;
    if read.status.success() {
        Ok(())
    } else {
        let output = String::from_utf8_lossy(&read.stderr);
        let error = output.lines().find(|line| line.starts_with("error"));
        Err(Error::Crates(error.unwrap_or_default().to_owned()))
    }
}

/// Whether a compiler is new enough for this workspace, by its `--version` output.
pub fn is_recent(output: &str) -> bool {
    let number = |version: &str| -> Option<(u32, u32)> {
        let mut parts = version.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    let version = output.split(' ').nth(1).and_then(number);
    version.is_some() && version >= number(OLDEST)
}

/// Builds one module and its JavaScript.
fn module(compiler: &Compiler, page: &Path, name: &str, options: &[&str]) -> Result<(), Error> {
    let target = folder();
    let mut cargo = compiler.cargo();
    cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["rustc", "--release", "-p", PACKAGE, "--lib"])
        .args(["--crate-type", "cdylib", "--target", TARGET])
        .args(options)
        // WebAssembly does not unwind.
        .args(["--config", "profile.release.panic='abort'"])
        // All browsers support 128-bit vectors since 2023.
        .env("RUSTFLAGS", "-Ctarget-feature=+simd128")
        .env("CARGO_TARGET_DIR", &target);
    let done = cargo.status().map_err(|e| Error::Cargo(e.to_string()))?;
    if !done.success() {
        return Err(Error::Cargo(format!("{cargo:?}")));
    }
    let built = target.join(TARGET).join("release").join("char_web.wasm");
    let bound = |bindgen: &mut Bindgen| {
        bindgen
            .input_path(&built)
            .out_name(name)
            .web(true)?
            .typescript(false)
            .omit_default_module_path(false)
            .generate(page)
    };
    bound(&mut Bindgen::new()).map_err(|reason| Error::Bind(format!("{reason:#}")))
}

/// The oldest Binaryen that is known to work. Version 108 of Debian 12 exports the wrong table.
const WASM_OPT: u32 = 132;

/// Shrinks a module with Binaryen's `wasm-opt`, if it is installed. Not used for the CPU module, which
/// is optimised for speed.
fn shrink(module: &Path) -> Result<(), Error> {
    let version = Command::new("wasm-opt").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version
        .ok()
        .and_then(|output| output.split(' ').find_map(|word| word.parse().ok()));
    if version.is_none_or(|version: u32| version < WASM_OPT) {
        println!(
            "note: the module for WebGPU is larger without wasm-opt {WASM_OPT} (npm install -g binaryen)"
        );
        return Ok(());
    }
    let mut wasm_opt = Command::new("wasm-opt");
    wasm_opt
        .args([
            "-Oz",
            "--enable-simd",
            "--enable-bulk-memory",
            "--enable-sign-ext",
        ])
        .args([
            "--enable-nontrapping-float-to-int",
            "--enable-mutable-globals",
        ])
        .args(["--enable-reference-types", "--enable-multivalue"])
        .args([module, Path::new("-o"), module]);
    match wasm_opt.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::Cargo(format!("{wasm_opt:?}"))),
    }
}

impl Compiler {
    fn find() -> Result<Self, Error> {
        let same = Command::new("rustc")
            .args(["--print", "target-libdir", "--target", TARGET])
            .output();
        let libraries = same.ok().filter(|asked| asked.status.success());
        let libraries = libraries.and_then(|asked| String::from_utf8(asked.stdout).ok());
        if libraries.is_some_and(|folder| Path::new(folder.trim()).is_dir()) {
            return Ok(Self::Same);
        }
        let none = Error::NoCompiler { target: TARGET };
        let version = Command::new(DEBIAN_CARGO).arg("--version").output();
        let Ok(version) = version else {
            return Err(none);
        };
        let programs = fs::read_dir("/usr/bin").into_iter().flatten().flatten();
        let linker = programs.map(|entry| entry.path()).find(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("wasm-ld"))
        });
        let linker = linker.filter(|_| Path::new("/usr/lib/rustlib/src/rust/library/std").exists());
        let linker = linker.ok_or(none)?;
        let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
        if is_recent(&version) {
            Ok(Self::Debian(linker))
        } else {
            Err(Error::OldCompiler { version })
        }
    }

    fn cargo(&self) -> Command {
        match self {
            Self::Same => Command::new("cargo"),
            Self::Debian(linker) => {
                let mut cargo = Command::new(DEBIAN_CARGO);
                let path = env::var_os("PATH").unwrap_or_default();
                let path = env::split_paths(&path);
                let first = [PathBuf::from("/usr/bin")].into_iter();
                cargo
                    .args(["-Z", "build-std=std,panic_abort"])
                    .env(
                        "PATH",
                        env::join_paths(first.chain(path)).expect("the paths are valid"),
                    )
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
                // Variables from the outer cargo do not apply to this one.
                for variable in [
                    "CARGO",
                    "RUSTC",
                    "RUSTUP_TOOLCHAIN",
                    "CARGO_ENCODED_RUSTFLAGS",
                ] {
                    cargo.env_remove(variable);
                }
                cargo
            }
        }
    }
}

/// All files of a page, the largest first.
fn sizes(page: &Path) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(page).map_err(Error::file(page))? {
        let path = entry.map_err(Error::file(page))?.path();
        let content = fs::read(&path).map_err(Error::file(&path))?;
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let compressed = gzip.write_all(&content).and_then(|()| gzip.finish());
        files.push(File {
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into(),
            bytes: content.len(),
            compressed: compressed.map_err(Error::file(&path))?.len(),
        });
    }
    files.sort_by_key(|file| std::cmp::Reverse(file.compressed));
    Ok(files)
}
