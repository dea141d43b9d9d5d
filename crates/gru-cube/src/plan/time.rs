//! How many steps a launch computes, so that it does not take too long, and of which rows.

use super::{
    Kernels, Problem,
    tuning::{LAUNCH_NANOSECONDS, MULTIPLICATIONS_PER_NANOSECOND, STEP_NANOSECONDS},
};
use std::ops::Range;

/// Steps of the first rows of the batch. The other rows have no steps in this launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) steps: Range<usize>,
    pub(crate) rows: usize,
}

impl Kernels {
    /// The launches of some steps, in the order of computation. Each takes at most [`LAUNCH_NANOSECONDS`] by an estimate,
    /// or has one step. Lengths do not increase from row to row. With them a launch ends as soon as another one with fewer
    /// rows takes at most three quarters of the time for a step.
    pub(crate) fn launches(
        &self,
        problem: &Problem,
        steps: Range<usize>,
        lengths: Option<&[usize]>,
    ) -> Vec<Launch> {
        let rows_at = |step| match lengths {
            None => problem.n,
            Some(lengths) => lengths.partition_point(|&length| length > step),
        };
        let mut launches = Vec::new();
        let mut start = steps.start;
        while start < steps.end && rows_at(start) > 0 {
            let rows = rows_at(start);
            let most = self.rounds(problem, rows) * 3 / 4;
            let limit = steps.end.min(start + self.steps_per_launch(problem, rows));
            // Rows end only at their lengths.
            let ends = lengths.into_iter().flatten().rev().copied();
            let few = |step: usize| self.rounds(problem, rows_at(step)) <= most;
            let end = ends
                .skip_while(|&end| end <= start)
                .take_while(|&end| end < limit)
                .find(|&end| few(end));
            let end = end.unwrap_or(limit);
            launches.push(Launch {
                steps: start..end,
                rows,
            });
            start = end;
        }
        launches
    }

    /// The most steps of a launch of so many rows.
    fn steps_per_launch(&self, problem: &Problem, rows: usize) -> usize {
        let hidden = problem.rule.hidden;
        // Multiplications of a tile.
        let multiplications = match self {
            Self::Sequence(sequence) => 3 * sequence.threads.rows * hidden * hidden,
            Self::Steps(steps) if steps.persistent => {
                3 * steps.threads.rows * hidden * steps.threads.columns
            }
            Self::Steps(_) => return 1,
        };
        let of_round = STEP_NANOSECONDS + multiplications / MULTIPLICATIONS_PER_NANOSECOND;
        let rounds = self.rounds(problem, rows);
        (LAUNCH_NANOSECONDS / rounds.saturating_mul(of_round).max(1)).max(1)
    }

    /// Tiles of so many rows that a multiprocessor computes one after the other.
    fn rounds(&self, problem: &Problem, rows: usize) -> usize {
        let limits = &problem.limits;
        match self {
            Self::Sequence(sequence) => rows.div_ceil(sequence.threads.rows).div_ceil(limits.cubes),
            Self::Steps(steps) => {
                let groups = (limits.coresident_cubes / steps.cubes_per_row()).max(1);
                rows.div_ceil(steps.threads.rows).div_ceil(groups)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kernel::rule::{Pass, Rule},
        plan::{limits::Limits, plan_of, schedule::Strategy, tests::WEBGPU},
    };
    use gru_spec::{GruSpec, Order};

    fn kernels_of(
        n: usize,
        hidden: usize,
        cubes: usize,
        coresident_cubes: usize,
    ) -> (Kernels, Problem) {
        let problem = Problem {
            n,
            rule: Rule::new(&GruSpec::default(), Order::default(), hidden, 1e-7),
            limits: Limits {
                shared_bytes: 32 << 10,
                cubes,
                coresident_cubes,
                persistent: true,
                ..WEBGPU
            },
            matrices: None,
        };
        let (_, kernels) = plan_of(Pass::Forward, Strategy::Inferred, &problem).unwrap();
        (kernels, problem)
    }

    fn steps_of_launch(n: usize, hidden: usize, coresident_cubes: usize) -> usize {
        let (plan, problem) = kernels_of(n, hidden, 32, coresident_cubes);
        plan.steps_per_launch(&problem, n)
    }

    #[test]
    fn a_launch_ends_when_its_rows_become_few() {
        let lengths = [vec![10; 8], vec![4; 8], vec![3; 48]].concat();
        let rows = |start| lengths.iter().filter(|&&length| length > start).count();
        let launch = |steps: Range<usize>| Launch {
            rows: rows(steps.start),
            steps,
        };
        // One multiprocessor computes the tiles one after the other, and 64 compute them all at the same time.
        let (plan, problem) = kernels_of(64, 64, 1, 0);
        let few = plan.launches(&problem, 1..12, Some(&lengths));
        assert_eq!(few, [1..3, 3..4, 4..10].map(launch));
        let (plan, problem) = kernels_of(64, 64, 64, 0);
        let many = plan.launches(&problem, 1..12, Some(&lengths));
        assert_eq!(many, [launch(1..10)]);
        // Step kernels have one step each.
        let (plan, problem) = kernels_of(64, 1024, 1, 0);
        let steps = plan.launches(&problem, 1..12, Some(&lengths));
        assert_eq!(
            steps,
            [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|step| launch(step..step + 1))
        );
        let whole = plan.launches(&problem, 1..3, None);
        assert!(whole.iter().all(|launch| launch.rows == 64));
        assert!(plan.launches(&problem, 10..12, Some(&lengths)).is_empty());
    }

    #[test]
    fn the_more_work_a_step_is_the_fewer_steps_has_a_launch() {
        // A step takes 5 µs and more, so that a launch has at most 20 000.
        let sizes = [
            (1, 1),
            (1, 64),
            (32, 64),
            (4096, 64),
            (4096, 256),
            (1 << 20, 256),
        ];
        let steps = sizes.map(|(n, hidden)| steps_of_launch(n, hidden, 0));
        assert_eq!(steps[0], 20_000);
        assert!(steps.is_sorted_by(|more, fewer| more >= fewer), "{steps:?}");
        assert!(steps[5] < steps[4] && steps[4] < steps[3] && steps[5] >= 1);
    }

    #[test]
    fn a_step_kernel_has_one_step_and_a_persistent_kernel_several() {
        assert_eq!(steps_of_launch(4, 1024, 0), 1);
        assert!((2..20_000).contains(&steps_of_launch(4, 1024, 132)));
    }
}
