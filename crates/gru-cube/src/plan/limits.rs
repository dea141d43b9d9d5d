//! What a device allows, as plain data.

use super::tuning;
use crate::kernel::threads::Matrices;
use cubecl::{
    client::Client,
    ir::{AddressType, ElemType, FloatKind, Type, features::AtomicUsage, features::MmaConfig},
    prelude::*,
};

/// What a device allows for a cube and a kernel, and how many cubes use it fully.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Threads of a cube.
    pub threads: usize,
    /// Bytes of shared memory of a cube.
    pub shared_bytes: usize,
    /// Cubes that use the whole device: its multiprocessors.
    pub cubes: usize,
    /// Weights that a thread can keep in registers, next to the other values of a sequence kernel.
    pub resident_registers: usize,
    /// Threads of the cube of a sequence kernel: at least this number.
    pub sequence_threads: usize,
    /// Threads of a cube that can keep so many weights.
    pub most_sequence_threads: usize,
    /// Buffers of a kernel.
    pub buffers: usize,
    /// Bytes of a buffer.
    pub buffer_bytes: usize,
    /// Elements of a buffer that a kernel can index.
    pub elements: usize,
    /// Cubes of a persistent kernel: they run at the same time if no other program uses the device, and
    /// their writes are visible to each other. One for each multiprocessor. 0 if writes are not visible, or
    /// the number of multiprocessors is unknown.
    pub coresident_cubes: usize,
    /// Persistent kernels are inferred. Only on devices of a vendor where they were measured.
    pub persistent: bool,
    /// The device is a CPU. Its threads are lanes of SIMD vectors, a barrier iterates over all threads, and
    /// different addresses are loaded thread by thread.
    pub cpu: bool,
}

impl Limits {
    /// The limits of a client's device.
    pub fn of(client: &Client) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let multiprocessors = hardware.num_streaming_multiprocessors.map(|m| m as usize);
        let physical = properties.identity.physical.as_ref();
        let cpu_cores = match hardware.num_cpu_cores {
            Some(cores) => Some(cores as usize),
            // Only a driver that runs on the CPU has neither.
            None if physical.is_none() && multiprocessors.is_none() => {
                std::thread::available_parallelism().ok().map(usize::from)
            }
            None => None,
        };
        let (budget, multiprocessors) = match cpu_cores {
            Some(cores) => (tuning::cpu_budget(cores), Some(cores)),
            None => {
                let vendor = physical.and_then(|physical| physical.vendor);
                (tuning::budget(vendor), multiprocessors)
            }
        };
        let counters = Type::atomic(u32::elem_type_native());
        let has_grid_barrier = properties.features.device_memory_scope
            && properties
                .atomic_type_usage(counters)
                .is_superset(AtomicUsage::Add | AtomicUsage::LoadStore | AtomicUsage::Bitwise);
        Self {
            threads: hardware.max_units_per_cube.min(hardware.max_cube_dim.0) as usize,
            shared_bytes: hardware.max_shared_memory_size,
            cubes: multiprocessors.unwrap_or(budget.cubes).max(1),
            resident_registers: budget.resident_registers,
            sequence_threads: budget.sequence_threads,
            most_sequence_threads: budget.most_sequence_threads,
            buffers: hardware.max_bindings as usize,
            buffer_bytes: usize::try_from(properties.memory.max_page_size).unwrap_or(usize::MAX),
            elements: if properties.supports_address(AddressType::U64) {
                usize::MAX
            } else {
                u32::MAX as usize
            },
            // A multiprocessor runs at least one cube that is within its limits. A replay of a recorded graph would not
            // wait for the persistent kernels of other streams.
            coresident_cubes: if has_grid_barrier && !client.is_capturing() {
                multiprocessors.unwrap_or(0)
            } else {
                0
            },
            persistent: budget.persistent,
            cpu: cpu_cores.is_some(),
        }
    }
}

impl Matrices {
    /// The matrices that a device multiplies for calls of a type.
    pub(crate) fn of(client: &Client, dtype: ElemType) -> Option<Self> {
        let properties = client.properties();
        let hardware = &properties.hardware;
        // A kernel must know the number of planes in its cubes.
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
        // Batches are small, so 16 rows are enough. The largest k needs the fewest reads.
        let badness = |c: &MmaConfig| ((c.m, c.n) != (16, 16), c.m, c.n, u32::MAX - c.k);
        offered.clone().filter(fits).min_by_key(badness)
    };
    // NVIDIA's matrix units without bfloat16, before compute capability 8.0, hold each value of float16 twice.
    let has_bf16 = offered
        .clone()
        .any(|c| c.a_type == ElemType::Float(FloatKind::BF16));
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
            copies: if has_bf16 { 1 } else { 2 },
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
    fn matrices_have_the_type_of_the_call() {
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
        assert_eq!((half.copies, best(BF16)), (2, None));
        let newer = [offered[2], offer(BF16, F32, 16, 16, 16)].into_iter();
        let newer = best_matrices(newer, 32, ElemType::Float(F16)).unwrap();
        assert_eq!(newer.copies, 1);
        let exact = [offered[4], offer(F32, F32, 8, 8, 8)].into_iter();
        let exact = best_matrices(exact, 8, ElemType::Float(F32)).unwrap();
        assert_eq!((exact.m, exact.element), (8, ElemType::Float(F32)));
    }
}
