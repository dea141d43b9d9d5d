use super::*;
use crate::kernel::team::Team;
use cubecl::ir::{ElemType, FloatKind};
use gru_spec::{GruSpec, Order, Reset};

/// The fewest that WebGPU promises.
const WEBGPU: Limits = Limits {
    units: 256,
    shared_bytes: 16 * 1024,
    cubes: 32,
    buffers: 30,
    together: 0,
    cpu: false,
};

const NVIDIA: Limits = Limits {
    units: 1024,
    shared_bytes: 48 * 1024,
    cubes: 132,
    buffers: 30,
    together: 132,
    cpu: false,
};

const LAVAPIPE: Limits = Limits {
    units: 1024,
    shared_bytes: 32 * 1024,
    cubes: 2,
    buffers: 30,
    together: 0,
    cpu: true,
};

const STEPS: StepTile = StepTile {
    rows: 4,
    width: 4,
    lanes: 16,
    per_lane: 1,
    splits: 4,
    stage: 64,
    matrix: false,
};

fn problem(n: usize, hidden: usize, reset: Reset, limits: Limits) -> Problem {
    let spec = GruSpec::default().with_reset(reset);
    Problem {
        n,
        hidden,
        rule: Rule::new(&spec, Order::default(), f32::EPSILON.into()),
        limits,
        matrices: None,
        measured: None,
    }
}

