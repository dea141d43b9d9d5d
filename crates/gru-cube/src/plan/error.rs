//! Why a device does not allow a cut.

use crate::plan::cut::Cut;
use core::fmt;

/// A device or a kernel does not allow a cut.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// A size is zero or above 4096, `width` does not divide `rows`, or `width` exceeds 4.
    Malformed {
        /// The cut.
        cut: Cut,
    },
    /// A cube would have more units than the device allows.
    TooManyUnits {
        /// By the tile.
        requested: usize,
        /// On the device.
        available: usize,
    },
    /// A cube would use more shared memory than the device has.
    TooMuchSharedMemory {
        /// Bytes by the tile.
        requested: usize,
        /// Bytes on the device.
        available: usize,
    },
    /// A kernel would bind more buffers than the device allows: leave out optional tensors, or add
    /// `b_ih` to `p` beforehand.
    TooManyBuffers {
        /// By the call.
        requested: usize,
        /// On the device.
        available: usize,
    },
    /// Cubes would wait for each other that the device does not run at the same time, or whose
    /// writes it does not show to each other; or another stream may do so now.
    TooManyTogether {
        /// By the tile.
        requested: usize,
        /// On the device.
        available: usize,
    },
    /// The device has no matrix units for the type of the call.
    NoMatrices,
    /// The device's matrices, `[m,k]·[k,n]` by the units of a plane, do not fit: `rows` must be a multiple of
    /// m, `lanes` of the plane, `lanes · per_lane` of n in each of its planes, H of n and k.
    NotOfMatrices {
        /// The cut.
        cut: Cut,
        /// m, n and k.
        shape: [usize; 3],
        /// Units of a plane.
        plane: usize,
    },
    /// Cubes of a persistent launch waited for each other in vain: the device did not run them all at
    /// the same time. What the call wrote is of no use.
    GaveUp,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { cut } => write!(
                f,
                "expected sizes of 1 to 4096, width a divisor of rows and at most 4, got {cut:?}"
            ),
            Self::TooManyUnits {
                requested,
                available,
            } => write!(
                f,
                "{requested} units per cube, the device allows {available}"
            ),
            Self::TooMuchSharedMemory {
                requested,
                available,
            } => write!(
                f,
                "{requested} bytes of shared memory per cube, the device has {available}"
            ),
            Self::TooManyBuffers {
                requested,
                available,
            } => write!(
                f,
                "{requested} buffers of a kernel, the device allows {available}"
            ),
            Self::TooManyTogether {
                requested,
                available,
            } => write!(
                f,
                "{requested} cubes that wait for each other, the device runs {available} together"
            ),
            Self::NoMatrices => {
                f.write_str("the device has no matrix units for the type of the call")
            }
            Self::NotOfMatrices {
                cut,
                shape: [m, n, k],
                plane,
            } => write!(
                f,
                "expected rows, columns and H of whole matrices, [{m},{k}]·[{k},{n}] by planes of {plane}, \
                 got {cut}"
            ),
            Self::GaveUp => write!(
                f,
                "cubes of a persistent launch waited for each other in vain: the device did not run \
                 them all at the same time"
            ),
        }
    }
}

impl core::error::Error for PlanError {}
