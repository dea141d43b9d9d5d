mod matrices;
mod tensors;

use super::{infer::sequence_tiles, *};
use cubecl::ir::{ElemType, FloatKind};
use gru_spec::{GruSpec, Order, Reset};
use matrices::TENSOR_CORES;

/// The smallest limits of WebGPU.
pub(crate) const WEBGPU: Limits = Limits {
    threads: 256,
    shared_bytes: 16 * 1024,
    cubes: 32,
    resident_registers: 48,
    sequence_threads: 512,
    most_sequence_threads: 512,
    buffers: 30,
    buffer_bytes: 1 << 30,
    elements: u32::MAX as usize,
    coresident_cubes: 0,
    persistent: false,
    cpu: false,
};

pub(crate) const NVIDIA: Limits = Limits {
    threads: 1024,
    shared_bytes: 48 * 1024,
    cubes: 132,
    resident_registers: 192,
    sequence_threads: 128,
    most_sequence_threads: 256,
    coresident_cubes: 132,
    persistent: true,
    ..WEBGPU
};

/// wgpu does not report multiprocessors.
const NVIDIA_VULKAN: Limits = Limits {
    coresident_cubes: 0,
    ..NVIDIA
};

const LAVAPIPE: Limits = Limits {
    threads: 1024,
    shared_bytes: 32 * 1024,
    cubes: 2,
    resident_registers: 96,
    sequence_threads: 1,
    cpu: true,
    ..WEBGPU
};

/// A CPU with so many cores, which CubeCL's own compiler reports as threads.
const EIGHT_CORES: Limits = Limits {
    threads: 8,
    ..LAVAPIPE
};

const STEPS: StepTile = StepTile {
    rows: 4,
    width: 4,
    n_threads: 16,
    n_per_thread: 1,
    k_splits: 4,
    block_k: 64,
    matrix: false,
};

fn problem(n: usize, hidden: usize, reset: Reset, limits: Limits) -> Problem {
    let spec = GruSpec::default().with_reset(reset);
    Problem {
        n,
        rule: Rule::new(&spec, Order::default(), hidden, f32::EPSILON.into()),
        limits,
        matrices: None,
    }
}

fn forward(strategy: Strategy, problem: &Problem) -> Result<Kernels, PlanError> {
    Ok(plan_of(Pass::Forward, strategy, problem)?.1)
}

fn backward(strategy: Strategy, problem: &Problem) -> Result<Kernels, PlanError> {
    Ok(plan_of(Pass::Backward, strategy, problem)?.1)
}

#[test]
fn every_device_has_a_schedule_for_every_size() {
    let hidden = [1, 2, 31, 64, 100, 128, 256, 257, 512, 1024, 4096];
    let sizes = [1, 2, 7, 64, 1000].map(|n| hidden.map(|hidden| (n, hidden)));
    // The largest N of a u32, and the largest weight that memory can address.
    let most = u32::MAX as usize;
    let largest = [(most, 1), (most, 512), (1, 1 << 30)];
    for (n, hidden) in sizes.into_iter().flatten().chain(largest) {
        for limits in [WEBGPU, NVIDIA, LAVAPIPE, EIGHT_CORES] {
            for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
                let problem = problem(n, hidden, reset, limits);
                let at = format!("N{n} H{hidden} {reset:?} {limits:?}");
                let error = forward(Strategy::Inferred, &problem).err();
                assert_eq!(error, None, "forward {at}");
                let error = backward(Strategy::Inferred, &problem).err();
                assert_eq!(error, None, "backward {at}");
            }
        }
    }
}

#[test]
fn persistent_kernels_need_coresident_cubes() {
    let error = |coresident_cubes| {
        let limits = Limits {
            coresident_cubes,
            ..NVIDIA
        };
        let problem = problem(4, 64, Reset::AfterMatmul, limits);
        forward(Strategy::Forced(Schedule::Persistent(STEPS)), &problem).err()
    };
    let too_many = error(3).unwrap().to_string();
    assert_eq!(
        too_many,
        "cubes that run at the same time: expected at most 3, got 4"
    );
    assert_eq!(error(4), None);
}

#[test]
fn a_schedule_beyond_the_limits_is_an_error() {
    let tile = SequenceTile {
        rows: 4,
        width: 4,
        n_threads: 128,
        k_splits: 2,
        resident: false,
    };
    let error = |tile| {
        let problem = problem(4, 256, Reset::AfterMatmul, WEBGPU);
        forward(Strategy::Forced(Schedule::Sequence(tile)), &problem).unwrap_err()
    };
    let too_many = error(SequenceTile {
        k_splits: 3,
        ..tile
    });
    assert_eq!(
        too_many.to_string(),
        "threads per cube: expected at most 256, got 384"
    );
    let too_much = error(SequenceTile { rows: 32, ..tile }).to_string();
    let expected = "bytes of shared memory per cube: expected at most 16384, got ";
    assert!(too_much.starts_with(expected), "{too_much}");
    let unrolled = error(SequenceTile {
        n_threads: 64,
        resident: true,
        ..tile
    });
    assert_eq!(
        unrolled.to_string(),
        "weight registers per thread: expected at most 1024, got 1536"
    );
    for (rows, width, n_threads, k_splits) in [
        (6, 4, 128, 2),
        (4, 0, 128, 2),
        (3, 3, 128, 2),
        (8, 8, 128, 2),
        (4, 4, 0, 2),
        (usize::MAX - 3, 4, 128, 2),
        (4, 4, 128, usize::MAX),
    ] {
        let malformed = SequenceTile {
            rows,
            width,
            n_threads,
            k_splits,
            resident: false,
        };
        let schedule = Schedule::Sequence(malformed);
        assert_eq!(error(malformed), PlanError::Malformed { schedule });
    }
}

