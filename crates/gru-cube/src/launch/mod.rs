//! The host side: checks buffers, plans, launches.

pub(crate) mod backward;
pub(crate) mod forward;
mod gates;
mod grid;
mod shift;
mod turn;

pub use backward::{BackwardInputs, BackwardOutputs};
pub use forward::{ForwardInputs, ForwardOutputs};
pub use gates::{GatesInputs, Products, gates};
pub use shift::{RecurrentInputs, recurrent_inputs};

use crate::{
    kernel::{
        rule::{Rule, ZoneoutKind},
        team::{Matrices, Team},
    },
    plan::{Plan, Problem, error::PlanError, limits::Limits, tuning},
};
use core::sync::atomic::{AtomicU64, Ordering};
use cubecl::{
    client::Client,
    ir::{AddressType, ElemType, FloatKind},
    prelude::*,
    server::Handle,
};
use gru_spec::{GruSpec, Order};

static LAUNCHES: AtomicU64 = AtomicU64::new(0);

/// Kernels that this crate has launched in this process.
pub fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// Counts a launch; stands beside every one.
fn count_launch() {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

/// The share of the previous state that is kept, `h = zoneout·h₋₁ + (1 − zoneout)·h'`.
#[derive(Debug, Clone)]
pub enum Zoneout {
    /// One for each row of the batch and step, `[N,T]` or `[T,N]`.
    OfRow(Handle),
    /// One for each hidden unit besides, `[N,T,H]` or `[T,N,H]`.
    OfUnit(Handle),
}

impl Zoneout {
    fn handle(&self) -> &Handle {
        match self {
            Self::OfRow(handle) | Self::OfUnit(handle) => handle,
        }
    }

    fn kind(zoneout: Option<&Self>) -> ZoneoutKind {
        match zoneout {
            None => ZoneoutKind::None,
            Some(Self::OfRow(_)) => ZoneoutKind::OfRow,
            Some(Self::OfUnit(_)) => ZoneoutKind::OfUnit,
        }
    }
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
    /// What a step computes.
    pub spec: GruSpec,
    /// Memory layout and time direction.
    pub order: Order,
    /// Type of every buffer: f32, f16 or bf16. Sums and states within a call are float32.
    pub dtype: ElemType,
}

impl Call {
    fn check(&self, op: &str) {
        self.spec.check();
        self.check_sizes(op);
    }

    pub(crate) fn problem(&self, op: &str, client: &Client) -> Problem {
        self.check(op);
        let epsilon = match self.dtype {
            ElemType::Float(FloatKind::F32) => f32::EPSILON.into(),
            ElemType::Float(FloatKind::F16) => 2f64.powi(-10),
            ElemType::Float(FloatKind::BF16) => 2f64.powi(-7),
            other => panic!("{op}: expected type f32, f16 or bf16, got {other:?}"),
        };
        Problem {
            n: self.n,
            hidden: self.h,
            rule: Rule::new(&self.spec, self.order, epsilon),
            limits: Limits::of(client),
            matrices: Matrices::of(client, self.dtype),
            // The table is of float32: in 16 bits the matrix units come in.
            measured: if self.is_narrow() {
                None
            } else {
                tuning::measured(&client.properties().identity.name, self.n, self.h)
            },
        }
    }

    /// Nothing that is computed of sizes from here on overflows.
    ///
    /// # Panics
    /// If the largest tensor, of the gates or the weight, has more bytes than there are addresses,
    /// or a size is none of u32, in which the kernels take it.
    fn check_sizes(&self, op: &str) {
        let Self { n, t, h, .. } = *self;
        for (name, size) in [("N", n), ("T", t), ("H", h)] {
            to_u32(op, name, size);
        }
        // Float32, because some of what is computed on the way is.
        let bytes = |sizes: [usize; 3]| {
            let all = sizes.into_iter().chain([4, size_of::<f32>()]);
            all.map(|size| size.max(1))
                .try_fold(1, |bytes: usize, size| bytes.checked_mul(size))
        };
        assert!(
            bytes([n, t, h]).is_some() && bytes([1, h, h]).is_some(),
            "{op}: N {n}, T {t}, H {h}: the gates or w_hh have more bytes than there are addresses"
        );
    }

    /// The type of what matrix units multiply; without them that of the call.
    fn factors(&self, team: &Team) -> ElemType {
        team.matrices
            .map_or(self.dtype, |matrices| matrices.element)
    }

    fn zoneout_arg<T: From<Option<BufferArg>>>(&self, op: &str, zoneout: Option<&Zoneout>) -> T {
        let len = match Zoneout::kind(zoneout) {
            ZoneoutKind::OfUnit => self.rows() * self.h,
            ZoneoutKind::OfRow | ZoneoutKind::None => self.rows(),
        };
        self.optional(op, "zoneout", zoneout.map(Zoneout::handle), len)
    }

    /// Whether buffers hold less than float32.
    fn is_narrow(&self) -> bool {
        self.dtype.size() < size_of::<f32>()
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

/// Cubes along one dimension of a grid that WebGPU promises, and CUDA beyond the first.
const MOST_CUBES: usize = 65_535;

/// So many cubes, or a few more, which find nothing to do.
fn spread(cubes: usize) -> CubeCount {
    let second = cubes.div_ceil(MOST_CUBES).max(1);
    CubeCount::Static(cubes.div_ceil(second) as u32, second as u32, 1)
}

fn cube_dim(team: &Team) -> CubeDim {
    CubeDim::new_1d(team.units() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(n: usize, t: usize, h: usize) {
        let call = Call {
            n,
            t,
            h,
            spec: GruSpec::default(),
            order: Order::default(),
            dtype: f32::elem_type_native(),
        };
        call.check_sizes("op");
    }

    #[test]
    fn large_sizes_pass() {
        check(0, 0, 0);
        check(1 << 20, 1 << 20, 1 << 10);
        check(1, u32::MAX as usize, 1);
    }

    #[test]
    #[should_panic(expected = "op: N 1048576, T 1048576, H 1048576: the gates or w_hh have more")]
    fn gates_beyond_all_addresses_are_refused() {
        check(1 << 20, 1 << 20, 1 << 20);
    }

    #[test]
    #[should_panic(expected = "op: N 0, T 1, H 4294967295: the gates or w_hh have more bytes")]
    fn a_weight_beyond_all_addresses_is_refused() {
        check(0, 1, u32::MAX as usize);
    }

    #[test]
    #[should_panic(expected = "op: T is 4294967296, expected a u32")]
    fn a_size_beyond_u32_is_refused() {
        check(1, 1 << 32, 1);
    }

    #[test]
    fn many_cubes_spread_over_two_dimensions() {
        for cubes in [1, 2, MOST_CUBES, MOST_CUBES + 1, 1 << 24, 1 << 31] {
            let CubeCount::Static(x, y, z) = spread(cubes) else {
                panic!("a static grid");
            };
            let (x, y) = (x as usize, y as usize);
            assert!(z == 1 && x.max(y) <= MOST_CUBES, "{cubes}: {x} by {y}");
            assert!((cubes..cubes + y).contains(&(x * y)), "{cubes}: {x} by {y}");
        }
    }
}
