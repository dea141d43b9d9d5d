//! The kernels that are inferred for a device.

use super::{Compiled, bench::Bench};
use crate::{
    kernel::{
        recompute::Part,
        rule::{Pass, Rule, Starts, ZoneoutKind},
    },
    plan::{self, Plan, Problem, limits::Limits, schedule::Strategy},
};
use gru_spec::{GruSpec, Reset};

impl Bench {
    /// Every kernel in the form that is inferred for a device. The sizes lead to sequence kernels with and
    /// without a resident weight, to step kernels, and to persistent kernels as if the device had multiprocessors.
    pub fn every_variant(&self, limits: Limits) -> Vec<Compiled> {
        let mut all = Vec::new();
        for (reset, given, clip, starts) in [
            (Reset::AfterMatmul, true, Some(0.5), Starts::None),
            (Reset::AfterMatmul, false, None, Starts::None),
            (Reset::BeforeMatmul, true, Some(0.5), Starts::None),
            (Reset::AfterMatmul, true, None, Starts::FromState),
            (Reset::BeforeMatmul, true, None, Starts::FromZeros),
        ] {
            let spec = GruSpec::default().with_reset(reset).with_clip_gates(clip);
            let rule = Rule {
                zoneout: if given {
                    ZoneoutKind::OfUnit
                } else {
                    ZoneoutKind::None
                },
                starts,
                ..self.rule(&spec, 33)
            };
            let parts: &[Part] = match reset {
                Reset::AfterMatmul => &[Part::All],
                Reset::BeforeMatmul => &[Part::ResetAndUpdate, Part::Candidate],
            };
            for &part in parts {
                all.push(self.gates(rule, part, given));
            }
            for (n, hidden, coresident_cubes) in [
                (1, 33, 0),
                (256, 64, 0),
                (64, 128, 0),
                (256, 200, 0),
                (64, 512, 0),
                // Persistent kernels: too few rows for matrix units, and enough.
                (4, 512, 32),
                (64, 1024, 132),
            ] {
                let problem = Problem {
                    n,
                    rule: Rule { hidden, ..rule },
                    limits: Limits {
                        coresident_cubes,
                        ..limits
                    },
                    matrices: self.matrices,
                };
                all.extend(self.both_passes(Strategy::Inferred, &problem, given));
            }
        }
        all.push(self.transpose());
        all.push(self.share());
        all.push(self.recurrent_inputs(true, Starts::None));
        all.push(self.recurrent_inputs(false, Starts::None));
        all.push(self.recurrent_inputs(true, Starts::FromState));
        all
    }

    pub fn both_passes(&self, strategy: Strategy, problem: &Problem, given: bool) -> Vec<Compiled> {
        let mut all = Vec::new();
        for pass in [Pass::Forward, Pass::Backward] {
            let steps = match plan::plan(pass, strategy, problem).unwrap() {
                Plan::Sequence(sequence) => {
                    all.push(self.sequence(pass, sequence, given));
                    continue;
                }
                Plan::Steps(steps) => steps,
            };
            let launches = steps.launches();
            match pass {
                Pass::Forward => all.extend(launches.map(|steps| self.forward_step(steps, given))),
                Pass::Backward => {
                    all.extend(launches.map(|steps| self.backward_step(steps, given, false)));
                    all.push(self.backward_step(steps.end(), given, true));
                }
            }
        }
        all
    }
}