const SEQUENCE: SequenceTile = SequenceTile {
    rows: 4,
    width: 4,
    n_threads: 256,
    k_splits: 1,
    resident: false,
};

#[test]
fn a_sequence_kernel_without_splits_has_two_buffers_if_they_fit() {
    let buffers = |tile, reset, limits| {
        let problem = problem(4, 300, reset, limits);
        match forward(Strategy::Forced(Schedule::Sequence(tile)), &problem).unwrap() {
            Kernels::Sequence(sequence) => sequence.buffers,
            Kernels::Steps(_) => unreachable!("a sequence kernel is forced"),
        }
    };
    let with_splits = SequenceTile {
        rows: 1,
        width: 1,
        k_splits: 2,
        ..SEQUENCE
    };
    // 300 vectors of four rows to a buffer.
    let narrow = Limits {
        shared_bytes: 9_000,
        ..NVIDIA
    };
    assert_eq!(buffers(SEQUENCE, Reset::AfterMatmul, NVIDIA), 2);
    assert_eq!(buffers(SEQUENCE, Reset::AfterMatmul, narrow), 1);
    // The reduction of k-splits has a barrier, and there is one between two products.
    assert_eq!(buffers(with_splits, Reset::AfterMatmul, NVIDIA), 1);
    assert_eq!(buffers(SEQUENCE, Reset::BeforeMatmul, NVIDIA), 1);
}

#[test]
fn a_backward_sequence_kernel_transposes_a_weight_that_it_rereads() {
    let plan = |tile, limits| {
        let problem = problem(4, 300, Reset::AfterMatmul, limits);
        backward(Strategy::Forced(Schedule::Sequence(tile)), &problem)
    };
    for (resident, k_splits) in [(true, 2), (false, 1)] {
        let Ok(Kernels::Sequence(sequence)) = plan(
            SequenceTile {
                k_splits,
                resident,
                ..SEQUENCE
            },
            NVIDIA,
        ) else {
            unreachable!("a sequence kernel is forced");
        };
        assert_eq!(sequence.is_transposed(), !resident);
    }
    let narrow = Limits {
        shared_bytes: 3 * 300 * 16,
        ..NVIDIA
    };
    let error = plan(SEQUENCE, narrow).unwrap_err().to_string();
    assert!(error.starts_with("bytes of shared memory"), "{error}");
}

#[test]
fn the_error_is_that_of_the_smallest_sequence_kernel() {
    let nothing = Limits {
        shared_bytes: 4,
        ..NVIDIA
    };
    for hidden in [64, 256, 512] {
        let problem = problem(1000, hidden, Reset::AfterMatmul, nothing);
        let smallest = *sequence_tiles(&problem).last().unwrap();
        let of_sequence_kernel =
            forward(Strategy::Forced(Schedule::Sequence(smallest)), &problem).err();
        assert_eq!(
            forward(Strategy::Inferred, &problem).err(),
            of_sequence_kernel
        );
    }
}

/// Shows which sizes a changed threshold affects.
#[test]
fn inferred_schedules_match_the_list() {
    let few_threads = Limits {
        threads: 32,
        ..WEBGPU
    };
    let few_registers = Limits {
        resident_registers: 24,
        ..WEBGPU
    };
    let few_cubes = Limits {
        coresident_cubes: 15,
        ..NVIDIA
    };
    let twice = Matrices {
        copies: 2,
        ..TENSOR_CORES
    };
    let mut list = String::new();
    for (device, limits, matrices) in [
        ("32 threads", few_threads, None),
        ("WebGPU", WEBGPU, None),
        ("Intel", few_registers, None),
        ("NVIDIA", NVIDIA, None),
        ("NVIDIA, f16", NVIDIA, Some(TENSOR_CORES)),
        ("NVIDIA, f16 held twice", NVIDIA, Some(twice)),
        ("NVIDIA, 15 cubes", few_cubes, None),
        ("NVIDIA, Vulkan", NVIDIA_VULKAN, None),
        ("NVIDIA, Vulkan, f16", NVIDIA_VULKAN, Some(TENSOR_CORES)),
        ("lavapipe", LAVAPIPE, None),
        ("8 cores", EIGHT_CORES, None),
    ] {
        for hidden in [24, 64, 128, 129, 256, 512, 1024, 1536] {
            for n in [1, 3, 16, 1000] {
                let problem = Problem {
                    matrices,
                    ..problem(n, hidden, Reset::AfterMatmul, limits)
                };
                let [forward, backward] = [Pass::Forward, Pass::Backward]
                    .map(|pass| plan_of(pass, Strategy::Inferred, &problem).unwrap().0);
                list += &format!("{device}, H {hidden}, N {n}: {forward}");
                list += &if forward == backward {
                    String::from("\n")
                } else {
                    format!("; backward {backward}\n")
                };
            }
        }
    }
    assert!(
        list == include_str!("inferred.txt"),
        "the list is now\n{list}"
    );
}
