//! How a recurrence is cut into cubes: plain data, forced or inferred from the device's limits.

use crate::{
    error::PlanError,
    kernel::{
        backward::BackwardWalk,
        forward::ForwardWalk,
        product::{Product, Team},
        steps::{Half, Halves, Steps},
    },
    limits::Limits,
    rule::Rule,
};

/// The cut of a walk: one launch, in which every cube takes some rows of the batch through all
/// steps.
///
/// A cube has `lanes · splits` units. Lanes stand for neighbouring hidden units, splits for parts
/// of the recurrent product's sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WalkTile {
    /// Rows of the batch per cube.
    pub rows: usize,
    /// Rows in one vector of registers; divides `rows`, at most 4.
    pub width: usize,
    /// Units side by side along the hidden units.
    pub lanes: usize,
    /// Units that share one sum.
    pub splits: usize,
    /// `w_hh` stays in the registers of the cube for the whole walk.
    pub resident: bool,
}

/// The cut of a step: every cube makes a tile of the new state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StepTile {
    /// Rows of the batch per cube.
    pub rows: usize,
    /// Rows in one vector of registers; divides `rows`, at most 4.
    pub width: usize,
    /// Units side by side along the hidden units.
    pub lanes: usize,
    /// Hidden units per lane; a cube makes `lanes · per_lane` of them.
    pub per_lane: usize,
    /// Units that share one sum.
    pub splits: usize,
    /// Terms of the sum whose left sides are in shared memory at a time.
    pub stage: usize,
}

/// A cut of a recurrence into launches and cubes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// One launch for all steps, whose cubes need nothing from each other: a fused recurrent kernel.
    Walk(WalkTile),
    /// One launch per product: one per step with the reset after it, two with the reset before it.
    Steps(StepTile),
    /// One launch for all steps: a persistent kernel. The cubes of the same rows together hold `w_hh`
    /// in their registers, and wait for each other after every product, at a barrier between cubes.
    /// Only where the device runs them all at the same time and shows them each other's writes, and on
    /// one stream at a time. If another program never lets go of the device, a cube that has waited for
    /// seconds gives up, and all further numbers are NaN.
    Persistent(StepTile),
}

/// Which cut to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strategy {
    /// By the sizes of the call and the limits of the device.
    #[default]
    Inferred,
    /// This one, or an error if the device does not allow it.
    Forced(Cut),
}

/// A pass in the form that the launch wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

/// Weight registers per unit beyond which a weight does not stay in registers: 512 units of 96
/// fill three quarters of an NVIDIA multiprocessor's file of 65 536, and a driver compiles that
/// many terms in half a second.
const RESIDENT_REGISTERS: usize = 96;

/// H up to which a walk that reads the weight anew at every step takes less time than a launch:
/// 12·H² bytes from a cache of about 64 bytes per clock are 12 000 clocks at 256.
const WALK_HIDDEN: usize = 256;

/// Units of a cube beyond which a barrier costs more than the units bring.
const WALK_UNITS: usize = 512;

/// Columns per lane where a device is a CPU: a value of the left side is loaded once for all of
/// them. Measured on lavapipe, with [`CPU_ROWS`].
const CPU_COLUMNS: usize = 4;

/// Rows per cube from which on a CPU reads the weight anew at every step: a value of the weight
/// is loaded once for all of them.
const CPU_ROWS: usize = 8;

/// A pass in both forms, by tile.
trait Pass {
    type Walk;
    fn walk(problem: &Problem, tile: WalkTile, buffers: usize) -> Self::Walk;
    fn walk_vectors(walk: &Self::Walk) -> usize;
    fn step_product(steps: &Steps) -> Product;
}

struct Forward;
struct Backward;

