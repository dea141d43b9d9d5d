//! Sources for Metal and CUDA without such a device: within the limits of the device, and compiled as far as possible on
//! this machine. CUDA's sources are those of CubeCL's CUDA C++ compiler. Burn's default on CUDA is its LLVM compiler.
//!
//! ```sh
//! test='cargo test -p gru-cube --test cuda-threads'
//! $test metal-parses-as-cpp -- --ignored     # needs clang
//! GRU_NVRTC='python3 tests/threads/nvrtc.py sm_90' $test nvrtc -- --ignored --nocapture
//! ```

use super::{
    device::{self, Language, Mode, Source, take_sources},
    support::Device,
};
use cubecl::ir::FloatKind;
use gru_cube::{Buffers, Products, Recurrence, Strategy, gates, recurrent_inputs, run};
use gru_spec::Reset;
use gru_testkit::case::Case;
use libtest_mimic::Trial;
use std::{
    env,
    io::Write,
    process::{Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};

pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        let test = move || {
            test();
            Ok(())
        };
        Trial::test(format!("sources/{name}"), test)
    };
    vec![
        trial("cuda-within-limits", cuda_within_limits),
        trial("metal-within-limits", metal_within_limits),
        trial("indices-of-64-bits", indices_of_64_bits),
        trial("metal-parses-as-cpp", metal_parses_as_cpp).with_ignored_flag(true),
        trial("nvrtc", compiles_by_nvrtc).with_ignored_flag(true),
    ]
}

const STEPS: &str =
    "steps rows=16 width=1 n_threads=32 n_per_thread=1 k_splits=4 block_k=128 matrix";
const PERSISTENT: &str =
    "persistent rows=16 width=1 n_threads=32 n_per_thread=1 k_splits=8 block_k=256 matrix";
const PERSISTENT_BY_THREADS: &str =
    "persistent rows=4 width=4 n_threads=32 n_per_thread=1 k_splits=8 block_k=256";

/// Sizes and schedules, and whether matrix units multiply 16-bit types. They are sequence kernels with and without a
/// resident weight, step kernels, and with CUDA persistent kernels: too few rows for matrix units, and enough.
const INFERRED: [(&str, Strategy, bool); 7] = [
    ("N1 H33", Strategy::Inferred, false),
    ("N256 H64", Strategy::Inferred, false),
    ("N64 H128", Strategy::Inferred, false),
    ("N256 H200", Strategy::Independent, false),
    ("N64 H512", Strategy::Independent, true),
    ("N3 H512", Strategy::Inferred, false),
    ("N64 H1024", Strategy::Inferred, true),
];

const NOTHING: &str = "no-b_ih no-b_hh no-h0";

/// Resets, and optional tensors: all or none.
const OPTIONS: [&str; 5] = [
    "mask skips zoneout-per-unit clip-gates",
    NOTHING,
    "mask skips zoneout-per-unit clip-gates before",
    "mask skips zoneout-per-unit start-states",
    "mask skips zoneout-per-unit start-zeros before",
];

/// The kernels of a call.
struct Compiled {
    /// The words of the call, and the schedule if it is forced.
    call: String,
    /// Matrix units multiply in step kernels.
    by_matrices: bool,
    sources: Vec<Source>,
}

/// Compiles both passes, the recomputation of gates and the operands of weight gradients.
fn compile(
    language: Language,
    dtype: FloatKind,
    words: &str,
    strategy: Strategy,
    by_matrices: bool,
) -> Compiled {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let index = NEXT.fetch_add(1, Ordering::Relaxed);
    let client = &device::client(Mode::Compile(language), index);
    let case = Case::new(words).with("projected T1");
    // No kernel runs, so one buffer is long enough for all tensors.
    let buffer = client.empty(1 << 40);
    let small = Device { client, dtype }.recurrence(&case.with("N1 H2").draw());
    let call = &Recurrence {
        sizes: case.sizes,
        inputs: small.inputs.map(|_| buffer.clone()),
        ..small
    };
    let own = || (!words.contains(NOTHING)).then(|| buffer.clone());
    let forward = Buffers::Forward {
        steps: 0..1,
        states: buffer.clone(),
        gates: own(),
    };
    let backward = Buffers::Backward {
        d_states: buffer.clone(),
        states: buffer.clone(),
        gates: buffer.clone(),
        d_gates: own(),
        d_h0: buffer.clone(),
    };
    for buffers in [forward, backward] {
        run(client, call, &buffers, strategy).unwrap();
    }
    let q = buffer.clone();
    if call.spec.reset == Reset::AfterMatmul {
        gates(client, call, &Products::All { q }, &buffer);
    } else {
        let g = buffer.clone();
        gates(
            client,
            call,
            &Products::ResetAndUpdate { q: q.clone(), g },
            &buffer,
        );
        gates(client, call, &Products::Candidate { q }, &buffer);
    }
    recurrent_inputs(client, call, &buffer, own().as_ref(), &buffer);
    Compiled {
        call: format!("{dtype:?} {words} {strategy}"),
        by_matrices,
        sources: take_sources(client),
    }
}

