//! Metal without a Mac: every kernel goes through CubeCL's Metal compiler, and its source is held
//! against Metal's limits and parsed as C++. This is no run on Apple's hardware.

use crate::{
    cut::Strategy,
    kernel::{
        backward::{BackwardWalk, gru_backward_walk},
        forward::{ForwardWalk, gru_forward_walk},
        gates::{Part, gru_gates},
        product::Team,
        shift::{Shift, gru_recurrent_inputs},
        steps::{
            Halves, Steps,
            backward::gru_backward_step,
            forward::gru_forward_step,
            transpose::{TRANSPOSE, gru_transpose},
        },
    },
    limits::Limits,
    plan::{self, Plan, Problem},
    rule::Rule,
};
use cubecl::{
    Compiler, CubeKernel, Device, ExecutionMode,
    ir::{AddressType, DeviceProperties, ElemType, FloatKind, TargetProperties},
    prelude::*,
    server::Handle,
};
use cubecl_cpp::{ComputeKernel, MslCompiler, shared::CompilationOptions};
use gru_cpu::spec::{GruSpec, Reset};
use std::{
    io::Write,
    process::{Command, Stdio},
    sync::Arc,
};

/// Those of every Apple GPU that runs Metal 3.
const LIMITS: Limits = Limits {
    units: 1024,
    shared_bytes: 32 * 1024,
    cubes: 32,
    buffers: 30,
    together: 0,
    cpu: false,
};

/// A compiled kernel and the units of its cubes.
struct Compiled {
    name: String,
    kernel: ComputeKernel,
    units: u32,
}

/// Where kernels are defined: a device's properties, and a buffer to stand for every argument.
struct Bench {
    properties: Arc<DeviceProperties>,
    target: Arc<TargetProperties>,
    buffer: Handle,
    dtype: ElemType,
}

impl Bench {
    fn new(dtype: FloatKind) -> Self {
        let client = Device::default().client();
        Self {
            properties: client.properties_shared(),
            target: client.target_properties_shared(),
            buffer: client.empty(4),
            dtype: ElemType::Float(dtype),
        }
    }

    fn arg(&self) -> BufferArg {
        // SAFETY: the kernel is never launched.
        unsafe { BufferArg::from_raw_parts(self.buffer.clone(), 1) }
    }

    fn optional<T: From<Option<BufferArg>>>(&self, given: bool) -> T {
        given.then(|| self.arg()).into()
    }

    fn compile(&self, name: &str, kernel: impl CubeKernel) -> Compiled {
        let mut definition = kernel.define();
        definition.settings.execution_mode = ExecutionMode::Unchecked;
        let cube_dim = definition.settings.cube_dim;
        let compiled = MslCompiler::default().compile(definition, &CompilationOptions::default());
        Compiled {
            name: name.into(),
            kernel: compiled.unwrap_or_else(|error| panic!("{name}: {error:?}")),
            units: cube_dim.x * cube_dim.y * cube_dim.z,
        }
    }

    fn forward_walk(&self, walk: ForwardWalk, given: bool) -> Compiled {
        let kernel = gru_forward_walk::create_dummy_kernel(
            self.properties.clone(),
            self.target.clone(),
            CubeCount::Static(1, 1, 1),
            cube_dim(&walk.team),
            AddressType::U32,
            walk.team.width,
            self.arg(),
            self.arg(),
            self.optional(given),
            self.optional(given),
            self.optional(given),
            self.optional(given),
            self.optional(given),
            self.arg(),
            self.optional(given),
            1,
            1,
            0,
            1,
            walk,
            self.dtype,
        );
        self.compile(&format!("forward walk {walk:?} {:?}", self.dtype), kernel)
    }

    fn backward_walk(&self, walk: BackwardWalk, given: bool) -> Compiled {
        let kernel = gru_backward_walk::create_dummy_kernel(
            self.properties.clone(),
            self.target.clone(),
            CubeCount::Static(1, 1, 1),
            cube_dim(&walk.team),
            AddressType::U32,
            walk.team.width,
            self.arg(),
            self.arg(),
            self.arg(),
            self.arg(),
            self.optional(given),
            self.optional(given),
            self.optional(given),
            self.arg(),
            self.arg(),
            1,
            1,
            walk,
            self.dtype,
        );
        self.compile(&format!("backward walk {walk:?} {:?}", self.dtype), kernel)
    }

