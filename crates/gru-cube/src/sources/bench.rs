//! Defines each kernel with the arguments of a call, and compiles it.

use super::{Compiled, HARDWARE};
use crate::kernel::{
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
};
use cubecl::{
    Compiler, CubeKernel, ExecutionMode,
    device::DeviceId,
    features::{Features, MmaConfig},
    ir::{
        AddressType, DeviceIdentity, DeviceProperties, ElemType, FloatKind, MemoryDeviceProperties,
        TargetProperties,
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
use gru_spec::{GruSpec, Order};
use std::sync::Arc;

/// Defines kernels: properties of a device, and one buffer for all arguments.
pub struct Bench {
    pub properties: Arc<DeviceProperties>,
    pub target: Arc<TargetProperties>,
    pub buffer: Handle,
    pub dtype: ElemType,
    /// Type of indices.
    pub address: AddressType,
    /// The matrices of its matrix units.
    pub matrices: Option<Matrices>,
    pub compile: fn(KernelDefinition) -> ComputeKernel,
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
    pub fn new<T>(dtype: FloatKind, matrices: Option<Matrices>) -> Self
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
    pub fn rule(&self, spec: &GruSpec, hidden: usize) -> Rule {
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

    pub fn compile(&self, name: &str, kernel: impl CubeKernel) -> Compiled {
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

    pub fn sequence(&self, pass: Pass, sequence: SequenceKernel, given: bool) -> Compiled {
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

    pub fn forward_step(&self, steps: Steps, given: bool) -> Compiled {
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

    pub fn backward_step(&self, steps: Steps, given: bool, end: bool) -> Compiled {
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

    pub fn transpose(&self) -> Compiled {
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

    pub fn share(&self) -> Compiled {
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

    pub fn gates(&self, rule: Rule, part: Part, given: bool) -> Compiled {
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

    pub fn recurrent_inputs(&self, given: bool, starts: Starts) -> Compiled {
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
