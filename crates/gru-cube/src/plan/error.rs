//! Why a device does not allow a schedule.

use super::schedule::Schedule;
use core::fmt;
use thiserror::Error;

/// A device or a kernel does not allow a schedule or a call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A size is zero or above 4096, or `width` is not 1, 2 or 4, or does not divide `rows`.
    #[error(
        "schedule: expected sizes from 1 to 4096, and a width of 1, 2 or 4 that divides rows, got {schedule}"
    )]
    Malformed {
        /// The schedule.
        schedule: Schedule,
    },
    /// The schedule or the call needs more of a resource than the device allows.
    #[error("{resource}: expected at most {available}, got {requested}")]
    BeyondLimit {
        /// The resource.
        resource: Resource,
        /// How much is needed.
        requested: usize,
        /// How much the device allows.
        available: usize,
    },
    /// The device has no matrix units for the type of the call, or reports no single plane size, which a kernel must
    /// know.
    #[error("the device has no matrix units of a known plane size for the type of the call")]
    NoMatrices,
    /// The device's matrices, `[m,k]·[k,n]` per plane, do not divide the tile: `rows` must be a multiple of
    /// m, `n_threads` of the plane, and H of n and k.
    #[error(
        "schedule: expected rows and H to be multiples of the matrices [{m},{k}]·[{k},{n}] and n_threads \
         of the plane size {plane}, got {schedule}",
        m = shape[0], n = shape[1], k = shape[2]
    )]
    NotOfMatrices {
        /// The schedule.
        schedule: Schedule,
        /// m, n and k.
        shape: [usize; 3],
        /// Threads of a plane.
        plane: usize,
    },
}

/// A limited resource of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// Threads of a cube.
    Threads,
    /// Bytes of shared memory of a cube.
    SharedBytes,
    /// Registers of a thread for a weight that stays in them.
    WeightRegisters,
    /// Buffers that a kernel binds: at most 7, which every device of WebGPU allows, or 8 for a persistent kernel.
    Buffers,
    /// Bytes of the tensor with this name.
    Bytes(&'static str),
    /// Elements of the tensor with this name, which a kernel must be able to index.
    Elements(&'static str),
    /// Cubes of a persistent kernel, which must run at the same time and see each other's writes.
    CoresidentCubes,
}

impl Resource {
    /// Checks the need for the resource.
    pub(crate) fn check(self, requested: usize, available: usize) -> Result<(), PlanError> {
        if requested <= available {
            Ok(())
        } else {
            Err(PlanError::BeyondLimit {
                resource: self,
                requested,
                available,
            })
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads => f.write_str("threads per cube"),
            Self::SharedBytes => f.write_str("bytes of shared memory per cube"),
            Self::WeightRegisters => f.write_str("weight registers per thread"),
            Self::Buffers => f.write_str("buffers of a kernel"),
            Self::Bytes(tensor) => write!(f, "bytes of {tensor}"),
            Self::Elements(tensor) => write!(f, "elements of {tensor}"),
            Self::CoresidentCubes => f.write_str("cubes that run at the same time"),
        }
    }
}