    fn forward_step(&self, steps: Steps, given: bool) -> Compiled {
        let kernel = gru_forward_step::create_dummy_kernel(
            self.properties.clone(),
            self.target.clone(),
            CubeCount::Static(1, 1, 1),
            cube_dim(&steps.team),
            AddressType::U32,
            steps.team.width,
            self.arg(),
            self.arg(),
            self.optional(given),
            self.optional(given),
            self.optional(given),
            self.optional(given),
            self.optional(given),
            self.arg(),
            self.optional(given),
            self.optional(!steps.rule.reset_after),
            self.optional(self.dtype.size() < 4),
            self.optional(steps.persistent),
            1,
            1,
            0,
            1,
            0,
            1,
            steps,
            self.dtype,
        );
        let name = format!("{}forward step {steps:?} {:?}", launch(&steps), self.dtype);
        self.compile(&name, kernel)
    }

    fn backward_step(&self, steps: Steps, given: bool, end: bool) -> Compiled {
        let kernel = gru_backward_step::create_dummy_kernel(
            self.properties.clone(),
            self.target.clone(),
            CubeCount::Static(1, 1, 1),
            cube_dim(&steps.team),
            AddressType::U32,
            steps.team.width,
            self.arg(),
            self.arg(),
            self.arg(),
            self.arg(),
            self.optional(given),
            self.optional(given),
            self.optional(given),
            self.arg(),
            self.arg(),
            self.arg(),
            self.optional(steps.persistent),
            1,
            1,
            0,
            1,
            steps,
            end,
            self.dtype,
        );
        let name = format!("{}backward step {steps:?} {:?}", launch(&steps), self.dtype);
        self.compile(&name, kernel)
    }

    fn transpose(&self) -> Compiled {
        let kernel = gru_transpose::create_dummy_kernel(
            self.properties.clone(),
            self.target.clone(),
            CubeCount::Static(1, 1, 1),
            CubeDim::new_2d(TRANSPOSE, TRANSPOSE),
            AddressType::U32,
            self.arg(),
            self.arg(),
            1,
            self.dtype,
        );
        self.compile("transpose", kernel)
    }

    fn gates(&self, hidden: usize, rule: Rule, part: Part, given: bool) -> Compiled {
        let kernel = gru_gates::create_dummy_kernel(
            self.properties.clone(),
            self.target.clone(),
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(256),
            AddressType::U32,
            self.arg(),
            self.arg(),
            self.optional(given),
            self.optional(given),
            self.optional(part == Part::ResetAndUpdate),
            self.arg(),
            1,
            hidden,
            rule,
            part,
            self.dtype,
        );
        self.compile(&format!("gates {part:?} {rule:?} {:?}", self.dtype), kernel)
    }

    fn recurrent_inputs(&self, given: bool) -> Compiled {
        let shift = Shift {
            saved: 3,
            time_major: given,
            reverse: given,
        };
        let kernel = gru_recurrent_inputs::create_dummy_kernel(
            self.properties.clone(),
            self.target.clone(),
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(256),
            AddressType::U32,
            self.arg(),
            self.optional(given),
            self.optional(given),
            self.optional(given),
            self.optional(given),
            self.arg(),
            1,
            1,
            1,
            shift,
            self.dtype,
        );
        self.compile("recurrent inputs", kernel)
    }
}

fn launch(steps: &Steps) -> &'static str {
    if steps.persistent { "persistent " } else { "" }
}

fn cube_dim(team: &Team) -> CubeDim {
    CubeDim::new_1d(team.units() as u32)
}

