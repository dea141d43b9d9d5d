//! A cut made a plan: one that the device allows, forced, measured or inferred from its limits.

use crate::{
    kernel::{
        backward::BackwardWalk,
        forward::ForwardWalk,
        rule::Rule,
        steps::{Half, Halves, Steps},
        team::{Matrices, Product},
    },
    plan::{
        cut::{Cut, StepTile, Strategy, WalkTile},
        error::PlanError,
        limits::Limits,
        tuning::{
            CPU_COLUMNS, CPU_ROWS, Measured, PERSISTENT_REGISTERS, RESIDENT_REGISTERS, WALK_HIDDEN,
            WALK_UNITS,
        },
    },
};

pub(crate) mod cut;
pub(crate) mod error;
pub(crate) mod limits;
mod tile;
pub(crate) mod tuning;

/// A pass in the form that the launch wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // A few hundred bytes, copied a few times in a call.
pub(crate) enum Plan<W> {
    Walk(W),
    Steps(Steps),
}

impl<W> Plan<W> {
    /// Whether cubes wait for each other.
    pub(crate) fn meets(&self) -> bool {
        matches!(self, Self::Steps(steps) if steps.persistent)
    }
}

/// What the inference reads: N, H, the rule and the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Problem {
    pub(crate) n: usize,
    pub(crate) hidden: usize,
    pub(crate) rule: Rule,
    pub(crate) limits: Limits,
    /// What the device's matrix units multiply, for the type of the call.
    pub(crate) matrices: Option<Matrices>,
    /// What was the fastest for such sizes on this device.
    pub(crate) measured: Option<&'static Measured>,
}

/// A pass in both forms, by tile.
trait Pass {
    type Walk: PartialEq;
    fn measured(measured: &Measured) -> Cut;
    fn walk(problem: &Problem, tile: WalkTile, buffers: usize) -> Self::Walk;
    fn walk_vectors(walk: &Self::Walk) -> usize;
    fn step_product(steps: &Steps) -> Product;
}

struct Forward;
struct Backward;

impl Pass for Forward {
    type Walk = ForwardWalk;

    fn measured(measured: &Measured) -> Cut {
        measured.forward
    }

    fn walk(problem: &Problem, tile: WalkTile, buffers: usize) -> ForwardWalk {
        ForwardWalk {
            rule: problem.rule,
            team: tile.team(problem.hidden),
            hidden: problem.hidden,
            resident: tile.resident,
            buffers,
        }
    }

    fn walk_vectors(walk: &ForwardWalk) -> usize {
        walk.shared_vectors()
    }

    fn step_product(steps: &Steps) -> Product {
        steps.forward_products().0
    }
}

impl Pass for Backward {
    type Walk = BackwardWalk;

    fn measured(measured: &Measured) -> Cut {
        measured.backward
    }

    fn walk(problem: &Problem, tile: WalkTile, buffers: usize) -> BackwardWalk {
        BackwardWalk {
            rule: problem.rule,
            team: tile.team(problem.hidden),
            hidden: problem.hidden,
            resident: tile.resident,
            // Loaded once, the order of the weight does not matter.
            transposed: !tile.resident,
            buffers,
        }
    }

    fn walk_vectors(walk: &BackwardWalk) -> usize {
        walk.shared_vectors()
    }

    fn step_product(steps: &Steps) -> Product {
        steps.backward_products().0
    }
}

pub(crate) fn forward(
    strategy: Strategy,
    problem: &Problem,
) -> Result<Plan<ForwardWalk>, PlanError> {
    plan::<Forward>(strategy, problem)
}

pub(crate) fn backward(
    strategy: Strategy,
    problem: &Problem,
) -> Result<Plan<BackwardWalk>, PlanError> {
    plan::<Backward>(strategy, problem)
}

fn plan<P: Pass>(strategy: Strategy, problem: &Problem) -> Result<Plan<P::Walk>, PlanError> {
    match strategy {
        Strategy::Forced(cut) => cut_to_plan::<P>(problem, cut),
        // Of a tuned call this is the first candidate.
        Strategy::Inferred | Strategy::Tuned => infer::<P>(problem, false),
        Strategy::Persistent => infer::<P>(problem, true),
    }
}

/// Cuts worth timing that the device allows, but for the inferred one.
pub(crate) fn forward_candidates(problem: &Problem) -> Vec<Cut> {
    candidates::<Forward>(problem)
}

/// The same of the backward pass.
pub(crate) fn backward_candidates(problem: &Problem) -> Vec<Cut> {
    candidates::<Backward>(problem)
}