/// Every kernel in the form that is inferred for the device. With `GRU_THREADS`, each size has each of the options.
/// Without it, a size has the next options of the list, from the `first` on: all combinations take minutes.
fn inferred(language: Language, dtype: FloatKind, first: usize) -> Vec<Compiled> {
    let options_per_size = if env::var_os("GRU_THREADS").is_some() {
        OPTIONS.len()
    } else {
        1
    };
    let has_matrices = dtype != FloatKind::F32;
    let mut all = Vec::new();
    for (i, (size, strategy, by_matrices)) in INFERRED.iter().enumerate() {
        let options = OPTIONS.iter().cycle().skip(first + i);
        for options in options.take(options_per_size) {
            let words = format!("{size} {options}");
            let by_matrices = *by_matrices && has_matrices;
            all.push(compile(language, dtype, &words, *strategy, by_matrices));
        }
    }
    all
}

/// A schedule with either reset.
fn forced(language: Language, dtype: FloatKind, h: usize, schedule: &str) -> [Compiled; 2] {
    ["", "before"].map(|reset| {
        let words = format!("N64 H{h} mask skips zoneout-per-unit {reset}");
        let strategy = Strategy::Forced(schedule.parse().expect("a schedule"));
        compile(
            language,
            dtype,
            &words,
            strategy,
            schedule.ends_with("matrix"),
        )
    })
}

/// Checks what both languages have in common, and that there is each kind of kernel in both passes: whether matrix units
/// multiply, and whether a grid barrier has a counter.
fn check(all: &[Compiled], shared_bytes: usize, multiplies: &str, kinds: &[(&str, bool, bool)]) {
    for Compiled {
        call,
        by_matrices,
        sources,
    } in all
    {
        for Source {
            name,
            compiled,
            threads,
        } in sources
        {
            let at = format!("{name}, {call}");
            assert!(*threads <= 1024, "{at}: {threads} threads");
            let shared = compiled.shared_memory_size;
            assert!(
                shared <= shared_bytes,
                "{at}: {shared} bytes of shared memory"
            );
            let expected = *by_matrices && name.contains("_step");
            assert_eq!(
                compiled.source.contains(multiplies),
                expected,
                "{at}: matrix units"
            );
        }
    }
    for pass in ["forward", "backward"] {
        for kind in kinds {
            let &(kernel, by_matrices, has_counter) = kind;
            let is_kind = |source: &&Source| {
                let text = &source.compiled.source;
                source.name.contains(&format!("{pass}_{kernel}"))
                    && text.contains(multiplies) == by_matrices
                    && text.contains("atom") == has_counter
            };
            let mut sources = all.iter().flat_map(|compiled| &compiled.sources);
            assert!(sources.any(|source| is_kind(&source)), "{pass} {kind:?}");
        }
    }
}

fn cuda_within_limits() {
    // One 16-bit type, because both differ only in a name. Metal's test covers float32.
    let mut all = inferred(Language::Cuda, FloatKind::F16, 0);
    for schedule in [STEPS, PERSISTENT] {
        all.extend(forced(Language::Cuda, FloatKind::F32, 512, schedule));
    }
    let kinds = [
        ("sequence", false, false),
        ("step", true, false),
        ("step", false, true),
        ("step", true, true),
    ];
    check(&all, 48 << 10, "mma_sync", &kinds);
    for source in all.iter().flat_map(|compiled| &compiled.sources) {
        assert!(
            source.compiled.source.contains("__global__"),
            "{}",
            source.name
        );
    }
}

