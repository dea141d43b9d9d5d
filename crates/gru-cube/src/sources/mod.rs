//! Sources for Metal and CUDA without such a device: CubeCL generates the source of every kernel. Tests
//! compare its resources with the limits of a device, and compile it as far as possible on this machine. No
//! test here runs on hardware of Apple or NVIDIA.

mod cuda;
mod metal;

use crate::{
    kernel::{
        backward::gru_backward_sequence,
        forward::gru_forward_sequence,
        operands::{OperandRule, OperandsLaunch, gru_recurrent_inputs},
        recompute::{Part, RecomputedLaunch, gru_gates},
        rule::{Pass, Rule, Starts, ZoneoutKind},
        sequence::SequenceKernel,
        small::{Small, SmallLaunch, SourceLaunch, gru_share},
        steps::{
            Steps,
            backward::gru_backward_step,
            forward::gru_forward_step,
            transpose::{TRANSPOSE, gru_transpose},
        },
        tensors::{BackwardLaunch, ForwardLaunch},
        threads::{Matrices, Threads},
    },
    plan::{self, Plan, Problem, limits::Limits, schedule::Strategy},
};
use cubecl::{
    Compiler, CubeKernel, ExecutionMode,
    device::DeviceId,
    features::{Features, MmaConfig},
    ir::{
        AddressType, DeviceIdentity, DeviceProperties, ElemType, FloatKind, HardwareProperties,
        MemoryDeviceProperties, TargetProperties,
    },
    prelude::*,
    profile::TimingMethod,
    server::Handle,
};
use cubecl_common::device::ServiceId;
use cubecl_cpp::{
    ComputeKernel,
    shared::{CompilationOptions, CppCompiler},
    target::CppTarget,
};
use cubecl_environment::stream::StreamId;
use gru_spec::{GruSpec, Order, Reset};
use std::{
    io::Write,
    process::{Command, Stdio},
    sync::Arc,
};

/// A compiled kernel and the units of its cubes.
struct Compiled {
    name: String,
    kernel: ComputeKernel,
    units: u32,
}

impl Compiled {
    /// Runs a compiler with the source as its standard input, and returns its output.
    fn pipe_to(&self, compiler: &mut Command) -> String {
        let (name, source) = (&self.name, &self.kernel.source);
        compiler.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = compiler.stderr(Stdio::piped()).spawn().expect("a compiler");
        let mut stdin = running.stdin.take().expect("stdin is piped");
        stdin.write_all(source.as_bytes()).unwrap();
        drop(stdin);
        let output = running.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}:\n{errors}\n{source}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Hardware of an imaginary device. The plan uses its own limits instead.
const HARDWARE: HardwareProperties = HardwareProperties {
    load_width: 128,
    vector_register_count: None,
    plane_size_min: 32,
    plane_size_max: 32,
    max_bindings: 31,
    max_shared_memory_size: 48 << 10,
    max_cube_count: (1 << 16, 1 << 16, 1 << 16),
    max_units_per_cube: 1024,
    max_cube_dim: (1024, 1024, 64),
    num_streaming_multiprocessors: None,
    num_cpu_cores: None,
    last_level_cache_size: None,
    num_tensor_cores: None,
    min_tensor_cores_dim: None,
    max_vector_size: 4,
    cube_mma_reserved_shared_memory: 0,
};

/// Defines kernels: properties of a device, and one buffer for all arguments.
struct Bench {
    properties: Arc<DeviceProperties>,
    target: Arc<TargetProperties>,
    buffer: Handle,
    dtype: ElemType,
    /// Type of indices.
    address: AddressType,
    /// The matrices of its matrix units.
    matrices: Option<Matrices>,
    compile: fn(KernelDefinition) -> ComputeKernel,
}

/// Defines a kernel, from its cube and arguments.
macro_rules! kernel {
    ($bench:expr, $name:ident, $cube_dim:expr, $($argument:expr),+ $(,)?) => {
        $name::create_dummy_kernel(
            $bench.properties.clone(),
            $bench.target.clone(),
            CubeCount::Static(1, 1, 1),
            $cube_dim,
            $bench.address,
            $($argument),+
        )
    };
}

impl Bench {
    fn new<T>(dtype: FloatKind, matrices: Option<Matrices>) -> Self
    where
        T: CppTarget,
        CppCompiler<T>:
            Compiler<CompilationOptions = CompilationOptions, Representation = ComputeKernel>,
    {
        let mut features = Features::default();
        let offered = matrices.map(|matrices| MmaConfig {
            a_type: matrices.element,
            b_type: matrices.element,
            cd_type: ElemType::Float(FloatKind::F32),
            m: matrices.m as u32,
            n: matrices.n as u32,
            k: matrices.k as u32,
        });
        features.matmul.cmma.extend(offered);
        let properties = DeviceProperties::new(
            features,
            MemoryDeviceProperties::new(1 << 30, 256),
            HARDWARE,
            TimingMethod::System,
            DeviceIdentity::default(),
        );
        let nowhere = ServiceId::of::<()>(DeviceId::new(0, 0));
        Self {
            properties: Arc::new(properties),
            target: Arc::default(),
            buffer: Handle::new(nowhere, StreamId::current(), 4),
            dtype: ElemType::Float(dtype),
            address: AddressType::U32,
            matrices,
            compile: |definition| {
                CppCompiler::<T>::default()
                    .compile(definition, &CompilationOptions::default())
                    .unwrap_or_else(|error| panic!("{error:?}"))
            },
        }
    }

