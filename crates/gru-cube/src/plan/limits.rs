//! What a device allows, as plain data.

use crate::{kernel::team::Matrices, plan::error::PlanError};
use cubecl::{
    client::Client,
    ir::{ElemType, FloatKind, Type, features::AtomicUsage, features::MmaConfig},
    prelude::*,
};

/// What a device allows to one cube, and how many cubes it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Units of a cube.
    pub units: usize,
    /// Bytes of shared memory of a cube.
    pub shared_bytes: usize,
    /// Cubes that run side by side.
    pub cubes: usize,
    /// Buffers of a kernel.
    pub buffers: usize,
    /// Cubes that see each other's writes, and run at the same time if nobody else uses the device:
    /// one for each multiprocessor. 0 where writes do not show, or multiprocessors are not counted.
    pub together: usize,
    /// The device is a CPU: its units are the lanes of vectors, a barrier walks through all of
    /// them, and a load that differs between units is made unit by unit.
    pub cpu: bool,
}

/// Cubes for a GPU that does not tell its number of multiprocessors, as wgpu's: between a
/// laptop's 10 and a workstation's 100.
const UNKNOWN_CUBES: usize = 32;

/// Planes up to this size are a CPU's vectors where no card is behind the device. (Those of some cards,
/// such as Mali's older ones, are as narrow.)
const CPU_PLANE: u32 = 8;

/// Whether a device that does not count its cores is a program on a CPU.
fn is_software(has_card: bool, widest_plane: u32) -> bool {
    !has_card && widest_plane <= CPU_PLANE
}

impl Limits {
    /// Those of a client's device.
    pub fn of(client: &Client) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let cpu_cores = match hardware.num_cpu_cores {
            Some(cores) => Some(cores as usize),
            None if is_software(
                properties.identity.physical.is_some(),
                hardware.plane_size_max,
            ) =>
            {
                std::thread::available_parallelism().ok().map(usize::from)
            }
            None => None,
        };
        let multiprocessors = hardware.num_streaming_multiprocessors.map(|m| m as usize);
        let counters = Type::atomic(u32::elem_type_native());
        let meets = client.properties().features.device_memory_scope
            && client
                .properties()
                .atomic_type_usage(counters)
                .contains(AtomicUsage::Add);
        Self {
            units: hardware.max_units_per_cube as usize,
            shared_bytes: hardware.max_shared_memory_size,
            cubes: cpu_cores
                .or(multiprocessors)
                .unwrap_or(UNKNOWN_CUBES)
                .max(1),
            buffers: hardware.max_bindings as usize,
            // One cube fits wherever its units and its shared memory do.
            together: if meets {
                cpu_cores.or(multiprocessors).unwrap_or(0)
            } else {
                0
            },
            cpu: cpu_cores.is_some(),
        }
    }

    pub(crate) fn check_units(&self, requested: usize) -> Result<(), PlanError> {
        if requested > self.units {
            Err(PlanError::TooManyUnits {
                requested,
                available: self.units,
            })
        } else {
            Ok(())
        }
    }

    /// `optional` tells which of the optional buffers are given.
    pub(crate) fn check_buffers(&self, always: usize, optional: &[bool]) -> Result<(), PlanError> {
        let requested = always + optional.iter().filter(|&&given| given).count();
        if requested > self.buffers {
            Err(PlanError::TooManyBuffers {
                requested,
                available: self.buffers,
            })
        } else {
            Ok(())
        }
    }

    pub(crate) fn check_together(&self, requested: usize) -> Result<(), PlanError> {
        if requested > self.together {
            Err(PlanError::TooManyTogether {
                requested,
                available: self.together,
            })
        } else {
            Ok(())
        }
    }

    pub(crate) fn check_shared(&self, vectors: usize, width: usize) -> Result<(), PlanError> {
        // WGSL and MSL give a vector of three the room of four.
        let lanes = if width == 3 { 4 } else { width };
        let requested = vectors * lanes * size_of::<f32>();
        if requested > self.shared_bytes {
            Err(PlanError::TooMuchSharedMemory {
                requested,
                available: self.shared_bytes,
            })
        } else {
            Ok(())
        }
    }
}

