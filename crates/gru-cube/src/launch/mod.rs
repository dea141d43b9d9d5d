//! The host side: checks buffers, plans, launches.

mod backward;
mod forward;
mod gates;
mod grid;
mod shift;
mod turn;

pub use backward::{BackwardInputs, BackwardOutputs, backward};
pub use forward::{ForwardInputs, ForwardOutputs, forward};
pub use gates::{GatesInputs, Products, gates};
pub use shift::{RecurrentInputs, recurrent_inputs};

use crate::{
    error::PlanError,
    kernel::product::Team,
    limits::Limits,
    plan::{Plan, Problem},
    rule::Rule,
};
use core::sync::atomic::{AtomicU64, Ordering};
use cubecl::{
    client::Client,
    ir::{AddressType, ElemType, FloatKind},
    prelude::*,
    server::Handle,
};
use gru_cpu::spec::GruSpec;

static LAUNCHES: AtomicU64 = AtomicU64::new(0);

/// Kernels that this crate has launched in this process.
pub fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// Counts a launch; stands beside every one.
fn count_launch() {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

/// What is the same for both passes of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// N, rows of the batch.
    pub n: usize,
    /// T, steps.
    pub t: usize,
    /// H, hidden units.
    pub h: usize,
    /// Which GRU; its `memory` is of no account here.
    pub spec: GruSpec,
    /// Type of every buffer: f32, f16 or bf16. Sums and states within a walk are float32.
    pub dtype: ElemType,
}

impl Call {
    fn problem(&self, op: &str, client: &Client) -> Problem {
        self.spec.check();
        let epsilon = match self.dtype {
            ElemType::Float(FloatKind::F32) => f32::EPSILON.into(),
            ElemType::Float(FloatKind::F16) => 2f64.powi(-10),
            ElemType::Float(FloatKind::BF16) => 2f64.powi(-7),
            other => panic!("{op}: expected type f32, f16 or bf16, got {other:?}"),
        };
        Problem {
            n: self.n,
            hidden: self.h,
            rule: Rule::new(&self.spec, epsilon),
            limits: Limits::of(client),
        }
    }

    /// T·N.
    fn rows(&self) -> usize {
        self.n * self.t
    }

    /// Indices reach four column blocks of every row, and the weight.
    fn address_type(&self) -> AddressType {
        AddressType::from_len((4 * self.rows() * self.h).max(3 * self.h * self.h))
    }

    /// A buffer of `len` elements as a kernel's argument.
    ///
    /// # Panics
    /// If the buffer is shorter, so that no kernel reads or writes past its end.
    fn arg(&self, op: &str, name: &str, handle: Handle, len: usize) -> BufferArg {
        let (got, expected) = (handle.size_in_used(), (len * self.dtype.size()) as u64);
        assert!(
            got >= expected,
            "{op}: {name} has {got} bytes, expected {expected}"
        );
        // SAFETY: the buffer holds at least `len` elements of the type, as just checked.
        unsafe { BufferArg::from_raw_parts(handle, len) }
    }

    /// [`arg`](Self::arg) of a tensor that may be absent.
    fn optional<T: From<Option<BufferArg>>>(
        &self,
        op: &str,
        name: &str,
        handle: Option<&Handle>,
        len: usize,
    ) -> T {
        handle
            .map(|handle| self.arg(op, name, handle.clone(), len))
            .into()
    }
}

/// A plan that the device allows to the current stream.
fn plan_for_stream<W>(
    client: &Client,
    problem: &mut Problem,
    plan: impl Fn(&Problem) -> Result<Plan<W>, PlanError>,
) -> Result<Plan<W>, PlanError> {
    let first = plan(problem)?;
    if !first.meets() || turn::is_ours(client) {
        return Ok(first);
    }
    problem.limits.together = 0;
    plan(problem)
}

fn to_u32(op: &str, name: &str, size: usize) -> u32 {
    u32::try_from(size).unwrap_or_else(|_| panic!("{op}: {name} is {size}, expected a u32"))
}

fn cube_dim(team: &Team) -> CubeDim {
    CubeDim::new_1d(team.units() as u32)
}
