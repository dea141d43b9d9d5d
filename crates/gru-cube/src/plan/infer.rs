//! Which schedules suit a problem, the best first.

use super::{
    Kernels, Problem, allowed,
    error::PlanError,
    schedule::{Schedule, SequenceTile, StepTile},
    tuning::{
        CPU_COLUMNS, CPU_PAIRS, CPU_ROWS, MATRIX_TILE_CLOCKS, PERSISTENT_THREADS, SEQUENCE_HIDDEN,
        SEQUENCE_THREADS, TILE_CLOCKS,
    },
};
use crate::kernel::{rule::Pass, steps::PERSISTENT_REGISTERS, threads::Matrices};

/// The first of these that the device allows: a sequence kernel with a resident weight; a persistent kernel; a sequence
/// kernel that reads the weight at every step; step kernels. The last two change places above [`SEQUENCE_HIDDEN`].
pub(super) fn infer(pass: Pass, problem: &Problem) -> Result<(Schedule, Kernels), PlanError> {
    let sequences = sequence_tiles(problem).into_iter();
    let (resident, reading): (Vec<_>, Vec<_>) = sequences.partition(|tile| tile.resident);
    let [resident, reading] =
        [resident, reading].map(|tiles| tiles.into_iter().map(Schedule::Sequence));
    let persistent = persistent_tiles(problem).into_iter();
    let schedules = resident.chain(persistent.map(Schedule::Persistent));
    let steps = step_tiles(problem).into_iter().map(Schedule::Steps);
    if problem.rule.hidden <= SEQUENCE_HIDDEN {
        first_allowed(pass, problem, schedules.chain(reading).chain(steps))
    } else {
        first_allowed(pass, problem, schedules.chain(steps).chain(reading))
    }
}

fn first_allowed(
    pass: Pass,
    problem: &Problem,
    schedules: impl Iterator<Item = Schedule>,
) -> Result<(Schedule, Kernels), PlanError> {
    let mut first_error = None;
    for schedule in schedules {
        match allowed(pass, problem, schedule) {
            Ok(kernels) => return Ok((schedule, kernels)),
            // The error of the smallest sequence kernel says most about the device.
            Err(error) if first_error.is_none() || matches!(schedule, Schedule::Sequence(_)) => {
                first_error = Some(error);
            }
            Err(_) => {}
        }
    }
    Err(first_error.expect("every list has a step kernel"))
}

/// Sequence kernels for a problem, the best first.
pub(super) fn sequence_tiles(problem: &Problem) -> Vec<SequenceTile> {
    let Problem {
        n, limits, rule, ..
    } = *problem;
    let hidden = rule.hidden;
    // Using all cubes is more important than many rows per cube.
    let rows_for_all = n.div_ceil(limits.cubes).next_power_of_two();
    let n_threads = hidden.next_multiple_of(32).min(limits.threads);
    let splits_of = |threads: usize| (limits.threads.min(threads) / n_threads).clamp(1, 8);
    let most_splits = splits_of(limits.most_sequence_threads);
    let fits = |k_splits| {
        3 * hidden.div_ceil(k_splits) * hidden.div_ceil(n_threads) <= limits.resident_registers
    };
    // More threads only if the weight needs their registers. Reading the weight is faster with more.
    let resident =
        (splits_of(limits.sequence_threads)..=most_splits).find(|&k_splits| fits(k_splits));
    let k_splits = resident.unwrap_or_else(|| splits_of(SEQUENCE_THREADS));
    let resident = resident.is_some();
    let gpu_like = |rows: usize| SequenceTile {
        rows,
        width: rows.min(4),
        n_threads,
        k_splits,
        resident,
    };
    let cpu_like = |rows: usize| SequenceTile {
        rows,
        width: rows.min(4),
        n_threads: hidden
            .div_ceil(CPU_COLUMNS)
            .next_multiple_of(8)
            .max(32)
            .min(limits.threads),
        k_splits: 1,
        resident: false,
    };
    let rows_up_to = |most: usize| {
        [16, 8, 4, 2, 1]
            .into_iter()
            .filter(move |&rows| rows <= most.min(rows_for_all))
    };
    let few_rows = rows_for_all < CPU_ROWS && resident;
    if limits.cpu && !few_rows {
        let pairs = |tile: &SequenceTile| tile.rows * hidden.div_ceil(tile.n_threads);
        let tiles = rows_up_to(16).map(cpu_like);
        tiles.filter(|tile| pairs(tile) <= CPU_PAIRS).collect()
    } else {
        rows_up_to(4).map(gpu_like).collect()
    }
}