impl Matrices {
    /// Those that a device multiplies for calls of a type.
    pub(crate) fn of(client: &Client, dtype: ElemType) -> Option<Self> {
        let properties = client.properties();
        let hardware = &properties.hardware;
        // A kernel has to know how many planes its cubes have.
        let is_known = hardware.plane_size_min == hardware.plane_size_max;
        let offered = properties.features.matmul.cmma.iter().copied();
        is_known.then(|| best_matrices(offered, hardware.plane_size_max as usize, dtype))?
    }
}

fn best_matrices(
    offered: impl Iterator<Item = MmaConfig> + Clone,
    plane: usize,
    dtype: ElemType,
) -> Option<Matrices> {
    let sums = ElemType::Float(FloatKind::F32);
    let of = |element: ElemType| {
        let fits = |c: &MmaConfig| (c.a_type, c.b_type, c.cd_type) == (element, element, sums);
        // Batches are small: no more rows than are usual. The deepest of them reads least often.
        let badness = |c: &MmaConfig| ((c.m, c.n) != (16, 16), c.m, c.n, u32::MAX - c.k);
        offered.clone().filter(fits).min_by_key(badness)
    };
    let factors: &[ElemType] = if dtype == sums {
        &[sums, ElemType::Float(FloatKind::TF32)]
    } else {
        &[dtype]
    };
    factors.iter().find_map(|&element| {
        let MmaConfig { m, n, k, .. } = of(element)?;
        Some(Matrices {
            m: m as usize,
            n: n as usize,
            k: k as usize,
            plane,
            element,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(factors: FloatKind, sums: FloatKind, m: u32, n: u32, k: u32) -> MmaConfig {
        let [a_type, b_type, cd_type] = [factors, factors, sums].map(ElemType::Float);
        MmaConfig {
            a_type,
            b_type,
            cd_type,
            m,
            n,
            k,
        }
    }

    #[test]
    fn matrices_are_of_the_type_of_the_call() {
        use FloatKind::{BF16, F16, F32, TF32};

        let offered = [
            offer(F16, F16, 16, 16, 16),
            offer(F16, F32, 8, 32, 16),
            offer(F16, F32, 16, 16, 16),
            offer(F16, F32, 16, 16, 8),
            offer(TF32, F32, 16, 16, 8),
        ];
        let best = |dtype| best_matrices(offered.into_iter(), 32, ElemType::Float(dtype));
        let half = best(F16).unwrap();
        assert_eq!((half.m, half.n, half.k, half.plane), (16, 16, 16, 32));
        let single = best(F32).unwrap();
        assert_eq!((single.k, single.element), (8, ElemType::Float(TF32)));
        assert_eq!(best(BF16), None);
        let exact = [offered[4], offer(F32, F32, 8, 8, 8)].into_iter();
        let exact = best_matrices(exact, 8, ElemType::Float(F32)).unwrap();
        assert_eq!((exact.m, exact.element), (8, ElemType::Float(F32)));
    }

    #[test]
    fn narrow_planes_of_a_card_are_no_cpu() {
        assert!(is_software(false, 8));
        assert!(!is_software(true, 8), "Mali");
        assert!(!is_software(true, 32));
        assert!(!is_software(false, 128), "a browser, which tells nothing");
    }

    #[test]
    fn buffers_beyond_the_limit_are_refused() {
        let limits = Limits {
            units: 256,
            shared_bytes: 16 * 1024,
            cubes: 32,
            buffers: 7,
            together: 0,
            cpu: false,
        };
        assert_eq!(limits.check_buffers(5, &[true, false, true]), Ok(()));
        let (requested, available) = (8, 7);
        assert_eq!(
            limits.check_buffers(5, &[true; 3]),
            Err(PlanError::TooManyBuffers {
                requested,
                available
            })
        );
    }
}
