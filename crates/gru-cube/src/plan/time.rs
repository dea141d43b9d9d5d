//! How many steps a launch computes, so that it does not take too long.

use super::{
    Plan, Problem,
    tuning::{LAUNCH_NANOSECONDS, MULTIPLICATIONS_PER_NANOSECOND, STEP_NANOSECONDS},
};

impl Plan {
    /// The most steps of a launch. Its estimated time is at most [`LAUNCH_NANOSECONDS`], or it has one step.
    pub(crate) fn steps_per_launch(&self, problem: &Problem) -> usize {
        let Problem { n, limits, .. } = *problem;
        let hidden = problem.rule.hidden;
        // Tiles of rows that a multiprocessor computes one after the other, and multiplications of each.
        let (rounds, multiplications) = match self {
            Self::Walk(walk) => {
                let rows = walk.threads.rows;
                let rounds = n.div_ceil(rows).div_ceil(limits.cubes);
                (rounds, 3 * rows * hidden * hidden)
            }
            Self::Steps(steps) if steps.persistent => {
                let (rows, columns) = (steps.threads.rows, steps.threads.columns);
                let groups = (limits.coresident_cubes / steps.cubes_per_row()).max(1);
                (
                    n.div_ceil(rows).div_ceil(groups),
                    3 * rows * hidden * columns,
                )
            }
            Self::Steps(_) => return 1,
        };
        let of_round = STEP_NANOSECONDS + multiplications / MULTIPLICATIONS_PER_NANOSECOND;
        (LAUNCH_NANOSECONDS / rounds.saturating_mul(of_round).max(1)).max(1)
    }
}