/// Persistent kernels for a problem, by estimated time.
fn persistent_tiles(problem: &Problem) -> Vec<StepTile> {
    let Problem {
        n, limits, rule, ..
    } = *problem;
    if !limits.persistent {
        return Vec::new();
    }
    let hidden = rule.hidden;
    let threads = limits.threads.min(PERSISTENT_THREADS);
    let mut tiles = Vec::new();
    for n_threads in [32, 16] {
        let k_splits = threads / n_threads;
        let holds = k_splits > 0 && 3 * hidden.div_ceil(k_splits) <= PERSISTENT_REGISTERS;
        let rows = [4, 2, 1]
            .into_iter()
            .filter(|&rows| holds && rows <= n.next_power_of_two());
        tiles.extend(rows.map(|rows| {
            let tile = StepTile {
                rows,
                width: rows,
                n_threads,
                n_per_thread: 1,
                k_splits,
                block_k: 512,
                matrix: false,
            };
            // Multiplications, and vectors of the lhs from shared memory.
            let product = rows * hidden * (n_threads + 8) / 26;
            let clocks = TILE_CLOCKS + product;
            (
                rounds(problem, rows, n_threads).saturating_mul(clocks),
                tile,
            )
        }));
    }
    if let Some(matrices) = useful_matrices(problem) {
        let Matrices { m, n, plane, .. } = matrices;
        for planes in [1, 2] {
            let (n_threads, columns) = (planes * plane, planes * n);
            let registers = matrices.copies * matrices.registers(hidden, columns, threads);
            let holds = n_threads <= threads && registers <= PERSISTENT_REGISTERS;
            tiles.extend(holds.then(|| {
                let tile = StepTile {
                    rows: m,
                    width: 1,
                    n_threads,
                    n_per_thread: 1,
                    k_splits: threads / n_threads,
                    block_k: 512,
                    matrix: true,
                };
                // Loads of the lhs, and its products.
                let clocks = MATRIX_TILE_CLOCKS + m * hidden * columns / 47;
                (rounds(problem, m, columns).saturating_mul(clocks), tile)
            }));
        }
    }
    tiles.sort_by_key(|&(clocks, _)| clocks);
    tiles.into_iter().map(|(_, tile)| tile).collect()
}

/// Tiles that a cube computes one after the other in a step.
fn rounds(problem: &Problem, rows: usize, columns: usize) -> usize {
    let cubes = problem.rule.hidden.div_ceil(columns).max(1);
    let groups = (problem.limits.coresident_cubes / cubes).max(1);
    problem.n.div_ceil(rows).div_ceil(groups)
}

/// Step kernels for a problem, the best first.
fn step_tiles(problem: &Problem) -> Vec<StepTile> {
    let Problem { n, limits, .. } = *problem;
    let by_matrices = matrix_tiles(problem);
    let (n_threads, n_per_thread, k_splits) = if limits.cpu {
        (limits.threads.min(128), CPU_COLUMNS, 1)
    } else {
        (32, 1, (limits.threads / 32).clamp(1, 4))
    };
    let most = if limits.cpu { 16 } else { 8 };
    let by_threads = [16, 8, 4, 2, 1]
        .into_iter()
        .filter(|&rows| rows <= most)
        .map(|rows: usize| rows.min(n.next_power_of_two()))
        .map(|rows| StepTile {
            rows,
            width: rows.min(4),
            n_threads,
            n_per_thread,
            k_splits,
            block_k: 128,
            matrix: false,
        });
    by_matrices.into_iter().chain(by_threads).collect()
}

/// Matrix units for 16-bit types, if the batch has at least half of the rows of a matrix. A CPU emulates matrix units.
fn useful_matrices(problem: &Problem) -> Option<Matrices> {
    problem.matrices.filter(|matrices| {
        let is_narrow = matrices.element.size() < size_of::<f32>();
        is_narrow && !problem.limits.cpu && 2 * problem.n >= matrices.m
    })
}

/// Step kernels by matrix units.
fn matrix_tiles(problem: &Problem) -> Vec<StepTile> {
    let limits = &problem.limits;
    let Some(matrices) = useful_matrices(problem) else {
        return Vec::new();
    };
    let n_threads = matrices.plane;
    let most = (limits.threads / n_threads).clamp(1, 4);
    [most, 1]
        .into_iter()
        .map(|k_splits| StepTile {
            rows: matrices.m,
            width: 1,
            n_threads,
            n_per_thread: (n_threads / matrices.n).max(1),
            k_splits,
            block_k: 128,
            matrix: true,
        })
        .collect()
}