/// For tensors of 2³² elements or more. A test does not have the memory to run one.
fn indices_of_64_bits() {
    for reset in ["", "before"] {
        for (size, is_long) in [
            ("N2 H33", false),
            ("N2 H512", false),
            ("N33554432 H33", true),
            ("N2097152 H512", true),
        ] {
            let words = format!("{size} {reset}");
            let strategy = Strategy::Independent;
            let compiled = compile(Language::Cuda, FloatKind::F32, &words, strategy, false);
            for Source { name, compiled, .. } in compiled.sources {
                let has_long = compiled.source.contains("uint64_t const v");
                assert_eq!(has_long, is_long, "{name}, {words}");
            }
        }
    }
}

fn of_metal() -> Vec<Compiled> {
    let mut all = inferred(Language::Metal, FloatKind::F32, 1);
    all.extend(inferred(Language::Metal, FloatKind::F16, 3));
    all.extend(forced(
        Language::Metal,
        FloatKind::F32,
        512,
        PERSISTENT_BY_THREADS,
    ));
    all
}

fn metal_within_limits() {
    let all = of_metal();
    let kinds = [
        ("sequence", false, false),
        ("step", false, false),
        ("step", true, false),
        ("step", false, true),
    ];
    check(&all, 32 << 10, "simdgroup_multiply_accumulate", &kinds);
    for source in all.iter().flat_map(|compiled| &compiled.sources) {
        let (name, text) = (source.name, &source.compiled.source);
        assert!(text.contains("[[kernel]]"), "{name}: no kernel");
        let buffers = text.matches("[[buffer(").count();
        assert_eq!(buffers, source.compiled.buffers.len(), "{name}: buffers");
        // WebGPU allows 8. Devices with persistent kernels have more.
        let most = 8 + usize::from(text.contains("atom"));
        assert!(buffers <= most, "{name}: {buffers} buffers");
        let is_shared = source.compiled.shared_memory_size > 0;
        let declares = text.contains("threadgroup char");
        assert_eq!(
            declares, is_shared,
            "{name}: shared memory is declared if it is counted"
        );
    }
}

fn metal_parses_as_cpp() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("metal_stdlib");
    std::fs::write(library, include_str!("metal_shim.hpp")).unwrap();
    for compiled in of_metal() {
        for source in &compiled.sources {
            let mut clang = Command::new("clang");
            clang.args([
                "-x",
                "c++",
                "-std=c++17",
                "-fsyntax-only",
                "-Wno-everything",
            ]);
            clang.arg("-I").arg(directory.path()).arg("-");
            pipe(&compiled.call, source, &mut clang);
        }
    }
}

/// `GRU_NVRTC` is a command that compiles its input. The test prints its output, registers and stack.
/// `tools/gpu-drivers nvrtc` runs it.
fn compiles_by_nvrtc() {
    let command = env::var("GRU_NVRTC").expect("GRU_NVRTC is a command");
    let words: Vec<_> = command.split_whitespace().collect();
    let (program, arguments) = words.split_first().expect("GRU_NVRTC is a command");
    for dtype in [FloatKind::F32, FloatKind::F16, FloatKind::BF16] {
        let mut all = inferred(Language::Cuda, dtype, 0);
        for h in [512, 1024] {
            for schedule in [STEPS, PERSISTENT] {
                all.extend(forced(Language::Cuda, dtype, h, schedule));
            }
        }
        for Compiled { call, sources, .. } in all {
            for source in sources {
                let mut compiler = Command::new(program);
                compiler.args(arguments).arg(source.threads.to_string());
                let report = pipe(&call, &source, &mut compiler);
                println!("{} | {}, {call}", report.trim(), source.name);
            }
        }
    }
}

/// Runs a compiler with the source as its standard input, and returns its output.
fn pipe(call: &str, source: &Source, compiler: &mut Command) -> String {
    let (name, text) = (source.name, &source.compiled.source);
    compiler.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = compiler.stderr(Stdio::piped()).spawn().expect("a compiler");
    let mut stdin = running.stdin.take().expect("stdin is piped");
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = running.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}, {call}:\n{errors}\n{text}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