#[test]
fn every_device_has_a_cut_for_every_size() {
    for limits in [WEBGPU, NVIDIA, LAVAPIPE] {
        for n in [1, 2, 7, 64, 1000] {
            for hidden in [1, 2, 31, 64, 100, 128, 256, 257, 512, 1024, 4096] {
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
}

#[test]
fn the_largest_sizes_have_a_cut() {
    // The largest N of a u32, and the largest weight that memory has addresses for.
    for (n, hidden) in [
        (u32::MAX as usize, 1),
        (u32::MAX as usize, 512),
        (1, 1 << 30),
    ] {
        for limits in [WEBGPU, NVIDIA, LAVAPIPE] {
            for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
                let problem = problem(n, hidden, reset, limits);
                assert!(
                    forward(Strategy::Inferred, &problem).is_ok(),
                    "N{n} H{hidden}"
                );
                assert!(
                    backward(Strategy::Inferred, &problem).is_ok(),
                    "N{n} H{hidden}"
                );
            }
        }
    }
}

#[test]
fn small_weights_stay_in_registers_and_large_ones_take_steps() {
    let cut = |hidden, limits| {
        let problem = problem(64, hidden, Reset::AfterMatmul, limits);
        forward(Strategy::Inferred, &problem).unwrap()
    };
    for limits in [WEBGPU, NVIDIA] {
        assert!(matches!(cut(64, limits), Plan::Walk(walk) if walk.resident));
        assert!(matches!(cut(257, limits), Plan::Steps(_)));
    }
    assert!(matches!(cut(256, WEBGPU), Plan::Walk(walk) if !walk.resident));
    assert!(matches!(cut(128, NVIDIA), Plan::Walk(walk) if walk.resident));
}

#[test]
fn steps_are_one_launch_where_the_device_holds_the_weight() {
    let one_launch = |hidden, limits| {
        let problem = problem(64, hidden, Reset::AfterMatmul, limits);
        let meets = |strategy| {
            let backward = backward(strategy, &problem).unwrap().meets();
            assert_eq!(forward(strategy, &problem).unwrap().meets(), backward);
            backward
        };
        assert!(!meets(Strategy::Inferred), "nobody asked for it");
        meets(Strategy::Persistent)
    };
    for (hidden, expected) in [
        (128, false),
        (129, true),
        (256, true),
        (512, true),
        (1024, true),
        (1536, false),
    ] {
        assert_eq!(one_launch(hidden, NVIDIA), expected, "H {hidden}");
    }
    let fewer = Limits {
        together: 15,
        ..NVIDIA
    };
    assert!(!one_launch(512, fewer));
    assert!(!one_launch(512, WEBGPU));
    assert!(!one_launch(512, LAVAPIPE));
}

#[test]
fn what_was_measured_comes_first() {
    static ROW: Measured = Measured {
        device: "",
        n: 64,
        hidden: 256,
        forward: Cut::Steps(STEPS),
        backward: Cut::Persistent(STEPS),
    };
    let with = |limits| Problem {
        measured: Some(&ROW),
        ..problem(64, 256, Reset::AfterMatmul, limits)
    };
    let team = STEPS.team(None);
    let is_it = |steps: Steps| steps.team == team && steps.stage == 64;
    let forward = forward(Strategy::Inferred, &with(NVIDIA)).unwrap();
    assert!(matches!(forward, Plan::Steps(steps) if is_it(steps)));
    // A persistent one is taken if it is asked for, and if the device allows it.
    let takes = |strategy, limits| {
        let plan = backward(strategy, &with(limits)).unwrap();
        matches!(plan, Plan::Steps(steps) if is_it(steps) && steps.persistent)
    };
    assert!(takes(Strategy::Persistent, NVIDIA));
    assert!(!takes(Strategy::Inferred, NVIDIA));
    assert!(!takes(Strategy::Persistent, WEBGPU));
}

#[test]
fn cubes_that_cannot_meet_are_refused() {
    let refuse = |limits| {
        let problem = problem(4, 64, Reset::AfterMatmul, limits);
        forward(Strategy::Forced(Cut::Persistent(STEPS)), &problem).err()
    };
    let (requested, available) = (4, 3);
    let refused = PlanError::TooManyTogether {
        requested,
        available,
    };
    assert_eq!(
        refuse(Limits {
            together: 3,
            ..NVIDIA
        }),
        Some(refused)
    );
    assert_eq!(
        refuse(Limits {
            together: 4,
            ..NVIDIA
        }),
        None
    );
}

#[test]
fn a_cut_beyond_the_limits_is_refused() {
    let tile = WalkTile {
        rows: 4,
        width: 4,
        lanes: 128,
        splits: 2,
        resident: false,
    };
    let refuse = |tile| {
        let problem = problem(4, 256, Reset::AfterMatmul, WEBGPU);
        forward(Strategy::Forced(Cut::Walk(tile)), &problem).unwrap_err()
    };
    let too_many = refuse(WalkTile { splits: 3, ..tile });
    let (requested, available) = (384, 256);
    assert_eq!(
        too_many,
        PlanError::TooManyUnits {
            requested,
            available
        }
    );
    let too_much = refuse(WalkTile { rows: 32, ..tile });
    assert!(matches!(too_much, PlanError::TooMuchSharedMemory { .. }));
    for malformed in [
        WalkTile { rows: 6, ..tile },
        WalkTile { width: 0, ..tile },
        WalkTile {
            rows: 8,
            width: 8,
            ..tile
        },
        WalkTile { lanes: 0, ..tile },
        WalkTile {
            rows: usize::MAX - 3,
            ..tile
        },
        WalkTile {
            splits: usize::MAX,
            ..tile
        },
    ] {
        let cut = Cut::Walk(malformed);
        assert_eq!(refuse(malformed), PlanError::Malformed { cut });
    }
}

const TENSOR_CORES: Matrices = Matrices {
    m: 16,
    n: 16,
    k: 16,
    plane: 32,
    element: ElemType::Float(FloatKind::F16),
};

#[test]
fn steps_of_16_bits_are_by_matrix_units_where_they_fit() {
    let by_matrices = |n, hidden, limits, matrices| {
        let problem = Problem {
            matrices,
            ..problem(n, hidden, Reset::AfterMatmul, limits)
        };
        let forward = forward(Strategy::Inferred, &problem).unwrap();
        let backward = backward(Strategy::Inferred, &problem).unwrap();
        let takes = |steps: Option<Steps>| steps.is_some_and(|steps| steps.team.matrices.is_some());
        let forward = match forward {
            Plan::Steps(steps) => Some(steps),
            Plan::Walk(_) => None,
        };
        let backward = match backward {
            Plan::Steps(steps) => Some(steps),
            Plan::Walk(_) => None,
        };
        assert_eq!(takes(forward), takes(backward), "N {n}, H {hidden}");
        takes(forward)
    };
    let some = Some(TENSOR_CORES);
    assert!(by_matrices(64, 512, NVIDIA, some));
    assert!(by_matrices(8, 512, WEBGPU, some));
    assert!(!by_matrices(64, 512, NVIDIA, None));
    assert!(
        !by_matrices(7, 512, NVIDIA, some),
        "half of a matrix's rows"
    );
    assert!(!by_matrices(64, 520, NVIDIA, some), "H of whole matrices");
    assert!(!by_matrices(64, 256, NVIDIA, some), "a walk is quicker");
    assert!(!by_matrices(64, 512, LAVAPIPE, some), "a CPU has none");
    for element in [FloatKind::TF32, FloatKind::F32].map(ElemType::Float) {
        let of_32_bits = Matrices {
            element,
            ..TENSOR_CORES
        };
        assert!(
            !by_matrices(64, 512, NVIDIA, Some(of_32_bits)),
            "nobody asked"
        );
    }
}

#[test]
fn a_cut_that_is_not_of_whole_matrices_is_refused() {
    let tile = StepTile {
        rows: 16,
        width: 1,
        lanes: 32,
        per_lane: 1,
        splits: 2,
        stage: 64,
        matrix: true,
    };
    let refuse = |tile, hidden, matrices| {
        let problem = Problem {
            matrices,
            ..problem(64, hidden, Reset::AfterMatmul, NVIDIA)
        };
        forward(Strategy::Forced(Cut::Steps(tile)), &problem).err()
    };
    let some = Some(TENSOR_CORES);
    assert_eq!(refuse(tile, 64, some), None);
    assert_eq!(refuse(tile, 64, None), Some(PlanError::NoMatrices));
    for (hidden, tile) in [
        (72, tile),
        (64, StepTile { rows: 8, ..tile }),
        (64, StepTile { lanes: 16, ..tile }),
        (64, StepTile { lanes: 48, ..tile }),
    ] {
        let refused = PlanError::NotOfMatrices {
            cut: Cut::Steps(tile),
            shape: [16, 16, 16],
            plane: 32,
        };
        assert_eq!(refuse(tile, hidden, some), Some(refused), "H {hidden}");
    }
}

#[test]
fn candidates_are_allowed_cuts_of_every_kind_but_for_the_inferred_one() {
    fn check<W: PartialEq>(cuts: &[Cut], plan: impl Fn(Strategy) -> Result<Plan<W>, PlanError>) {
        let inferred = plan(Strategy::Inferred).ok();
        for (i, &cut) in cuts.iter().enumerate() {
            let forced = plan(Strategy::Forced(cut));
            assert!(forced.is_ok_and(|plan| Some(plan) != inferred), "{cut}");
            assert!(!cuts[..i].contains(&cut), "{cut}, twice");
        }
        let is_resident = |cut: &Cut| match cut {
            Cut::Walk(tile) => Some(tile.resident),
            _ => None,
        };
        let kinds: Vec<_> = cuts.iter().map(is_resident).collect();
        for kind in [Some(true), Some(false), None] {
            assert!(kinds.contains(&kind), "{kind:?} in {cuts:?}");
        }
        // Whoever times the first two has tried a walk and steps.
        assert_ne!(kinds[0].is_some(), kinds[1].is_some(), "{cuts:?}");
    }
    for limits in [WEBGPU, NVIDIA] {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let problem = problem(1000, 64, reset, limits);
            check(&forward_candidates(&problem), |strategy| {
                forward(strategy, &problem)
            });
            check(&backward_candidates(&problem), |strategy| {
                backward(strategy, &problem)
            });
        }
    }
}

const WALK: WalkTile = WalkTile {
    rows: 4,
    width: 4,
    lanes: 256,
    splits: 1,
    resident: false,
};

#[test]
fn a_walk_without_splits_has_two_buffers_where_they_fit() {
    let buffers = |tile, reset, limits| {
        let problem = problem(4, 300, reset, limits);
        match forward(Strategy::Forced(Cut::Walk(tile)), &problem).unwrap() {
            Plan::Walk(walk) => walk.buffers,
            Plan::Steps(_) => unreachable!("a walk is forced"),
        }
    };
    let splits = WalkTile {
        rows: 1,
        width: 1,
        splits: 2,
        ..WALK
    };
    // 300 vectors of four rows to a buffer.
    let narrow = Limits {
        shared_bytes: 9_000,
        ..NVIDIA
    };
    assert_eq!(buffers(WALK, Reset::AfterMatmul, NVIDIA), 2);
    assert_eq!(buffers(WALK, Reset::AfterMatmul, narrow), 1);
    // There is a barrier where splits are added up, and one between the products.
    assert_eq!(buffers(splits, Reset::AfterMatmul, NVIDIA), 1);
    assert_eq!(buffers(WALK, Reset::BeforeMatmul, NVIDIA), 1);
}

#[test]
fn a_backward_walk_reads_the_weight_along_memory_and_holds_three_gates() {
    let plan = |tile, limits| {
        let problem = problem(4, 300, Reset::AfterMatmul, limits);
        backward(Strategy::Forced(Cut::Walk(tile)), &problem)
    };
    for resident in [true, false] {
        let Ok(Plan::Walk(walk)) = plan(WalkTile { resident, ..WALK }, NVIDIA) else {
            unreachable!("a walk is forced");
        };
        assert_eq!(walk.transposed, !resident);
    }
    let narrow = Limits {
        shared_bytes: 3 * 300 * 16,
        ..NVIDIA
    };
    let refused = plan(WALK, narrow).err();
    assert!(matches!(
        refused,
        Some(PlanError::TooMuchSharedMemory { .. })
    ));
}

#[test]
fn where_nothing_fits_the_smallest_walk_says_what_it_wants() {
    let nothing = Limits {
        shared_bytes: 4,
        ..NVIDIA
    };
    for hidden in [64, 256, 512] {
        let problem = problem(1000, hidden, Reset::AfterMatmul, nothing);
        let smallest = *walk_tiles(&problem).last().unwrap();
        let of_walk = forward(Strategy::Forced(Cut::Walk(smallest)), &problem).err();
        assert_eq!(forward(Strategy::Inferred, &problem).err(), of_walk);
    }
}

/// Whoever moves a threshold sees here which sizes it moves.
#[test]
fn inferred_cuts_are_those_of_the_list() {
    fn text<W>(plan: Plan<W>, of_walk: impl Fn(W) -> (Team, bool)) -> String {
        let (word, team, stage, resident) = match plan {
            Plan::Walk(walk) => {
                let (team, resident) = of_walk(walk);
                ("walk", team, None, resident)
            }
            Plan::Steps(steps) if steps.persistent => {
                ("persistent", steps.team, Some(steps.stage), false)
            }
            Plan::Steps(steps) => ("steps", steps.team, Some(steps.stage), false),
        };
        let Team {
            rows,
            width,
            lanes,
            splits,
            columns,
            matrices,
        } = team;
        let stage = stage.map_or(String::new(), |stage| format!(" stage={stage}"));
        let resident = if resident { " resident" } else { "" };
        let matrix = if matrices.is_some() { " matrix" } else { "" };
        format!(
            "{word} rows={rows} width={width} lanes={lanes} splits={splits} columns={columns}{stage}{resident}{matrix}"
        )
    }
    let few_units = Limits {
        units: 32,
        ..WEBGPU
    };
    let mut list = String::new();
    for (device, limits, matrices, strategy) in [
        ("32 units", few_units, None, Strategy::Inferred),
        ("WebGPU", WEBGPU, None, Strategy::Inferred),
        ("NVIDIA", NVIDIA, None, Strategy::Inferred),
        ("NVIDIA, persistent", NVIDIA, None, Strategy::Persistent),
        (
            "NVIDIA, f16",
            NVIDIA,
            Some(TENSOR_CORES),
            Strategy::Inferred,
        ),
        ("lavapipe", LAVAPIPE, None, Strategy::Inferred),
    ] {
        for hidden in [24, 64, 128, 256, 512, 1024] {
            for n in [1, 3, 16, 1000] {
                let problem = Problem {
                    matrices,
                    ..problem(n, hidden, Reset::AfterMatmul, limits)
                };
                let forward = forward(strategy, &problem).unwrap();
                let backward = backward(strategy, &problem).unwrap();
                let forward = text(forward, |walk| (walk.team, walk.resident));
                let backward = text(backward, |walk| (walk.team, walk.resident));
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
