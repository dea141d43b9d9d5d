//! A CubeCL device that is a set of CPU threads: each kernel is compiled to CUDA C++, built with g++ and a sanitizer,
//! and run as a process of its own for each launch. In another mode it compiles launches and runs nothing.

mod compiled;
mod properties;
mod server;

pub use compiled::{Language, Source, take_sources};

use crate::translated::Translated;
use cubecl::{
    Compiler, CubeKernel,
    client::Client,
    prelude::*,
    server::{BufferBinding, KernelArguments, ServerUtilities},
};
use cubecl_common::device::DeviceId;
use cubecl_cpp::{
    shared::{CompilationOptions, CppCompiler, CppSupportedFeatures},
    target::Cuda,
};
use cubecl_runtime::{id::KernelId, memory_management::ManagedMemoryId};
use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
};

/// What watches the threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sanitizer {
    /// Races.
    Thread,
    /// Reads and writes outside of buffers, alignment, and undefined behavior.
    Address,
}

impl Sanitizer {
    pub const ALL: [Self; 2] = [Self::Thread, Self::Address];

    fn flag(self) -> &'static str {
        match self {
            Self::Thread => "-fsanitize=thread",
            Self::Address => "-fsanitize=address,undefined",
        }
    }
}

/// What a launch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The kernel runs on threads that a sanitizer watches.
    Run(Sanitizer),
    /// The kernel is compiled, and [`take_sources`] returns its source. There is no memory, so that a call may be as large
    /// as a GPU's.
    Compile(Language),
}

/// In the order of the types of device.
const MODES: [Mode; 4] = [
    Mode::Run(Sanitizer::Thread),
    Mode::Run(Sanitizer::Address),
    Mode::Compile(Language::Cuda),
    Mode::Compile(Language::Metal),
];

/// The device `index` of a mode.
pub fn client(mode: Mode, index: u16) -> Client {
    let type_id = MODES.iter().position(|&other| other == mode);
    Client::load::<Threads>(DeviceId {
        type_id: type_id.expect("a mode") as u16,
        index_id: index,
    })
}

/// Whether g++ can be run.
pub fn has_compiler() -> bool {
    Command::new("g++").arg("--version").output().is_ok()
}

/// Where programs and launches are files, of this process.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let name = format!("cuda-threads-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&directory).expect("the directory of tests can be written");
        directory
    })
}

/// Cubes that run at the same time, as many as the device says it has multiprocessors.
const MULTIPROCESSORS: u32 = 8;

/// Threads of a launch whose cubes need not run together.
const MOST_THREADS: u32 = 256;

/// Lines of a program's error output that a failed launch reports.
const REPORTED: usize = 40;

#[derive(Debug)]
pub struct Threads {
    utilities: Arc<ServerUtilities>,
    mode: Mode,
    /// The bytes of each buffer, or why a launch did not write them.
    buffers: HashMap<ManagedMemoryId, Result<Vec<u8>, String>>,
    programs: HashMap<KernelId, Program>,
    /// Number of the next launch, and the seed of its schedule.
    launch: u64,
    /// Name of this device's files.
    name: String,
}

/// A kernel that was built.
#[derive(Debug, Clone)]
struct Program {
    path: PathBuf,
    /// Units of a cube.
    units: u32,
    /// Its cubes wait for each other.
    synchronizes_cubes: bool,
}

impl Threads {
    fn program(
        &mut self,
        kernel: &dyn CubeKernel,
        sanitizer: Sanitizer,
    ) -> Result<Program, String> {
        let id = kernel.id();
        if let Some(program) = self.programs.get(&id) {
            return Ok(program.clone());
        }
        let definition = cubecl::define_kernel(kernel).map_err(|error| error.to_string())?;
        let [x, y, z] = {
            let dim = &definition.settings.cube_dim;
            [dim.x, dim.y, dim.z]
        };
        // What CubeCL's CUDA runtime sets on sm_90.
        let options = CompilationOptions {
            supports_features: CppSupportedFeatures {
                grid_constants: true,
                clusters: true,
                fast_math: true,
                fast_tanh: true,
                elect_sync: true,
                dp4a: true,
            },
            ..Default::default()
        };
        let compiled = CppCompiler::<Cuda>::default()
            .compile(definition, &options)
            .map_err(|error| error.to_string())?;
        let translated = Translated::new(&compiled.source);
        let text = format!(
            "namespace kernel {{\n{}\n}}\nint main(int, char** paths) {{\n    \
             return cuda::run(kernel::{}, {{{x}, {y}, {z}}}, {}, {}, paths);\n}}\n",
            translated.text, translated.name, compiled.shared_memory_size, translated.alignment
        );
        let program = Program {
            path: self.build(&text, sanitizer)?,
            units: x * y * z,
            synchronizes_cubes: text.contains("atom_add"),
        };
        self.programs.insert(id, program.clone());
        Ok(program)
    }

