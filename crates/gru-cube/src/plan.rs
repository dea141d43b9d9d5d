//! How a recurrence is cut into cubes: plain data, forced or inferred from the device's limits.

use crate::{
    error::PlanError,
    kernel::{
        backward::BackwardWalk,
        forward::ForwardWalk,
        product::{Product, Team},
        steps::Steps,
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

/// The cut of a step: one launch per step, in which every cube makes a tile of the new state.
/// Reset after the product only.
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
    /// One launch.
    Walk(WalkTile),
    /// One launch per step.
    Steps(StepTile),
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

/// What the inference reads: N, H, the rule and the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Problem {
    pub(crate) n: usize,
    pub(crate) hidden: usize,
    pub(crate) rule: Rule,
    pub(crate) limits: Limits,
}

/// Weight registers per unit beyond which a weight does not stay in registers. NVIDIA has 255
/// registers per unit, of which the walk itself needs about 50.
const RESIDENT_REGISTERS: usize = 192;

/// H up to which a walk that reads the weight anew at every step takes less time than a launch:
/// 12·H² bytes from a cache of about 64 bytes per clock are 12 000 clocks at 256.
const WALK_HIDDEN: usize = 256;

/// Units of a cube beyond which a meeting costs more than the units bring.
const WALK_UNITS: usize = 512;

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
        steps.forward()
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
        steps.backward()
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
        Cut::Steps(tile) => {
            tile.check(limits)?;
            if !problem.rule.reset_after {
                return Err(PlanError::StepsWithResetBefore);
            }
            let steps = Steps {
                rule: problem.rule,
                team: tile.team(),
                hidden: problem.hidden,
                stage: tile.stage,
            };
            limits.check_shared(steps.shared_vectors(&P::step_product(&steps)), tile.width)?;
            Ok(Plan::Steps(steps))
        }
    }
}

/// A walk where its cubes can keep up with launches, steps elsewhere.
fn infer<P: Pass>(problem: &Problem) -> Result<Plan<P::Walk>, PlanError> {
    let walks = problem.hidden <= WALK_HIDDEN || !problem.rule.reset_after;
    let walk = || {
        let tiles = walk_tiles(problem).into_iter().map(Cut::Walk);
        first_allowed::<P>(problem, tiles)
    };
    let steps = || {
        let tiles = step_tiles(problem).into_iter().map(Cut::Steps);
        first_allowed::<P>(problem, tiles)
    };
    match walks {
        true => walk().or_else(|error| steps().map_err(|_| error)),
        false => steps().or_else(|error| walk().map_err(|_| error)),
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
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.expect("every list of candidates has one"))
}

/// Walks for a problem, the best first.
fn walk_tiles(problem: &Problem) -> Vec<WalkTile> {
    let Problem {
        n, hidden, limits, ..
    } = *problem;
    let lanes = hidden.next_multiple_of(32).min(limits.units);
    let splits = (limits.units.min(WALK_UNITS) / lanes).clamp(1, 8);
    // All cubes at work come before many rows per cube.
    let most = (n / limits.cubes).clamp(1, 4).next_power_of_two();
    [4, 2, 1]
        .into_iter()
        .filter(|&rows| rows <= most)
        .map(|rows| WalkTile {
            rows,
            width: rows,
            lanes,
            splits,
            resident: 3 * hidden * hidden <= RESIDENT_REGISTERS * lanes * splits,
        })
        .collect()
}

/// Steps for a problem, the best first.
fn step_tiles(problem: &Problem) -> Vec<StepTile> {
    let Problem { n, limits, .. } = *problem;
    let lanes = 32.min(limits.units);
    [8, 4, 2, 1]
        .into_iter()
        .map(|rows: usize| StepTile {
            rows: rows.min(n.next_power_of_two()),
            width: rows.min(n.next_power_of_two()).min(4),
            lanes,
            per_lane: 1,
            splits: (limits.units / lanes).clamp(1, 4),
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

    fn check(&self, limits: &Limits) -> Result<(), PlanError> {
        let sizes = [self.lanes, self.splits, self.per_lane, self.stage];
        if !well_formed(self.rows, self.width, sizes) {
            return Err(PlanError::Malformed {
                cut: Cut::Steps(*self),
            });
        }
        limits.check_units(self.lanes * self.splits)
    }
}

fn well_formed<const K: usize>(rows: usize, width: usize, sizes: [usize; K]) -> bool {
    rows > 0 && matches!(width, 1..=4) && rows.is_multiple_of(width) && !sizes.contains(&0)
}