fn candidates<P: Pass>(problem: &Problem) -> Vec<Cut> {
    let walks = walk_tiles(problem);
    let reading = walks
        .iter()
        .filter(|tile| tile.resident)
        .map(|&tile| WalkTile {
            resident: false,
            ..tile
        });
    let walks: Vec<_> = walks
        .iter()
        .copied()
        .chain(reading)
        .map(Cut::Walk)
        .collect();
    let mut steps: Vec<_> = step_tiles(problem).into_iter().map(Cut::Steps).collect();
    steps.dedup();
    let inferred = infer::<P>(problem, false).ok();
    // One of each kind in turn: whoever times only the first of them has tried both.
    let rounds = 0..walks.len().max(steps.len());
    rounds
        .flat_map(|round| [walks.get(round), steps.get(round)])
        .flatten()
        .copied()
        .filter(|&cut| cut_to_plan::<P>(problem, cut).is_ok_and(|plan| Some(plan) != inferred))
        .collect()
}

fn cut_to_plan<P: Pass>(problem: &Problem, cut: Cut) -> Result<Plan<P::Walk>, PlanError> {
    let limits = &problem.limits;
    match cut {
        Cut::Walk(tile) => {
            tile.check(limits)?;
            let walk = |buffers| {
                let walk = P::walk(problem, tile, buffers);
                limits.check_shared(P::walk_vectors(&walk), tile.width)?;
                Ok(Plan::Walk(walk))
            };
            if tile.splits == 1 && problem.rule.reset_after {
                walk(2).or_else(|_| walk(1))
            } else {
                walk(1)
            }
        }
        Cut::Steps(tile) | Cut::Persistent(tile) => {
            let persistent = matches!(cut, Cut::Persistent(_));
            tile.check(cut, limits)?;
            let matrices = if tile.matrix {
                Some(problem.matrices.ok_or(PlanError::NoMatrices)?)
            } else {
                None
            };
            let team = tile.team(matrices);
            if let Some(Matrices { m, n, k, plane, .. }) = matrices
                && !team.is_of_matrices(problem.hidden)
            {
                let shape = [m, n, k];
                return Err(PlanError::NotOfMatrices { cut, shape, plane });
            }
            let steps = Steps {
                rule: problem.rule,
                team,
                hidden: problem.hidden,
                stage: tile.stage,
                persistent,
                halves: if problem.rule.reset_after {
                    Halves::One(Half::Whole)
                } else {
                    Halves::Both
                },
            };
            if persistent {
                limits.check_together(steps.cubes_per_row())?;
            }
            limits.check_shared(steps.shared_vectors(&P::step_product(&steps)), tile.width)?;
            Ok(Plan::Steps(steps))
        }
    }
}

/// What was measured; else a walk with the weight in registers where it is that small; else steps in one
/// launch, if that is asked for; else the walk or steps, by what takes less time: to read the weight, or
/// to launch. What the device refuses is passed over.
fn infer<P: Pass>(problem: &Problem, may_meet: bool) -> Result<Plan<P::Walk>, PlanError> {
    let measured = problem.measured.map(P::measured);
    let measured = measured.filter(|cut| may_meet || !matches!(cut, Cut::Persistent(_)));
    let (walks, steps) = (walk_tiles(problem), step_tiles(problem));
    let (walks, steps) = (
        walks.into_iter().map(Cut::Walk),
        steps.into_iter().map(Cut::Steps),
    );
    let persistent = if may_meet {
        persistent_tiles(problem)
    } else {
        Vec::new()
    };
    let persistent = persistent.into_iter().map(Cut::Persistent);
    let is_resident = |cut: &Cut| matches!(cut, Cut::Walk(tile) if tile.resident);
    let (resident, reading): (Vec<_>, Vec<_>) = walks.partition(is_resident);
    let quick_walk = problem.hidden <= WALK_HIDDEN;
    let cuts = measured.into_iter().chain(resident).chain(persistent);
    if quick_walk {
        first_allowed::<P>(problem, cuts.chain(reading).chain(steps))
    } else {
        first_allowed::<P>(problem, cuts.chain(steps).chain(reading))
    }
}

fn first_allowed<P: Pass>(
    problem: &Problem,
    cuts: impl Iterator<Item = Cut>,
) -> Result<Plan<P::Walk>, PlanError> {
    let mut refused = None;
    for cut in cuts {
        match cut_to_plan::<P>(problem, cut) {
            Ok(plan) => return Ok(plan),
            // Of a walk's refusal more can be learnt than of what else would have been tried.
            Err(error) if refused.is_none() || matches!(cut, Cut::Walk(_)) => refused = Some(error),
            Err(_) => {}
        }
    }
    Err(refused.expect("every list of candidates has one"))
}