impl Pass for Forward {
    type Walk = ForwardWalk;

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
        Strategy::Inferred => infer::<P>(problem),
    }
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
            match tile.splits == 1 && problem.rule.reset_after {
                true => walk(2).or_else(|_| walk(1)),
                false => walk(1),
            }
        }
        Cut::Steps(tile) | Cut::Persistent(tile) => {
            let persistent = matches!(cut, Cut::Persistent(_));
            tile.check(cut, limits)?;
            let steps = Steps {
                rule: problem.rule,
                team: tile.team(),
                hidden: problem.hidden,
                stage: tile.stage,
                persistent,
                halves: match problem.rule.reset_after {
                    true => Halves::One(Half::Whole),
                    false => Halves::Both,
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

/// A walk with the weight in registers where it is that small; else steps in one launch where the
/// device allows it; else the walk or steps, by what takes less time: to read the weight, or to
/// launch. What the device refuses is passed over.
fn infer<P: Pass>(problem: &Problem) -> Result<Plan<P::Walk>, PlanError> {
    let (walks, steps) = (walk_tiles(problem), step_tiles(problem));
    let (walks, steps) = (
        walks.into_iter().map(Cut::Walk),
        steps.into_iter().map(Cut::Steps),
    );
    let persistent = persistent_tiles(problem).into_iter().map(Cut::Persistent);
    let is_resident = |cut: &Cut| matches!(cut, Cut::Walk(tile) if tile.resident);
    let (resident, reading): (Vec<_>, Vec<_>) = walks.partition(is_resident);
    let quick_walk = problem.hidden <= WALK_HIDDEN;
    let cuts = resident.into_iter().chain(persistent);
    match quick_walk {
        true => first_allowed::<P>(problem, cuts.chain(reading).chain(steps)),
        false => first_allowed::<P>(problem, cuts.chain(steps).chain(reading)),
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
    let splits = match limits.cpu {
        true => (1..=most_splits).find(|&splits| fits(splits)),
        false => None,
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
    match limits.cpu && !few_rows {
        true => rows_up_to(16).map(cpu_like).collect(),
        false => rows_up_to(4).map(gpu_like).collect(),
    }
}

/// Steps in one launch for a problem, the best first: as few cubes per row of the batch as hold the
/// weight, so that as many rows as possible are walked side by side.
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
    };
    let holds = |columns: &usize| 3 * hidden.div_ceil(units / columns) <= RESIDENT_REGISTERS;
    let columns = [64, 32, 16, 8].into_iter().find(holds);
    let rows = [4, 2, 1]
        .into_iter()
        .filter(|&rows| rows <= n.next_power_of_two());
    match (columns, limits.cpu) {
        (Some(columns), false) => rows.map(|rows| tile(columns, rows)).collect(),
        // A CPU has no registers for a weight, and launches cost it little.
        _ => Vec::new(),
    }
}

/// Steps for a problem, the best first.
fn step_tiles(problem: &Problem) -> Vec<StepTile> {
    let Problem { n, limits, .. } = *problem;
    let (lanes, per_lane, splits) = match limits.cpu {
        true => (128, CPU_COLUMNS, 1),
        false => (32, 1, (limits.units / 32).clamp(1, 4)),
    };
    let most = if limits.cpu { 16 } else { 8 };
    [16, 8, 4, 2, 1]
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
        })
        .collect()
}

impl WalkTile {
    fn team(&self, columns: usize) -> Team {
        Team {
            rows: self.rows,
            width: self.width,
            lanes: self.lanes,
            splits: self.splits,
            columns,
        }
    }

    fn check(&self, limits: &Limits) -> Result<(), PlanError> {
        let well_formed = well_formed(self.rows, self.width, [self.lanes, self.splits]);
        if !well_formed {
            return Err(PlanError::Malformed {
                cut: Cut::Walk(*self),
            });
        }
        limits.check_units(self.lanes * self.splits)
    }
}

impl StepTile {
    fn team(&self) -> Team {
        Team {
            rows: self.rows,
            width: self.width,
            lanes: self.lanes,
            splits: self.splits,
            columns: self.lanes * self.per_lane,
        }
    }

    fn check(&self, cut: Cut, limits: &Limits) -> Result<(), PlanError> {
        let sizes = [self.lanes, self.splits, self.per_lane, self.stage];
        if !well_formed(self.rows, self.width, sizes) {
            return Err(PlanError::Malformed { cut });
        }
        limits.check_units(self.lanes * self.splits)
    }
}

/// Largest size of a cut: far beyond any device, and so small that no product of sizes overflows.
const MOST: usize = 1 << 12;

fn well_formed<const K: usize>(rows: usize, width: usize, sizes: [usize; K]) -> bool {
    let fits = |size: usize| (1..=MOST).contains(&size);
    fits(rows)
        && matches!(width, 1..=4)
        && rows.is_multiple_of(width)
        && sizes.into_iter().all(fits)
}

#[cfg(test)]
mod tests;