    fn arg(&self) -> BufferArg {
        // SAFETY: the kernel is never launched.
        unsafe { BufferArg::from_raw_parts(self.buffer.clone(), 1) }
    }

    fn optional<T: From<Option<BufferArg>>>(&self, given: bool) -> T {
        given.then(|| self.arg()).into()
    }

    /// A rule for this type.
    fn rule(&self, spec: &GruSpec, hidden: usize) -> Rule {
        Rule {
            narrow: self.dtype.size() < size_of::<f32>(),
            ..Rule::new(spec, Order::default(), hidden, f32::EPSILON.into())
        }
    }

    fn small<F: Float>(&self, given: bool) -> ComptimeOptionArgs<Small<F>> {
        given.then(|| SmallLaunch::new(self.arg(), 0)).into()
    }

    /// The numbers of a schedule on which its registers depend.
    fn tile(&self, rule: &Rule, threads: &Threads) -> String {
        let Threads {
            rows,
            n_threads,
            k_splits,
            columns,
            ..
        } = threads;
        let (hidden, reset) = (
            rule.hidden,
            if rule.reset_after { "after" } else { "before" },
        );
        format!(
            "{:?} H{hidden} reset {reset} rows={rows} columns={columns} n_threads={n_threads} \
             k_splits={k_splits}",
            self.dtype
        )
    }

    fn factors(&self, steps: &Steps) -> ElemType {
        let matrices = steps.threads.matrices;
        matrices.map_or(self.dtype, |matrices| matrices.element)
    }

    fn compile(&self, name: &str, kernel: impl CubeKernel) -> Compiled {
        let mut definition = kernel.define();
        definition.settings.execution_mode = ExecutionMode::Unchecked;
        let cube_dim = definition.settings.cube_dim;
        Compiled {
            name: name.into(),
            kernel: (self.compile)(definition),
            units: cube_dim.x * cube_dim.y * cube_dim.z,
        }
    }

    /// Arguments of a forward kernel, whose optional tensors are all `given` or all absent. They share a buffer.
    fn forward<F: Float>(&self, rule: &Rule, is_step: bool, given: bool) -> ForwardLaunch<F> {
        ForwardLaunch::new(
            self.arg(),
            self.arg(),
            self.small(given),
            shared(2, given),
            shared(2, given),
            shared(2, given),
            shared(2, given),
            self.small(rule.zoneout != ZoneoutKind::None),
            self.arg(),
            self.optional(given),
            self.optional(is_step && (!rule.reset_after || rule.narrow)),
            1,
            1,
            1,
            0,
            1,
        )
    }

