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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kernel::rule::{Pass, Rule},
        plan::{limits::Limits, plan, schedule::Strategy},
    };
    use gru_spec::{GruSpec, Order};

    fn steps_of_launch(n: usize, hidden: usize, coresident_cubes: usize) -> usize {
        let problem = Problem {
            n,
            rule: Rule::new(&GruSpec::default(), Order::default(), hidden, 1e-7),
            limits: Limits {
                units: 256,
                shared_bytes: 32 << 10,
                cubes: 32,
                resident_registers: 48,
                walk_units: 512,
                most_walk_units: 512,
                buffers: 8,
                buffer_bytes: usize::MAX,
                elements: usize::MAX,
                coresident_cubes,
                persistent: true,
                cpu: false,
            },
            matrices: None,
        };
        let plan = plan(Pass::Forward, Strategy::Inferred, &problem).unwrap();
        plan.steps_per_launch(&problem)
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