    /// Compiles a program, unless another device has done so.
    fn build(&self, text: &str, sanitizer: Sanitizer) -> Result<PathBuf, String> {
        let mut hasher = DefaultHasher::new();
        (text, sanitizer.flag()).hash(&mut hasher);
        let path = directory().join(format!("{:016x}", hasher.finish()));
        if path.exists() {
            return Ok(path);
        }
        let source = path.with_extension("cpp");
        let built = directory().join(format!("{}.exe", self.name));
        write(&source, text.as_bytes())?;
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/threads/cuda.hpp");
        let mut gcc = Command::new("g++");
        gcc.args([
            "-std=c++20",
            "-O1",
            "-g1",
            "-pthread",
            "-fno-strict-aliasing",
        ])
        .args(["-w", "-fno-sanitize-recover=all", sanitizer.flag()])
        .args(["-include", header, "-o"])
        .args([&built, &source]);
        let output = gcc.output().map_err(|error| format!("g++: {error}"))?;
        if !output.status.success() {
            let errors = first_lines(&String::from_utf8_lossy(&output.stderr));
            return Err(format!("{} does not compile:\n{errors}", source.display()));
        }
        fs::rename(&built, &path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Runs a launch; its buffers then hold what it wrote.
    fn run(
        &mut self,
        kernel: &dyn CubeKernel,
        count: &CubeCount,
        arguments: &KernelArguments,
    ) -> Result<(), String> {
        let sanitizer = match self.mode {
            Mode::Run(sanitizer) => sanitizer,
            Mode::Compile(language) => {
                compiled::compile(self.utilities.service, kernel, language);
                return Ok(());
            }
        };
        let program = self.program(kernel, sanitizer)?;
        let CubeCount::Static(x, y, z) = *count else {
            return Err("expected a static number of cubes".into());
        };
        let info = &arguments.info;
        if info.dynamic_metadata_offset != info.data.len() {
            return Err("expected no metadata of tensors".into());
        }
        let together = if program.synchronizes_cubes {
            u32::MAX
        } else {
            (MOST_THREADS / program.units).max(1)
        };
        // A buffer that is several arguments is there once.
        let mut buffers: Vec<&BufferBinding> = Vec::new();
        let mut places = Vec::new();
        for binding in arguments.buffers() {
            let is_same = |other: &&BufferBinding| other.claim_key() == binding.claim_key();
            let place = buffers.iter().position(is_same);
            places.push(place.unwrap_or(buffers.len()) as u64);
            if place.is_none() {
                buffers.push(binding);
            }
        }
        let mut words = vec![x.into(), y.into(), z.into(), together.into(), self.launch];
        words.extend([buffers.len(), places.len(), info.data.len()].map(|len| len as u64));
        words.extend(buffers.iter().map(|binding| binding.size_in_used()));
        words.extend(places);
        words.extend(&info.data);
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        for binding in &buffers {
            bytes.extend(self.bytes(binding)?);
        }
        let [input, output] =
            ["in", "out"].map(|kind| directory().join(format!("{}.{kind}", self.name)));
        write(&input, &bytes)?;
        self.launch += 1;
        let run = |options: &str| {
            let mut command = Command::new(&program.path);
            command.args([&input, &output]).env("TSAN_OPTIONS", options);
            let ran = command.output().expect("a program that was just built");
            (
                ran.status,
                String::from_utf8_lossy(&ran.stderr).into_owned(),
            )
        };
        // The program itself decides which races are errors.
        let (status, errors) = run("exitcode=0 symbolize=0 history_size=7 \
             suppress_equal_stacks=0 suppress_equal_addresses=0");
        if !status.success() {
            let (kernel, source) = (kernel.name(), program.path.with_extension("cpp"));
            let mut report = format!(
                "{kernel}: {x}·{y}·{z} cubes of {} units, {}, {status}:\n",
                program.units,
                source.display()
            );
            if sanitizer == Sanitizer::Thread {
                for line in errors
                    .lines()
                    .filter(|line| line.starts_with("kernel error"))
                {
                    report += &format!("{line} {}\n", line_of(line, &program.path));
                }
                report += "The first race:\n";
                report += &first_lines(&run("halt_on_error=1 history_size=7").1);
            } else {
                report += &first_lines(&errors);
            }
            return Err(report);
        }
        let mut written = &fs::read(&output).map_err(|error| error.to_string())?[..];
        for binding in buffers {
            let (own, rest) = written.split_at(binding.size_in_used() as usize);
            written = rest;
            if let Some(Ok(bytes)) = self.buffers.get_mut(&binding.memory.id()) {
                let range = binding.range();
                bytes[range.start as usize..range.end as usize].copy_from_slice(own);
            }
        }
        Ok(())
    }

    fn bytes(&self, binding: &BufferBinding) -> Result<&[u8], String> {
        let range = binding.range();
        let bytes = self
            .buffers
            .get(&binding.memory.id())
            .ok_or("no such buffer")?;
        let bytes = bytes.as_ref().map_err(Clone::clone)?;
        Ok(&bytes[range.start as usize..range.end as usize])
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// The first lines of a report, without the frames below the kernel.
fn first_lines(text: &str) -> String {
    let is_below = |line: &&str| line.contains(" std::") || line.contains("cuda::run<");
    let lines = text.lines().filter(|line| !is_below(line));
    lines.take(REPORTED).collect::<Vec<_>>().join("\n")
}

/// Where the program counter at the end of a line is in the source.
fn line_of(error: &str, program: &Path) -> String {
    let Some((_, at)) = error.split_once(": pc ") else {
        return String::new();
    };
    // The call is before the address to which it returns.
    let call = at.parse::<u64>().expect("a number") - 1;
    let mut command = Command::new("addr2line");
    command.arg("-e").arg(program).arg(format!("{call:#x}"));
    let output = command.output().map(|output| output.stdout);
    output.map_or_else(
        |error| error.to_string(),
        |bytes| String::from_utf8_lossy(&bytes).trim().to_owned(),
    )
}
