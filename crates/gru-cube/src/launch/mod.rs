//! The host code: checks buffers and launches the kernels of a plan.

pub(crate) mod backward;
pub(crate) mod forward;
mod grid;
mod operands;
mod recompute;
mod shared;

pub use backward::{BackwardInputs, BackwardOutputs};
pub use forward::{ForwardInputs, ForwardOutputs};
pub use operands::{RecurrentInputs, recurrent_inputs};
pub use recompute::{GatesInputs, Products, gates};

use crate::{
    kernel::{
        rule::{Rule, Starts, ZoneoutKind},
        threads::{Matrices, Threads},
    },
    plan::{
        Problem,
        limits::Limits,
        tensor::{Tensor, check_tensors},
    },
};
use core::sync::atomic::{AtomicU64, Ordering};
use cubecl::{
    client::Client,
    ir::{AddressType, ElemType, FloatKind},
    prelude::*,
    server::Handle,
};
use gru_spec::{Direction, GruSpec, Order};

static LAUNCHES: AtomicU64 = AtomicU64::new(0);

/// Kernels that this crate has launched in this process.
pub fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// Counts a launch. Every launch calls it.
fn count_launch() {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

/// The share of the previous state that is kept, `h = zoneout·h₋₁ + (1 − zoneout)·h'`.
#[derive(Debug, Clone)]
pub enum Zoneout {
    /// A share for each row of the batch and step, `[N,T]` or `[T,N]`.
    OfRow(Handle),
    /// A share for each row of the batch, step and hidden unit, `[N,T,H]` or `[T,N,H]`.
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

/// What both passes of a call have in common.
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
    /// Starts of new sequences within a row. They require a `step_mask`.
    pub starts: Starts,
    /// Type of every buffer: f32, f16 or bf16. Sums and states within a launch are float32.
    pub dtype: ElemType,
    /// Before a pass runs a kernel for the first time on a device, it runs the kernel on a small problem, waits for
    /// the results and compares them with float64. If that fails, the pass is an error. Not in a browser, which
    /// cannot wait, and not for H above 2048.
    pub self_test: bool,
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
            rule: Rule {
                starts: self.starts,
                ..Rule::new(&self.spec, self.order, self.h, epsilon)
            },
            limits: Limits::of(client),
            matrices: Matrices::of(client, self.dtype),
        }
    }

    /// Checks that no later computation with sizes overflows.
    ///
    /// # Panics
    /// If the gates or the weight have more bytes than a `usize` can count, or a size is not a `u32`, the
    /// type of the kernels' arguments.
    fn check_sizes(&self, op: &str) {
        let Self { n, t, h, .. } = *self;
        for (name, size) in [("N", n), ("T", t), ("H", h)] {
            to_u32(op, name, size);
        }
        // Float32, because scratch buffers are.
        let bytes = |sizes: [usize; 3]| {
            let all = sizes.into_iter().chain([4, size_of::<f32>()]);
            all.map(|size| size.max(1))
                .try_fold(1, |bytes: usize, size| bytes.checked_mul(size))
        };
        assert!(
            bytes([n, t, h]).is_some() && bytes([1, h, h]).is_some(),
            "{op}: N {n}, T {t}, H {h}: expected gates and w_hh of less than 2^{} bytes",
            usize::BITS
        );
    }

    /// The type of the factors of matrix units; without them the type of the call.
    fn factors(&self, threads: &Threads) -> ElemType {
        threads
            .matrices
            .map_or(self.dtype, |matrices| matrices.element)
    }

    /// Rows of `h0`, of its gradient, and of the carried gradient: N, and N more for a start state.
    fn state_rows(&self) -> usize {
        match self.starts {
            Starts::None | Starts::FromZeros => self.n,
            Starts::FromState => 2 * self.n,
        }
    }

    /// Checks the tensors that starts require.
    ///
    /// # Panics
    /// If one is absent.
    fn check_starts(&self, op: &str, h0: Option<&Handle>, step_mask: Option<&Handle>) {
        let starts = self.starts;
        assert!(
            starts == Starts::None || step_mask.is_some(),
            "{op}: starts {starts:?}: expected a step_mask, got none"
        );
        assert!(
            starts != Starts::FromState || h0.is_some(),
            "{op}: starts {starts:?}: expected h0 with the start state behind it, got none"
        );
    }

    /// Checks the lengths of the rows.
    ///
    /// # Panics
    /// If they increase, a row has none or more than T steps, the direction is reverse, or there is no `step_mask`.
    fn check_lengths(&self, op: &str, lengths: Option<&[usize]>, step_mask: Option<&Handle>) {
        let Some(lengths) = lengths else { return };
        let (n, t) = (self.n, self.t);
        let fits = lengths.len() == n && lengths.iter().all(|&length| length <= t);
        assert!(
            fits && lengths.is_sorted_by(|a, b| a >= b),
            "{op}: expected {n} lengths of at most {t} that do not increase, got {lengths:?}"
        );
        let direction = self.order.direction;
        assert!(
            direction == Direction::Forward && step_mask.is_some(),
            "{op}: lengths: expected the forward direction and a step_mask, got {direction:?} and {}",
            if step_mask.is_some() {
                "a step_mask"
            } else {
                "none"
            }
        );
    }

    /// T·N.
    fn rows(&self) -> usize {
        self.n * self.t
    }

    /// For the indices of the largest buffers: four gates of every row, or the weight with all small tensors. A device
    /// that has only short addresses was not given a tensor that needs more.
    pub(crate) fn address_type(&self, client: &Client) -> AddressType {
        let (rows, h) = (self.rows(), self.h);
        let small = 3 * self.n * h + 6 * h + 2 * rows;
        let largest = (4 * rows * h).max(3 * h * h + small);
        AddressType::from_len(largest.min(Limits::of(client).elements))
    }

    /// A tensor of `len` elements of the call's type.
    fn tensor<'a>(
        &self,
        name: &'static str,
        handle: impl Into<Option<&'a Handle>>,
        elements: usize,
    ) -> Tensor<'a> {
        let handle = handle.into();
        Tensor {
            name,
            handle,
            bound: handle.is_some(),
            elements,
            size: self.dtype.size(),
            small: false,
            from: 0,
            alias: None,
        }
    }

    /// A tensor that may share a buffer with others.
    fn small<'a>(
        &self,
        name: &'static str,
        handle: impl Into<Option<&'a Handle>>,
        elements: usize,
    ) -> Tensor<'a> {
        Tensor {
            small: true,
            ..self.tensor(name, handle, elements)
        }
    }

    fn zoneout<'a>(&self, zoneout: &'a Option<Zoneout>) -> Tensor<'a> {
        let handle = zoneout.as_ref().map(Zoneout::handle);
        match Zoneout::kind(zoneout.as_ref()) {
            ZoneoutKind::OfUnit => self.tensor("zoneout", handle, self.rows() * self.h),
            ZoneoutKind::OfRow | ZoneoutKind::None => self.small("zoneout", handle, self.rows()),
        }
    }
}

