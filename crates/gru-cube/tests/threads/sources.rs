//! Sources for Metal and CUDA without such a device: within the limits of the device, and compiled as far as possible on
//! this machine. CUDA's sources are those of CubeCL's CUDA C++ compiler. Burn's default on CUDA is its LLVM compiler.
//!
//! ```sh
//! cargo test -p gru-cube --test cuda-threads metal-parses-as-cpp -- --ignored     # needs clang
//! GRU_NVRTC='python3 tests/threads/nvrtc.py sm_90' cargo test -p gru-cube --test cuda-threads nvrtc -- --ignored --nocapture
//! ```

use super::{
    device::{self, Language, Mode, Source, take_sources},
    support::tile,
};
use cubecl::{client::Client, ir::ElemType, ir::FloatKind, prelude::*, server::Handle};
use gru_cube::{
    Buffers, Products, Recurrence, Schedule, Starts, StepTile, Strategy, ZoneoutKind, gates,
    recurrent_inputs, run,
};
use gru_spec::{GruSpec, Inputs, Order, Reset, Sequence, Sizes, Weights};
use libtest_mimic::Trial;
use std::{
    env,
    io::Write,
    process::{Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};

pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, is_ignored, test: fn()| {
        let test = move || {
            test();
            Ok(())
        };
        Trial::test(format!("sources/{name}"), test).with_ignored_flag(is_ignored)
    };
    vec![
        trial("cuda-within-limits", false, cuda_within_limits),
        trial("metal-within-limits", false, metal_within_limits),
        trial("indices-of-64-bits", false, indices_of_64_bits),
        trial("metal-parses-as-cpp", true, metal_parses_as_cpp),
        trial("nvrtc", true, compiles_by_nvrtc),
    ]
}

/// A device that compiles, and calls on it.
struct Compiler {
    client: Client,
    dtype: ElemType,
    /// Each compiled kernel, after words about its launch.
    sources: Vec<(String, Source)>,
}

