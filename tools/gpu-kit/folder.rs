//! The folder for the other machine: programs, script, recorded files.

use std::{
    env, fs,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::Command,
};

use flate2::{Compression, write::GzEncoder};

use crate::error::Error;

/// A size that can be sent to most machines.
const MOST_MIB: u64 = 60;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const SCRIPT: &str = include_str!("run.sh");

/// Usual places of the Vulkan loader.
const LOADERS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/libvulkan.so.1",
    "/usr/lib/aarch64-linux-gnu/libvulkan.so.1",
    "/usr/lib64/libvulkan.so.1",
    "/usr/lib/libvulkan.so.1",
];

const CUDA: &str = "cuda";
/// Every driver since CUDA 12.8 has the functions of that version.
const CUDA_BUILD: (&str, &str) = ("CUDARC_CUDA_VERSION", "12080");

/// The shader languages of this system by default, the faster first.
pub fn shaders() -> Vec<String> {
    let native = if cfg!(target_os = "macos") {
        "metal"
    } else {
        "spirv"
    };
    [native, "wgsl"].map(String::from).into()
}

/// Makes the folder with one program per shader language.
pub fn build(folder: &Path, shaders: &[String]) -> Result<(), Error> {
    let mut known = self::shaders();
    known.extend(cfg!(target_os = "linux").then(|| CUDA.to_owned()));
    if let Some(other) = shaders.iter().find(|shader| !known.contains(shader)) {
        return Err(Error::Shader(other.clone(), known.join(", ")));
    }
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    for shader in shaders {
        program(folder, shader)?;
    }
    let checkout = Path::new(HERE).join("../..");
    copy(&checkout.join("tests/data"), &folder.join("data"))?;
    let peers = checkout.join("benches/peers/torch_peer.py");
    copy(&peers, &folder.join("torch_peer.py"))?;
    match LOADERS.iter().map(Path::new).find(|path| path.exists()) {
        Some(loader) if cfg!(target_os = "linux") => {
            copy(loader, &folder.join("lib/libvulkan.so.1"))?;
        }
        None if cfg!(target_os = "linux") => {
            println!("no libvulkan.so.1 found: the other machine must have one");
        }
        _ => {}
    }
    let script = folder.join("run");
    fs::write(&script, SCRIPT).map_err(Error::file(&script))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&script, mode).map_err(Error::file(&script))?;
    }
    let mib = size(folder)? as f64 / f64::from(1 << 20);
    if mib > MOST_MIB as f64 {
        return Err(Error::Large {
            mib,
            most: MOST_MIB,
        });
    }
    println!("{}: {mib:.1} MiB", folder.display());
    println!(
        "run on the other machine: {}/run --seconds 500 --out OUT",
        folder.display()
    );
    Ok(())
}

/// Builds, strips and compresses one program.
fn program(folder: &Path, shader: &str) -> Result<(), Error> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    let package = env!("CARGO_PKG_NAME");
    cargo
        .current_dir(HERE)
        .args(["build", "--release", "-p", package, "--bin", package])
        .env("CARGO_TARGET_DIR", target());
    cargo.args(["--no-default-features", "--features", shader]);
    // `cargo run` sets variables of this package. Dependencies that read them would be built again.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    if shader == CUDA {
        cargo.envs([CUDA_BUILD]);
    }
    execute(&mut cargo)?;
    let built = target().join("release").join(package);
    let stripped = target().join("release").join(format!("{package}-{shader}"));
    execute(Command::new("strip").arg("-o").arg(&stripped).arg(&built))?;
    let name = folder.join(format!("{package}-{shader}.gz"));
    let to = File::create(&name).map_err(Error::file(&name))?;
    let mut to = GzEncoder::new(to, Compression::best());
    let mut from = File::open(&stripped).map_err(Error::file(&stripped))?;
    io::copy(&mut from, &mut to).map_err(Error::file(&name))?;
    to.finish().map_err(Error::file(&name))?;
    Ok(())
}

fn target() -> PathBuf {
    let here = || {
        let root = Path::new(HERE).ancestors().nth(2);
        root.expect("the workspace").join("target")
    };
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(here, PathBuf::from);
    // Cargo runs in another folder.
    std::path::absolute(&target).unwrap_or(target)
}

fn execute(command: &mut Command) -> Result<(), Error> {
    let reason = match command.status() {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    Err(Error::Command(format!("{command:?}"), reason))
}

/// Copies a file, or a folder with its contents.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    if !from.is_dir() {
        let parent = to.parent().expect("a file has a folder");
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
        fs::copy(from, to).map_err(Error::file(from))?;
        return Ok(());
    }
    for entry in fs::read_dir(from).map_err(Error::file(from))? {
        let entry = entry.map_err(Error::file(from))?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn size(path: &Path) -> Result<u64, Error> {
    if !path.is_dir() {
        return Ok(fs::metadata(path).map_err(Error::file(path))?.len());
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path).map_err(Error::file(path))? {
        bytes += size(&entry.map_err(Error::file(path))?.path())?;
    }
    Ok(bytes)
}