    fn backward<F: Float>(&self, rule: &Rule, given: bool) -> BackwardLaunch<F> {
        BackwardLaunch::new(
            self.arg(),
            self.arg(),
            self.arg(),
            self.arg(),
            shared(3, given),
            shared(3, given),
            shared(3, given),
            self.small(rule.zoneout != ZoneoutKind::None),
            self.arg(),
            self.arg(),
            1,
            1,
            1,
        )
    }

    fn sequence(&self, pass: Pass, sequence: SequenceKernel, given: bool) -> Compiled {
        let SequenceKernel { rule, threads, .. } = sequence;
        let tile = self.tile(&rule, &threads);
        let dim = cube_dim(&threads);
        match pass {
            Pass::Forward => {
                let kernel = kernel!(
                    self,
                    gru_forward_sequence,
                    dim,
                    threads.width,
                    self.forward(&rule, false, given),
                    0,
                    1,
                    sequence,
                    self.dtype,
                );
                self.compile(&format!("forward sequence, {tile}"), kernel)
            }
            Pass::Backward => {
                let kernel = kernel!(
                    self,
                    gru_backward_sequence,
                    dim,
                    threads.width,
                    self.backward(&rule, given),
                    0,
                    1,
                    sequence,
                    self.dtype,
                );
                self.compile(&format!("backward sequence, {tile}"), kernel)
            }
        }
    }

    fn forward_step(&self, steps: Steps, given: bool) -> Compiled {
        let kernel = kernel!(
            self,
            gru_forward_step,
            cube_dim(&steps.threads),
            steps.threads.width,
            self.forward(&steps.rule, true, given),
            self.optional(steps.persistent),
            0,
            1,
            steps,
            self.dtype,
            self.factors(&steps),
        );
        let tile = self.tile(&steps.rule, &steps.threads);
        let name = format!("{}forward step, {tile} {:?}", launch(&steps), steps.phases);
        self.compile(&name, kernel)
    }

    fn backward_step(&self, steps: Steps, given: bool, end: bool) -> Compiled {
        let kernel = kernel!(
            self,
            gru_backward_step,
            cube_dim(&steps.threads),
            steps.threads.width,
            self.backward(&steps.rule, given),
            self.optional(steps.persistent),
            0,
            1,
            steps,
            end,
            self.dtype,
            self.factors(&steps),
        );
        let tile = self.tile(&steps.rule, &steps.threads);
        let phases = if end {
            "d_h0".into()
        } else {
            format!("{:?}", steps.phases)
        };
        let name = format!("{}backward step, {tile} {phases}", launch(&steps));
        self.compile(&name, kernel)
    }

    fn transpose(&self) -> Compiled {
        let kernel = kernel!(
            self,
            gru_transpose,
            CubeDim::new_2d(TRANSPOSE, TRANSPOSE),
            self.arg(),
            self.arg(),
            1,
            self.dtype,
        );
        self.compile("transpose", kernel)
    }

    fn share(&self) -> Compiled {
        let sources = (0..6).map(|_| SourceLaunch::new(self.arg(), 0, 1));
        let kernel = kernel!(
            self,
            gru_share,
            CubeDim::new_1d(256),
            sources.collect(),
            self.arg(),
            0,
            self.dtype,
        );
        self.compile("share", kernel)
    }

    fn gates(&self, rule: Rule, part: Part, given: bool) -> Compiled {
        let kernel = kernel!(
            self,
            gru_gates,
            CubeDim::new_1d(256),
            RecomputedLaunch::new(
                self.arg(),
                self.arg(),
                self.small(given),
                self.small(given),
                self.optional(part == Part::ResetAndUpdate),
                self.arg(),
                1,
            ),
            rule,
            part,
            self.dtype,
        );
        self.compile(&format!("gates, {part:?} {:?}", self.dtype), kernel)
    }