/// Walks for a problem, the best first.
fn walk_tiles(problem: &Problem) -> Vec<WalkTile> {
    let Problem {
        n, hidden, limits, ..
    } = *problem;
    // All cubes at work come before many rows per cube.
    let rows_for_all = n.div_ceil(limits.cubes).next_power_of_two();
    let lanes = hidden.next_multiple_of(32).min(limits.units);
    let most_splits = (limits.units.min(WALK_UNITS) / lanes).clamp(1, 8);
    let fits = |splits| 3 * hidden.div_ceil(splits) * hidden.div_ceil(lanes) <= RESIDENT_REGISTERS;
    // More units shorten a step on a GPU; on a CPU they are walked through one by one.
    let splits = if limits.cpu {
        (1..=most_splits).find(|&splits| fits(splits))
    } else {
        None
    };
    let splits = splits.unwrap_or(most_splits);
    let resident = fits(splits);
    let gpu_like = |rows: usize| WalkTile {
        rows,
        width: rows.min(4),
        lanes,
        splits,
        resident,
    };
    let cpu_like = |rows: usize| WalkTile {
        rows,
        width: rows.min(4),
        lanes: hidden.div_ceil(CPU_COLUMNS).next_multiple_of(8).max(32),
        splits: 1,
        resident: false,
    };
    let rows_up_to = |most: usize| {
        [16, 8, 4, 2, 1]
            .into_iter()
            .filter(move |&rows| rows <= most.min(rows_for_all))
    };
    let few_rows = rows_for_all < CPU_ROWS && resident;
    if limits.cpu && !few_rows {
        rows_up_to(16).map(cpu_like).collect()
    } else {
        rows_up_to(4).map(gpu_like).collect()
    }
}

/// Steps in one launch for a problem, the best first: as few cubes per row of the batch as hold the
/// weight, so that as many rows as possible are walked side by side. Where so many do not run together, units
/// of more registers.
fn persistent_tiles(problem: &Problem) -> Vec<StepTile> {
    let Problem {
        n, hidden, limits, ..
    } = *problem;
    let units = limits.units.min(WALK_UNITS);
    let tile = |columns: usize, rows: usize| StepTile {
        rows,
        width: rows,
        lanes: columns,
        per_lane: 1,
        splits: units / columns,
        stage: 512,
        matrix: false,
    };
    let holding = |registers: usize| {
        let holds = |columns: &usize| 3 * hidden.div_ceil(units / columns) <= registers;
        [64, 32, 16, 8].into_iter().find(holds)
    };
    let rows = [4, 2, 1]
        .into_iter()
        .filter(|&rows| rows <= n.next_power_of_two());
    let registers = if limits.cpu {
        // A CPU has no registers for a weight, and launches cost it little.
        &[][..]
    } else {
        &[PERSISTENT_REGISTERS, RESIDENT_REGISTERS]
    };
    let columns = registers.iter().filter_map(|&registers| holding(registers));
    columns
        .flat_map(|columns| rows.clone().map(move |rows| tile(columns, rows)))
        .collect()
}

/// Steps for a problem, the best first.
fn step_tiles(problem: &Problem) -> Vec<StepTile> {
    let Problem { n, limits, .. } = *problem;
    let by_matrices = matrix_tiles(problem);
    let (lanes, per_lane, splits) = if limits.cpu {
        (128, CPU_COLUMNS, 1)
    } else {
        (32, 1, (limits.units / 32).clamp(1, 4))
    };
    let most = if limits.cpu { 16 } else { 8 };
    let by_units = [16, 8, 4, 2, 1]
        .into_iter()
        .filter(|&rows| rows <= most)
        .map(|rows: usize| rows.min(n.next_power_of_two()))
        .map(|rows| StepTile {
            rows,
            width: rows.min(4),
            lanes,
            per_lane,
            splits,
            stage: 128,
            matrix: false,
        });
    by_matrices.into_iter().chain(by_units).collect()
}

/// Steps of 16 bits by matrix units, where half of the rows of a matrix are there. On a CPU they are made of
/// ordinary instructions.
fn matrix_tiles(problem: &Problem) -> Vec<StepTile> {
    let Problem { n, limits, .. } = *problem;
    let useful = |matrices: &Matrices| {
        matrices.element.size() < size_of::<f32>() && !limits.cpu && 2 * n >= matrices.m
    };
    let Some(matrices) = problem.matrices.filter(useful) else {
        return Vec::new();
    };
    let lanes = matrices.plane;
    let most = (limits.units / lanes).clamp(1, 4);
    [most, 1]
        .into_iter()
        .map(|splits| StepTile {
            rows: matrices.m,
            width: 1,
            lanes,
            per_lane: matrices.n.div_ceil(lanes),
            splits,
            stage: 128,
            matrix: true,
        })
        .collect()
}

#[cfg(test)]
mod tests;
