//! Metal without a Mac, CUDA without a card: every kernel goes through CubeCL's own compilers, and its
//! source is held against the limits of such a device, and compiled as far as that can be done without one.
//! This is no run on Apple's or NVIDIA's hardware.

mod cuda;
mod metal;

use crate::{
    kernel::{
        backward::{BackwardWalk, gru_backward_walk},
        forward::{ForwardWalk, gru_forward_walk},
        gates::{Part, gru_gates},
        rule::{Rule, ZoneoutKind},
        shift::{Shift, gru_recurrent_inputs},
        steps::{
            Halves, Steps,
            backward::gru_backward_step,
            forward::gru_forward_step,
            transpose::{TRANSPOSE, gru_transpose},
        },
        team::{Matrices, Team},
    },
    plan::{self, Plan, Problem, cut::Strategy, limits::Limits},
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
use std::sync::Arc;

/// A compiled kernel and the units of its cubes.
struct Compiled {
    name: String,
    kernel: ComputeKernel,
    units: u32,
}

/// Of a card that is not there. What a kernel may use of it is what the plan was told, not this.
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

/// Where kernels are defined: a device's properties, and a buffer to stand for every argument.
struct Bench {
    properties: Arc<DeviceProperties>,
    target: Arc<TargetProperties>,
    buffer: Handle,
    dtype: ElemType,
    /// What its matrix units multiply.
    matrices: Option<Matrices>,
    compile: fn(KernelDefinition) -> ComputeKernel,
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

    /// What of a cut decides about its registers.
    fn tile(&self, rule: &Rule, team: &Team, hidden: usize) -> String {
        let Team {
            rows,
            lanes,
            splits,
            columns,
            ..
        } = team;
        let reset = if rule.reset_after { "after" } else { "before" };
        format!(
            "{:?} H{hidden} reset {reset} rows={rows} columns={columns} lanes={lanes} splits={splits}",
            self.dtype
        )
    }

    fn factors(&self, steps: &Steps) -> ElemType {
        let matrices = steps.team.matrices;
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
            self.optional(walk.rule.zoneout != ZoneoutKind::None),
            self.arg(),
            self.optional(given),
            1,
            1,
            0,
            1,
            walk,
            self.dtype,
        );
        let name = format!(
            "forward walk, {}",
            self.tile(&walk.rule, &walk.team, walk.hidden)
        );
        self.compile(&name, kernel)
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
            self.optional(walk.rule.zoneout != ZoneoutKind::None),
            self.arg(),
            self.arg(),
            1,
            1,
            walk,
            self.dtype,
        );
        let name = format!(
            "backward walk, {}",
            self.tile(&walk.rule, &walk.team, walk.hidden)
        );
        self.compile(&name, kernel)
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
            self.optional(steps.rule.zoneout != ZoneoutKind::None),
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
            self.factors(&steps),
        );
        let tile = self.tile(&steps.rule, &steps.team, steps.hidden);
        let name = format!("{}forward step, {tile} {:?}", launch(&steps), steps.halves);
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
            self.optional(steps.rule.zoneout != ZoneoutKind::None),
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
            self.factors(&steps),
        );
        let tile = self.tile(&steps.rule, &steps.team, steps.hidden);
        let halves = if end {
            "d_h0".into()
        } else {
            format!("{:?}", steps.halves)
        };
        let name = format!("{}backward step, {tile} {halves}", launch(&steps));
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
        self.compile(&format!("gates, {part:?} {:?}", self.dtype), kernel)
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
    match (steps.persistent, steps.team.matrices) {
        (true, Some(_)) => "persistent matrix ",
        (true, None) => "persistent ",
        (false, Some(_)) => "matrix ",
        (false, None) => "",
    }
}

fn cube_dim(team: &Team) -> CubeDim {
    CubeDim::new_1d(team.units() as u32)
}

impl Bench {
    /// Every kernel of a device in the form that the inference chooses there, over sizes that reach walks
    /// with the weight in registers, walks without, and steps; these also in one launch, as if the device
    /// told how many cubes it runs at a time.
    fn every_variant(&self, limits: Limits) -> Vec<Compiled> {
        let mut all = Vec::new();
        for (reset, given, clip) in [
            (Reset::AfterMatmul, true, Some(0.5)),
            (Reset::AfterMatmul, false, None),
            (Reset::BeforeMatmul, true, Some(0.5)),
        ] {
            let spec = GruSpec::default().with_reset(reset).with_clip_gates(clip);
            let rule = Rule {
                zoneout: if given {
                    ZoneoutKind::OfUnit
                } else {
                    ZoneoutKind::None
                },
                ..Rule::new(&spec, Order::default(), f32::EPSILON.into())
            };
            let parts: &[Part] = match reset {
                Reset::AfterMatmul => &[Part::All],
                Reset::BeforeMatmul => &[Part::ResetAndUpdate, Part::Candidate],
            };
            for &part in parts {
                all.push(self.gates(33, rule, part, given));
            }
            for (n, hidden, together) in [
                (1, 33, 0),
                (256, 64, 0),
                (64, 128, 0),
                (256, 200, 0),
                (64, 512, 0),
                (64, 512, 32),
                (64, 1024, 132),
            ] {
                let problem = Problem {
                    n,
                    hidden,
                    rule,
                    limits: Limits { together, ..limits },
                    matrices: self.matrices,
                    measured: None,
                };
                all.extend(self.both_passes(Strategy::Persistent, &problem, given));
            }
        }
        all.push(self.transpose());
        all.push(self.recurrent_inputs(true));
        all.push(self.recurrent_inputs(false));
        all
    }

    fn both_passes(&self, strategy: Strategy, problem: &Problem, given: bool) -> Vec<Compiled> {
        let mut all = Vec::new();
        match plan::forward(strategy, problem).unwrap() {
            Plan::Walk(walk) => all.push(self.forward_walk(walk, given)),
            Plan::Steps(steps) => {
                let launches = steps.launches();
                all.extend(launches.map(|steps| self.forward_step(steps, given)));
            }
        }
        match plan::backward(strategy, problem).unwrap() {
            Plan::Walk(walk) => all.push(self.backward_walk(walk, given)),
            Plan::Steps(steps) => {
                let launches = steps.launches();
                all.extend(launches.map(|steps| self.backward_step(steps, given, false)));
                let halves = Halves::One(steps.half(0));
                let end = Steps { halves, ..steps };
                all.push(self.backward_step(end, given, true));
            }
        }
        all
    }
}