impl Tensor<'_> {
    /// A buffer of 32-bit values that will be created if the kernel binds it.
    fn scratch(name: &'static str, elements: usize, bound: bool) -> Self {
        Self {
            name,
            handle: None,
            bound,
            elements,
            size: 4,
            small: false,
            from: 0,
            alias: None,
        }
    }

    /// The tensor as a kernel's argument, if it is given.
    ///
    /// # Panics
    /// If its buffer is too short. A kernel would access memory after its end.
    fn optional<T: From<Option<BufferArg>>>(&self, op: &str) -> T {
        let arg = |handle: &Handle| {
            if let Some(position) = self.alias {
                return BufferArg::alias(position, self.elements);
            }
            let (got, expected) = (handle.size_in_used(), (self.elements * self.size) as u64);
            let name = self.name;
            assert!(
                got >= expected,
                "{op}: {name} has {got} bytes, expected {expected}"
            );
            // SAFETY: the buffer has at least this number of elements, as just checked.
            unsafe { BufferArg::from_raw_parts(handle.clone(), self.elements) }
        };
        self.handle.map(arg).into()
    }

    /// The tensor as a kernel's argument.
    fn arg(&self, op: &str) -> BufferArg {
        let arg: Option<BufferArg> = self.optional(op);
        arg.expect("the tensor is not optional")
    }
}

/// Checks the tensors of a kernel.
///
/// # Panics
/// If one is too large for the device.
fn require(op: &str, limits: &Limits, tensors: &[Tensor<'_>]) {
    match check_tensors(limits, tensors, false) {
        Ok(shares) => assert!(!shares, "a kernel with few tensors"),
        Err(error) => panic!("{op}: {error}"),
    }
}

fn to_u32(op: &str, name: &str, size: usize) -> u32 {
    u32::try_from(size).unwrap_or_else(|_| panic!("{op}: {name} is {size}, expected a u32"))
}

/// Cubes along one dimension of a grid: the limit of WebGPU, and of CUDA beyond the first dimension.
const MAX_GRID_CUBES: usize = 65_535;

/// A grid with this number of cubes, or a few more that have nothing to do.
fn spread(cubes: usize) -> CubeCount {
    let second = cubes.div_ceil(MAX_GRID_CUBES).max(1);
    CubeCount::Static(cubes.div_ceil(second) as u32, second as u32, 1)
}

fn cube_dim(threads: &Threads) -> CubeDim {
    CubeDim::new_1d(threads.units() as u32)
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
            starts: Starts::None,
            dtype: f32::elem_type_native(),
            self_test: false,
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
    #[should_panic(expected = "op: N 1048576, T 1048576, H 1048576: expected gates and w_hh of")]
    fn gates_beyond_all_addresses_are_an_error() {
        check(1 << 20, 1 << 20, 1 << 20);
    }

    #[test]
    #[should_panic(expected = "op: N 0, T 1, H 4294967295: expected gates and w_hh of less")]
    fn a_weight_beyond_all_addresses_is_an_error() {
        check(0, 1, u32::MAX as usize);
    }

    #[test]
    #[should_panic(expected = "op: T is 4294967296, expected a u32")]
    fn a_size_beyond_u32_is_an_error() {
        check(1, 1 << 32, 1);
    }

    #[test]
    fn many_cubes_spread_over_two_dimensions() {
        for cubes in [1, 2, MAX_GRID_CUBES, MAX_GRID_CUBES + 1, 1 << 24, 1 << 31] {
            let CubeCount::Static(x, y, z) = spread(cubes) else {
                panic!("a static grid");
            };
            let (x, y) = (x as usize, y as usize);
            assert!(z == 1 && x.max(y) <= MAX_GRID_CUBES, "{cubes}: {x} by {y}");
            assert!((cubes..cubes + y).contains(&(x * y)), "{cubes}: {x} by {y}");
        }
    }
}
