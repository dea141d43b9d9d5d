//! Matrix units.

use super::*;

pub const TENSOR_CORES: Matrices = Matrices {
    m: 16,
    n: 16,
    k: 16,
    plane: 32,
    element: ElemType::Float(FloatKind::F16),
    copies: 1,
};

#[test]
fn steps_of_16_bits_use_matrix_units_if_they_fit() {
    let by_matrices = |n, hidden, limits, matrices| {
        let problem = Problem {
            matrices,
            ..problem(n, hidden, Reset::AfterMatmul, limits)
        };
        let forward = forward(Strategy::Inferred, &problem).unwrap();
        let backward = backward(Strategy::Inferred, &problem).unwrap();
        let takes =
            |steps: Option<Steps>| steps.is_some_and(|steps| steps.threads.matrices.is_some());
        let forward = match forward {
            Kernels::Steps(steps) => Some(steps),
            Kernels::Sequence(_) => None,
        };
        let backward = match backward {
            Kernels::Steps(steps) => Some(steps),
            Kernels::Sequence(_) => None,
        };
        assert_eq!(takes(forward), takes(backward), "N {n}, H {hidden}");
        takes(forward)
    };
    let some = Some(TENSOR_CORES);
    assert!(by_matrices(64, 512, NVIDIA_VULKAN, some));
    assert!(by_matrices(8, 512, WEBGPU, some));
    assert!(!by_matrices(64, 512, NVIDIA_VULKAN, None));
    assert!(
        !by_matrices(7, 512, NVIDIA_VULKAN, some),
        "half of a matrix's rows"
    );
    assert!(
        !by_matrices(64, 520, NVIDIA_VULKAN, some),
        "H is not a multiple of the matrix"
    );
    assert!(
        !by_matrices(64, 256, NVIDIA_VULKAN, some),
        "sequence kernels are faster"
    );
    assert!(!by_matrices(64, 512, LAVAPIPE, some), "a CPU has none");
    for element in [FloatKind::TF32, FloatKind::F32].map(ElemType::Float) {
        let of_32_bits = Matrices {
            element,
            ..TENSOR_CORES
        };
        assert!(
            !by_matrices(64, 512, NVIDIA_VULKAN, Some(of_32_bits)),
            "only on request"
        );
    }
}

#[test]
fn a_schedule_that_matrices_do_not_divide_is_an_error() {
    let tile = StepTile {
        rows: 16,
        width: 1,
        n_threads: 32,
        n_per_thread: 1,
        k_splits: 2,
        block_k: 64,
        matrix: true,
    };
    let error = |tile, hidden, matrices| {
        let problem = Problem {
            matrices,
            ..problem(64, hidden, Reset::AfterMatmul, NVIDIA)
        };
        forward(Strategy::Forced(Schedule::Steps(tile)), &problem).err()
    };
    let some = Some(TENSOR_CORES);
    assert_eq!(error(tile, 64, some), None);
    assert_eq!(error(tile, 64, None), Some(PlanError::NoMatrices));
    for (hidden, tile) in [
        (72, tile),
        (64, StepTile { rows: 8, ..tile }),
        (
            64,
            StepTile {
                n_threads: 16,
                ..tile
            },
        ),
        (
            64,
            StepTile {
                n_threads: 48,
                ..tile
            },
        ),
    ] {
        let expected = PlanError::NotOfMatrices {
            schedule: Schedule::Steps(tile),
            shape: [16, 16, 16],
            plane: 32,
        };
        assert_eq!(error(tile, hidden, some), Some(expected), "H {hidden}");
    }
}