/// Every kernel in the form that the inference chooses on an Apple GPU, over sizes that reach
/// walks with the weight in registers, walks without, and steps; these also in one launch, as if the
/// device told how many cubes it runs at a time.
fn every_variant() -> Vec<Compiled> {
    let mut all = Vec::new();
    for dtype in [FloatKind::F32, FloatKind::F16] {
        let bench = Bench::new(dtype);
        for (reset, given, clip) in [
            (Reset::AfterMatmul, true, Some(0.5)),
            (Reset::AfterMatmul, false, None),
            (Reset::BeforeMatmul, true, Some(0.5)),
        ] {
            let rule = Rule::new(
                &GruSpec::default().with_reset(reset).with_clip_gates(clip),
                f32::EPSILON.into(),
            );
            let parts: &[Part] = match reset {
                Reset::AfterMatmul => &[Part::All],
                Reset::BeforeMatmul => &[Part::ResetAndUpdate, Part::Candidate],
            };
            for &part in parts {
                all.push(bench.gates(33, rule, part, given));
            }
            for (n, hidden, together) in [
                (1, 33, 0),
                (256, 64, 0),
                (64, 128, 0),
                (256, 200, 0),
                (64, 512, 0),
                (64, 512, 32),
            ] {
                let problem = Problem {
                    n,
                    hidden,
                    rule,
                    limits: Limits { together, ..LIMITS },
                    measured: None,
                };
                match plan::forward(Strategy::Persistent, &problem).unwrap() {
                    Plan::Walk(walk) => all.push(bench.forward_walk(walk, given)),
                    Plan::Steps(steps) => {
                        let launches = steps.launches();
                        all.extend(launches.map(|steps| bench.forward_step(steps, given)));
                    }
                }
                match plan::backward(Strategy::Persistent, &problem).unwrap() {
                    Plan::Walk(walk) => all.push(bench.backward_walk(walk, given)),
                    Plan::Steps(steps) => {
                        let launches = steps.launches();
                        all.extend(launches.map(|steps| bench.backward_step(steps, given, false)));
                        let halves = Halves::One(steps.half(0));
                        let end = Steps { halves, ..steps };
                        all.push(bench.backward_step(end, given, true));
                    }
                }
            }
        }
        all.push(bench.transpose());
        all.push(bench.recurrent_inputs(true));
        all.push(bench.recurrent_inputs(false));
    }
    all
}

#[test]
fn sources_are_within_the_limits_of_metal() {
    let all = every_variant();
    for part in [
        "forward walk",
        "backward walk",
        "forward step",
        "backward step",
        "persistent forward step",
        "persistent backward step",
    ] {
        assert!(all.iter().any(|c| c.name.starts_with(part)), "{part}");
    }
    for Compiled {
        name,
        kernel,
        units,
    } in &all
    {
        let source = &kernel.source;
        assert!(source.contains("[[kernel]]"), "{name}: no kernel");
        let shared = kernel.shared_memory_size;
        assert!(
            shared <= 32 * 1024,
            "{name}: {shared} bytes of shared memory"
        );
        assert!(*units <= 1024, "{name}: {units} units");
        let buffers = source.matches("[[buffer(").count();
        assert_eq!(buffers, kernel.buffers.len(), "{name}: buffers");
        // One more holds the sizes.
        assert!(buffers < 31, "{name}: {buffers} buffers");
        assert_eq!(
            source.contains("threadgroup char"),
            shared > 0,
            "{name}: shared memory is declared where it is counted"
        );
    }
}

#[test]
#[ignore = "needs clang: cargo test -- --ignored"]
fn sources_parse_as_cpp() {
    let directory = std::env::temp_dir().join(format!("gru-cube-metal-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(
        directory.join("metal_stdlib"),
        include_str!("metal_shim.hpp"),
    )
    .unwrap();
    for Compiled { name, kernel, .. } in every_variant() {
        let mut clang = Command::new("clang")
            .args([
                "-x",
                "c++",
                "-std=c++17",
                "-fsyntax-only",
                "-Wno-everything",
                "-I",
            ])
            .arg(&directory)
            .arg("-")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("clang runs");
        let mut stdin = clang.stdin.take().expect("stdin is piped");
        stdin.write_all(kernel.source.as_bytes()).unwrap();
        drop(stdin);
        let output = clang.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{name}:\n{}\n{}",
            String::from_utf8_lossy(&output.stderr),
            kernel.source
        );
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