    fn recurrent_inputs(&self, given: bool, starts: Starts) -> Compiled {
        let rule = OperandRule {
            saved: 3,
            time_major: given,
            reverse: given,
            starts,
        };
        let kernel = kernel!(
            self,
            gru_recurrent_inputs,
            CubeDim::new_1d(256),
            OperandsLaunch::new(
                self.arg(),
                self.small(given),
                self.small(given),
                self.small(given),
                self.optional(given),
                self.arg(),
                1,
                1,
                1,
            ),
            rule,
            self.dtype,
        );
        self.compile("recurrent inputs", kernel)
    }
}

/// A tensor in the shared buffer, which the kernel binds at `position`.
fn shared<F: Float>(position: usize, given: bool) -> ComptimeOptionArgs<Small<F>> {
    let arg = BufferArg::alias(position, 1);
    given.then(|| SmallLaunch::new(arg, 0)).into()
}

fn launch(steps: &Steps) -> &'static str {
    match (steps.persistent, steps.threads.matrices) {
        (true, Some(_)) => "persistent matrix ",
        (true, None) => "persistent ",
        (false, Some(_)) => "matrix ",
        (false, None) => "",
    }
}

fn cube_dim(threads: &Threads) -> CubeDim {
    CubeDim::new_1d(threads.units() as u32)
}

impl Bench {
    /// Every kernel in the form that is inferred for a device. The sizes lead to sequence kernels with and
    /// without a resident weight, to step kernels, and to persistent kernels as if the device had multiprocessors.
    fn every_variant(&self, limits: Limits) -> Vec<Compiled> {
        let mut all = Vec::new();
        for (reset, given, clip, starts) in [
            (Reset::AfterMatmul, true, Some(0.5), Starts::None),
            (Reset::AfterMatmul, false, None, Starts::None),
            (Reset::BeforeMatmul, true, Some(0.5), Starts::None),
            (Reset::AfterMatmul, true, None, Starts::FromState),
            (Reset::BeforeMatmul, true, None, Starts::FromZeros),
        ] {
            let spec = GruSpec::default().with_reset(reset).with_clip_gates(clip);
            let rule = Rule {
                zoneout: if given {
                    ZoneoutKind::OfUnit
                } else {
                    ZoneoutKind::None
                },
                starts,
                ..self.rule(&spec, 33)
            };
            let parts: &[Part] = match reset {
                Reset::AfterMatmul => &[Part::All],
                Reset::BeforeMatmul => &[Part::ResetAndUpdate, Part::Candidate],
            };
            for &part in parts {
                all.push(self.gates(rule, part, given));
            }
            for (n, hidden, coresident_cubes) in [
                (1, 33, 0),
                (256, 64, 0),
                (64, 128, 0),
                (256, 200, 0),
                (64, 512, 0),
                // Persistent kernels: too few rows for matrix units, and enough.
                (4, 512, 32),
                (64, 1024, 132),
            ] {
                let problem = Problem {
                    n,
                    rule: Rule { hidden, ..rule },
                    limits: Limits {
                        coresident_cubes,
                        ..limits
                    },
                    matrices: self.matrices,
                };
                all.extend(self.both_passes(Strategy::Inferred, &problem, given));
            }
        }
        all.push(self.transpose());
        all.push(self.share());
        all.push(self.recurrent_inputs(true, Starts::None));
        all.push(self.recurrent_inputs(false, Starts::None));
        all.push(self.recurrent_inputs(true, Starts::FromState));
        all
    }

    fn both_passes(&self, strategy: Strategy, problem: &Problem, given: bool) -> Vec<Compiled> {
        let mut all = Vec::new();
        for pass in [Pass::Forward, Pass::Backward] {
            let steps = match plan::plan(pass, strategy, problem).unwrap() {
                Plan::Sequence(sequence) => {
                    all.push(self.sequence(pass, sequence, given));
                    continue;
                }
                Plan::Steps(steps) => steps,
            };
            let launches = steps.launches();
            match pass {
                Pass::Forward => all.extend(launches.map(|steps| self.forward_step(steps, given))),
                Pass::Backward => {
                    all.extend(launches.map(|steps| self.backward_step(steps, given, false)));
                    all.push(self.backward_step(steps.end(), given, true));
                }
            }
        }
        all
    }
}