impl Compiler {
    fn new(language: Language, dtype: FloatKind) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let index = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            client: device::client(Mode::Compile(language), index),
            dtype: ElemType::Float(dtype),
            sources: Vec::new(),
        }
    }

    /// A buffer that no launch reads or writes.
    fn buffer(&self, elements: usize) -> Handle {
        self.client.empty(elements * size_of::<f32>())
    }

    /// A call with all optional tensors, or with none.
    fn call(&self, spec: GruSpec, (n, t, h): (usize, usize, usize), given: bool) -> Recurrence {
        let optional = |elements| given.then(|| self.buffer(elements));
        Recurrence {
            sizes: Sizes { n, t, i: 3 * h, h },
            spec,
            order: Order::default(),
            dtype: self.dtype,
            inputs: Inputs {
                sequence: Sequence {
                    h0: optional(2 * n * h),
                    recurrent_mask: optional(n * h),
                    step_mask: optional(n * t),
                    zoneout: optional(n * t * h),
                    ..Sequence::new(self.buffer(n * t * 3 * h))
                },
                weights: Weights {
                    b_ih: optional(3 * h),
                    b_hh: optional(3 * h),
                    ..Weights::new(None, self.buffer(3 * h * h))
                },
            },
            starts: Starts::None,
            zoneout: if given {
                ZoneoutKind::OfUnit
            } else {
                ZoneoutKind::None
            },
            lengths: None,
        }
    }

    /// Both passes, with gates and gradients of their own if the call has optional tensors.
    fn passes(&mut self, call: &Recurrence, strategy: Strategy) {
        let Sizes { n, t, h, .. } = call.sizes;
        let given = call.inputs.sequence.h0.is_some();
        let [states, gates, d_h0] =
            [n * t * h, n * t * 4 * h, 2 * n * h].map(|len| self.buffer(len));
        let forward = Buffers::Forward {
            steps: 0..t,
            states: states.clone(),
            gates: given.then(|| gates.clone()),
        };
        let backward = Buffers::Backward {
            d_states: states.clone(),
            states,
            gates: gates.clone(),
            d_gates: given.then_some(gates),
            d_h0,
        };
        for (pass, buffers) in [("forward", forward), ("backward", backward)] {
            let plan = gru_cube::Plan::new(&self.client, call, &buffers, strategy).unwrap();
            run(&self.client, call, &buffers, strategy).unwrap();
            self.take(&format!(
                "{pass} {:?} {} H{}",
                self.dtype,
                plan.schedule(),
                call.sizes.h
            ));
        }
    }

    /// The kernels that do not depend on a schedule.
    fn products(&mut self, call: &Recurrence) {
        let Sizes { n, t, h, .. } = call.sizes;
        let [q, g, of_gates] = [3, 1, 4].map(|columns| self.buffer(n * t * columns * h));
        let products = match call.spec.reset {
            Reset::AfterMatmul => vec![Products::All { q }],
            Reset::BeforeMatmul => vec![
                Products::ResetAndUpdate {
                    q: q.clone(),
                    g: g.clone(),
                },
                Products::Candidate { q },
            ],
        };
        for products in products {
            gates(&self.client, call, &products, &of_gates);
        }
        let given = call.inputs.sequence.h0.is_some().then_some(&of_gates);
        recurrent_inputs(&self.client, call, &g, given, &g);
        self.take("products");
    }

    fn take(&mut self, words: &str) {
        let sources = take_sources(&self.client).into_iter();
        self.sources
            .extend(sources.map(|source| (words.to_owned(), source)));
    }

    /// Every kernel in the form that is inferred for the device: sequence kernels with and without a resident weight, step
    /// kernels and persistent kernels.
    fn every_variant(mut self) -> Self {
        for (reset, given, clip, starts) in [
            (Reset::AfterMatmul, true, Some(0.5), Starts::None),
            (Reset::AfterMatmul, false, None, Starts::None),
            (Reset::BeforeMatmul, true, Some(0.5), Starts::None),
            (Reset::AfterMatmul, true, None, Starts::FromState),
            (Reset::BeforeMatmul, true, None, Starts::FromZeros),
        ] {
            let spec = GruSpec::default().with_reset(reset).with_clip_gates(clip);
            let call = |compiler: &Self, n, h| Recurrence {
                starts,
                ..compiler.call(spec, (n, 2, h), given)
            };
            for (n, h, strategy) in [
                (1, 33, Strategy::Inferred),
                (256, 64, Strategy::Inferred),
                (64, 128, Strategy::Inferred),
                (256, 200, Strategy::Independent),
                (64, 512, Strategy::Independent),
                // Persistent kernels: too few rows for matrix units, and enough.
                (4, 512, Strategy::Inferred),
                (64, 1024, Strategy::Inferred),
            ] {
                let call = call(&self, n, h);
                self.passes(&call, strategy);
            }
            let call = call(&self, 3, 33);
            self.products(&call);
        }
        self
    }

    /// One schedule with either reset.
    fn forced(mut self, schedule: Schedule, h: usize) -> Self {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let spec = GruSpec::default().with_reset(reset);
            let call = self.call(spec, (64, 2, h), true);
            self.passes(&call, Strategy::Forced(schedule));
        }
        self
    }

    /// Step kernels and persistent kernels by matrix units; float32 as TF32.
    fn by_matrices(self, h: usize) -> Self {
        let of = |k_splits, block_k| StepTile {
            matrix: true,
            ..tile(16, 1, 32, 1, k_splits, block_k)
        };
        self.forced(Schedule::Steps(of(4, 128)), h)
            .forced(Schedule::Persistent(of(8, 256)), h)
    }
}

/// Checks that each kind of schedule is there, in both passes.
fn check_kinds(sources: &[(String, Source)], kinds: &[(&str, bool)]) {
    for pass in ["forward", "backward"] {
        for &(kind, matrix) in kinds {
            let is_kind = |words: &str| {
                words.starts_with(pass)
                    && words.contains(kind)
                    && words.contains("matrix") == matrix
            };
            assert!(
                sources.iter().any(|(words, _)| is_kind(words)),
                "{pass} {kind}, matrix units: {matrix}"
            );
        }
    }
}

fn cuda_within_limits() {
    // One 16-bit type, because both differ only in a name. Metal's test covers float32.
    let half = Compiler::new(Language::Cuda, FloatKind::F16).every_variant();
    let single = Compiler::new(Language::Cuda, FloatKind::F32).by_matrices(512);
    let sources = [half.sources, single.sources].into_iter().flatten();
    let sources: Vec<_> = sources.collect();
    let kinds = ["steps", "persistent"].map(|kind| [(kind, false), (kind, true)]);
    check_kinds(
        &sources,
        &[
            &[("sequence", false), ("persistent", false)],
            &kinds[0][1..],
            &kinds[1][1..],
        ]
        .concat(),
    );
    for (
        words,
        Source {
            name,
            compiled,
            threads,
        },
    ) in &sources
    {
        let (source, shared) = (&compiled.source, compiled.shared_memory_size);
        let at = format!("{name}, {words}");
        assert!(source.contains("__global__"), "{at}: no kernel");
        assert!(*threads <= 1024, "{at}: {threads} threads");
        assert!(shared <= 48 << 10, "{at}: {shared} bytes of shared memory");
        let multiplies = words.contains("matrix") && name.contains("_step");
        assert_eq!(
            source.contains("mma_sync"),
            multiplies,
            "{at}: matrix units"
        );
    }
}

