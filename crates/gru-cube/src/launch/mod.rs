//! The host code: checks buffers and launches the kernels of a plan.

mod buffers;
mod grid;
mod job;
mod operands;
mod pass;
mod recompute;
mod recurrence;
mod shared;
mod tensors;

pub use buffers::Buffers;
pub use job::Plan;
pub use operands::recurrent_inputs;
pub use pass::{PlannedPass, run};
pub use recompute::{Products, gates};
pub use recurrence::Recurrence;

use crate::plan::{
    limits::Limits,
    tensor::{Tensor, check_tensors},
};
use core::sync::atomic::{AtomicU64, Ordering};
use cubecl::{prelude::*, server::Handle};

static LAUNCHES: AtomicU64 = AtomicU64::new(0);

/// Kernels that this crate has launched in this process.
#[doc(hidden)]
pub fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// Counts a launch. Every launch calls it.
fn count_launch() {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

impl Tensor {
    /// The tensor as a kernel's argument, if it is given.
    ///
    /// # Panics
    /// If its buffer is too short. A kernel would access memory after its end.
    fn optional<T: From<Option<BufferArg>>>(&self) -> T {
        let arg = |handle: &Handle| {
            if let Some(position) = self.alias {
                return BufferArg::alias(position, self.elements);
            }
            let (name, got) = (self.name, handle.size_in_used());
            let expected = (self.elements * self.size) as u64;
            assert!(
                got >= expected,
                "gru_cube: {name} has {got} bytes, expected {expected}"
            );
            // SAFETY: the buffer has at least this number of elements, as just checked.
            unsafe { BufferArg::from_raw_parts(handle.clone(), self.elements) }
        };
        self.handle.as_ref().map(arg).into()
    }

    /// The tensor as a kernel's argument.
    fn arg(&self) -> BufferArg {
        let arg: Option<BufferArg> = self.optional();
        arg.expect("the tensor is not optional")
    }

    /// The tensor, or if it is not given, the buffer at a position among the arguments.
    fn or_alias(&self, position: usize) -> BufferArg {
        let arg: Option<BufferArg> = self.optional();
        arg.unwrap_or(BufferArg::alias(position, self.elements))
    }
}

/// Checks the tensors of a kernel.
///
/// # Panics
/// If one is too large for the device.
fn require(limits: &Limits, tensors: &[Tensor]) {
    match check_tensors(limits, tensors, false) {
        Ok(shares) => assert!(!shares, "a kernel with few tensors"),
        Err(error) => panic!("gru_cube: {error}"),
    }
}

/// Cubes along one dimension of a grid: the limit of WebGPU, and of CUDA beyond the first dimension.
const MAX_GRID_CUBES: usize = 65_535;

/// A grid with this number of cubes, or a few more that have nothing to do.
fn spread(cubes: usize) -> CubeCount {
    let second = cubes.div_ceil(MAX_GRID_CUBES).max(1);
    CubeCount::Static(cubes.div_ceil(second) as u32, second as u32, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
