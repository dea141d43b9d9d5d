//! A plan: a schedule that the device allows, forced by the caller or inferred, in the form that the
//! kernels are compiled for.

pub(crate) mod error;
mod infer;
pub(crate) mod limits;
pub(crate) mod schedule;
pub(crate) mod settings;
pub(crate) mod tensor;
pub(crate) mod time;
pub(crate) mod tuning;

use crate::kernel::{
    rule::{Pass, Rule},
    sequence::SequenceKernel,
    steps::{Phase, Phases, Steps},
    threads::{Matrices, Product, Threads},
};
use error::{PlanError, Resource};
use infer::infer;
use limits::Limits;
use schedule::{Schedule, SequenceTile, StepTile, Strategy};

/// The kernels of a pass, as they are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::large_enum_variant)] // A few hundred bytes, copied a few times in a call.
pub(crate) enum Kernels {
    Sequence(SequenceKernel),
    Steps(Steps),
}

impl Kernels {
    pub(crate) fn is_persistent(&self) -> bool {
        matches!(self, Self::Steps(steps) if steps.persistent)
    }

    /// Whether the backward kernels read the weight as `[3H,H]`.
    pub(crate) fn transposes(&self) -> bool {
        match self {
            Self::Sequence(kernel) => kernel.is_transposed(),
            Self::Steps(_) => true,
        }
    }
}

/// What a plan depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Problem {
    pub(crate) n: usize,
    pub(crate) rule: Rule,
    pub(crate) limits: Limits,
    /// What the device's matrix units multiply, for the type of the call.
    pub(crate) matrices: Option<Matrices>,
}

/// The schedule of a pass and its kernels.
pub(crate) fn plan_of(
    pass: Pass,
    strategy: Strategy,
    problem: &Problem,
) -> Result<(Schedule, Kernels), PlanError> {
    match strategy {
        Strategy::Forced(schedule) => Ok((schedule, allowed(pass, problem, schedule)?)),
        Strategy::Inferred => infer(pass, problem),
        Strategy::Independent => {
            let mut problem = *problem;
            problem.limits.persistent = false;
            infer(pass, &problem)
        }
    }
}

/// The kernels of a schedule, if the device allows it.
fn allowed(pass: Pass, problem: &Problem, schedule: Schedule) -> Result<Kernels, PlanError> {
    check_sizes(schedule)?;
    match schedule {
        Schedule::Sequence(tile) => sequence(pass, problem, tile),
        Schedule::Steps(tile) | Schedule::Persistent(tile) => steps(pass, problem, schedule, tile),
    }
}

fn sequence(pass: Pass, problem: &Problem, tile: SequenceTile) -> Result<Kernels, PlanError> {
    let (rule, limits) = (problem.rule, &problem.limits);
    let threads = Threads {
        rows: tile.rows,
        width: tile.width,
        n_threads: tile.n_threads,
        k_splits: tile.k_splits,
        columns: rule.hidden,
        matrices: None,
    };
    Resource::Threads.check(threads.count(), limits.threads)?;
    let kernel = |buffers| {
        let kernel = SequenceKernel {
            rule,
            threads,
            resident: tile.resident,
            buffers,
        };
        check_registers(kernel.products(pass), &threads)?;
        check_shared(limits, kernel.shared_vectors(pass), tile.width)?;
        Ok(Kernels::Sequence(kernel))
    };
    if tile.k_splits == 1 && rule.reset_after {
        kernel(2).or_else(|_| kernel(1))
    } else {
        kernel(1)
    }
}

fn steps(
    pass: Pass,
    problem: &Problem,
    schedule: Schedule,
    tile: StepTile,
) -> Result<Kernels, PlanError> {
    let (rule, limits) = (problem.rule, &problem.limits);
    let matrices = if tile.matrix {
        Some(problem.matrices.ok_or(PlanError::NoMatrices)?)
    } else {
        None
    };
    let columns_at_once = matrices.map_or(tile.n_threads, |matrices| {
        tile.n_threads / matrices.plane * matrices.n
    });
    let threads = Threads {
        rows: tile.rows,
        width: tile.width,
        n_threads: tile.n_threads,
        k_splits: tile.k_splits,
        columns: columns_at_once * tile.n_per_thread,
        matrices,
    };
    Resource::Threads.check(threads.count(), limits.threads)?;
    if let Some(Matrices { m, n, k, plane, .. }) = matrices
        && !threads.fits_matrices(rule.hidden)
    {
        return Err(PlanError::NotOfMatrices {
            schedule,
            shape: [m, n, k],
            plane,
        });
    }
    let steps = Steps {
        rule,
        threads,
        block_k: tile.block_k,
        persistent: matches!(schedule, Schedule::Persistent(_)),
        phases: if rule.reset_after {
            Phases::One(Phase::Whole)
        } else {
            Phases::Both
        },
    };
    if steps.persistent {
        Resource::CoresidentCubes.check(steps.cubes_per_row(), limits.coresident_cubes)?;
    }
    if matrices.is_none() {
        check_registers(steps.products(pass), &threads)?;
    }
    check_shared(limits, steps.shared_vectors(pass), tile.width)?;
    Ok(Kernels::Steps(steps))
}

/// Largest size of a schedule. No device allows more, and no product of sizes overflows.
const MAX_SIZE: usize = 1 << 12;

fn check_sizes(schedule: Schedule) -> Result<(), PlanError> {
    let (rows, width, sizes) = match schedule {
        Schedule::Sequence(tile) => (tile.rows, tile.width, [tile.n_threads, tile.k_splits, 1, 1]),
        Schedule::Steps(tile) | Schedule::Persistent(tile) => {
            let StepTile {
                n_threads,
                n_per_thread,
                k_splits,
                block_k,
                ..
            } = tile;
            let sizes = [n_threads, n_per_thread, k_splits, block_k];
            (tile.rows, tile.width, sizes)
        }
    };
    let fits = |size: usize| (1..=MAX_SIZE).contains(&size);
    // No shader language aligns a vector of three values as its C++ dialects do.
    let is_vector = matches!(width, 1 | 2 | 4) && rows.is_multiple_of(width);
    if fits(rows) && is_vector && sizes.into_iter().all(fits) {
        Ok(())
    } else {
        Err(PlanError::Malformed { schedule })
    }
}

/// Most weight registers per thread. A kernel has an unrolled multiplication for each, and no thread has more than 255.
const MAX_WEIGHT_REGISTERS: usize = 1 << 10;

fn check_registers(
    (first, second): (Product, Product),
    threads: &Threads,
) -> Result<(), PlanError> {
    let resident = [first, second]
        .into_iter()
        .filter(|product| product.resident);
    let registers = resident.map(|product| product.registers(threads)).sum();
    Resource::WeightRegisters.check(registers, MAX_WEIGHT_REGISTERS)
}

fn check_shared(limits: &Limits, vectors: usize, width: usize) -> Result<(), PlanError> {
    Resource::SharedBytes.check(vectors * width * size_of::<f32>(), limits.shared_bytes)
}

#[cfg(test)]
pub(crate) mod tests;