/// For tensors of 2³² elements or more. A test does not have the memory to run one.
fn indices_of_64_bits() {
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        let spec = GruSpec::default().with_reset(reset);
        for (n, h, is_long) in [
            (2, 33, false),
            (2, 512, false),
            (1 << 25, 33, true),
            (1 << 21, 512, true),
        ] {
            let mut compiler = Compiler::new(Language::Cuda, FloatKind::F32);
            let call = compiler.call(spec, (n, 1, h), true);
            compiler.passes(&call, Strategy::Independent);
            for (words, Source { name, compiled, .. }) in &compiler.sources {
                let has_long = compiled.source.contains("uint64_t const v");
                assert_eq!(has_long, is_long, "{name}, {words}, N{n}");
            }
        }
    }
}

fn of_metal() -> Vec<(String, Source)> {
    let persistent = Schedule::Persistent(tile(4, 4, 32, 1, 8, 256));
    let single = Compiler::new(Language::Metal, FloatKind::F32).every_variant();
    let half = Compiler::new(Language::Metal, FloatKind::F16).every_variant();
    [single, half]
        .into_iter()
        .flat_map(|compiler| compiler.forced(persistent, 512).sources)
        .collect()
}

fn metal_within_limits() {
    let sources = of_metal();
    let kinds = [
        ("sequence", false),
        ("steps", false),
        ("steps", true),
        ("persistent", false),
    ];
    check_kinds(&sources, &kinds);
    for (
        words,
        Source {
            name,
            compiled,
            threads,
        },
    ) in &sources
    {
        let (source, shared) = (&compiled.source, compiled.shared_memory_size);
        let at = format!("{name}, {words}");
        assert!(source.contains("[[kernel]]"), "{at}: no kernel");
        assert!(shared <= 32 << 10, "{at}: {shared} bytes of shared memory");
        assert!(*threads <= 1024, "{at}: {threads} threads");
        let buffers = source.matches("[[buffer(").count();
        assert_eq!(buffers, compiled.buffers.len(), "{at}: buffers");
        // WebGPU allows 8. Devices with persistent kernels have more.
        let most = 8 + usize::from(words.contains("persistent"));
        assert!(buffers <= most, "{at}: {buffers} buffers");
        let declares = source.contains("threadgroup char");
        assert_eq!(
            declares,
            shared > 0,
            "{at}: shared memory is declared if it is counted"
        );
    }
}

fn metal_parses_as_cpp() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("metal_stdlib");
    std::fs::write(library, include_str!("metal_shim.hpp")).unwrap();
    for (words, source) in of_metal() {
        let mut clang = Command::new("clang");
        clang.args([
            "-x",
            "c++",
            "-std=c++17",
            "-fsyntax-only",
            "-Wno-everything",
        ]);
        clang.arg("-I").arg(directory.path()).arg("-");
        pipe(&words, &source, &mut clang);
    }
}

/// `GRU_NVRTC` is a command that compiles its input. The test prints its output, registers and stack.
/// `tools/gpu-drivers nvrtc` runs it.
fn compiles_by_nvrtc() {
    let command = env::var("GRU_NVRTC").expect("GRU_NVRTC is a command");
    let words: Vec<_> = command.split_whitespace().collect();
    let (program, arguments) = words.split_first().expect("GRU_NVRTC is a command");
    for dtype in [FloatKind::F32, FloatKind::F16, FloatKind::BF16] {
        let all = Compiler::new(Language::Cuda, dtype).every_variant();
        let all = all.by_matrices(512).by_matrices(1024);
        for (words, source) in all.sources {
            let mut compiler = Command::new(program);
            compiler.args(arguments).arg(source.threads.to_string());
            let report = pipe(&words, &source, &mut compiler);
            println!("{} | {}, {words}", report.trim(), source.name);
        }
    }
}

/// Runs a compiler with the source as its standard input, and returns its output.
fn pipe(words: &str, source: &Source, compiler: &mut Command) -> String {
    let text = &source.compiled.source;
    compiler.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = compiler.stderr(Stdio::piped()).spawn().expect("a compiler");
    let mut stdin = running.stdin.take().expect("stdin is piped");
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = running.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}, {words}:\n{errors}\n{text}",
        source.name
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
