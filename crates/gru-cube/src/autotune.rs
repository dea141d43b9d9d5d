//! [`Strategy::Tuned`]: CubeCL's autotune measures the schedules that a device allows at the first call of a
//! size. It stores the fastest in memory and on disk, as for Burn's own kernels.

use crate::{
    kernel::rule::Pass,
    launch::{self, BackwardInputs, BackwardOutputs, Call, ForwardInputs, ForwardOutputs},
    plan::{self, Problem, error::PlanError, limits::Limits, schedule::Strategy},
};
use cubecl::{
    client::Client,
    server::Handle,
    tune::{LocalTuner, Tunable, TunableSet, local_tuner},
};

/// Schedules that are measured. Compiling each takes longer than its measurement.
const CANDIDATES: usize = 10;

/// Must change with [`plan::candidates`], because results on disk then mean other schedules.
const REVISION: usize = 4;

/// The buffers of a call.
#[derive(Clone)]
pub(crate) enum Buffers {
    Forward(ForwardInputs, ForwardOutputs),
    Backward(BackwardInputs, BackwardOutputs),
}

/// Runs a call by the fastest schedule. At least the inferred one must be allowed.
pub(crate) fn run(client: &Client, call: &Call, buffers: Buffers) {
    static FORWARD: LocalTuner<String, String> = local_tuner!("forward");
    static BACKWARD: LocalTuner<String, String> = local_tuner!("backward");
    let tuner = match buffers {
        Buffers::Forward(..) => &FORWARD,
        Buffers::Backward(..) => &BACKWARD,
    };
    let identity = &client.properties().identity;
    // With another compiler a device may have another fastest schedule.
    let device = format!(
        "{} {} {}",
        identity.name,
        identity.fingerprint,
        client.name()
    );
    let task = Task {
        client: client.clone(),
        call: *call,
        buffers,
        is_trial: false,
    };
    let set = tuner.init(&device, Task::set);
    tuner.execute(&device, client, set, task);
}

#[derive(Clone)]
struct Task {
    client: Client,
    call: Call,
    buffers: Buffers,
    /// The call is measured, and its results are not used.
    is_trial: bool,
}

impl Task {
    fn set() -> TunableSet<String, Self, ()> {
        let key = |task: &Self| task.key();
        let trial = |_: &String, task: &Self| task.trial();
        (0..CANDIDATES).fold(TunableSet::new(key, trial), |set, index| {
            let run = move |task: Self| task.run(index);
            set.with(Tunable::new(&format!("schedule-{REVISION}-{index}"), run))
        })
    }

    fn pass(&self) -> (Pass, &'static str) {
        match self.buffers {
            Buffers::Forward(..) => (Pass::Forward, "gru_cube::forward"),
            Buffers::Backward(..) => (Pass::Backward, "gru_cube::backward"),
        }
    }

    /// Pass, sizes and conventions. Calls with the same key have the same candidates, and one of them is the
    /// fastest for all. T only matters up to 64.
    fn key(&self) -> String {
        let Call {
            n,
            t,
            h,
            spec,
            starts,
            dtype,
            order: _,
            self_test: _,
        } = self.call;
        let (n, t) = (batch(n), t.min(64).next_power_of_two());
        let given = match &self.buffers {
            Buffers::Forward(inputs, outputs) => vec![
                outputs.gates.is_some(),
                inputs.b_ih.is_some(),
                inputs.b_hh.is_some(),
                inputs.h0.is_some(),
                inputs.recurrent_mask.is_some(),
                inputs.step_mask.is_some(),
                inputs.zoneout.is_some(),
            ],
            // A trial always has a buffer for `d_gates`.
            Buffers::Backward(inputs, _) => vec![
                inputs.h0.is_some(),
                inputs.recurrent_mask.is_some(),
                inputs.step_mask.is_some(),
                inputs.zoneout.is_some(),
            ],
        };
        let name = self.pass().1;
        let reset = spec.reset;
        // A recorded graph has no persistent candidates.
        let persistent = Limits::of(&self.client).coresident_cubes > 0;
        format!("{name} N{n} T{t} H{h} {reset:?} {starts:?} {dtype:?} {given:?} {persistent}")
    }

    /// The same call with new output buffers.
    fn trial(&self) -> Self {
        let like = |buffer: &Handle| self.client.empty(buffer.size_in_used() as usize);
        let buffers = match &self.buffers {
            Buffers::Forward(inputs, outputs) => {
                let outputs = ForwardOutputs {
                    states: like(&outputs.states),
                    gates: outputs.gates.as_ref().map(like),
                };
                Buffers::Forward(inputs.clone(), outputs)
            }
            Buffers::Backward(inputs, outputs) => {
                let outputs = BackwardOutputs {
                    // Gradients must not overwrite the gates that the next trial reads.
                    d_gates: Some(like(&inputs.gates)),
                    d_h0: like(&outputs.d_h0),
                };
                Buffers::Backward(inputs.clone(), outputs)
            }
        };
        Self {
            buffers,
            is_trial: true,
            ..self.clone()
        }
    }

    /// Runs the candidate of this number.
    fn run(self, index: usize) -> Result<(), String> {
        attempt(self.candidate(index), self.is_trial, |strategy| {
            let Self { client, call, .. } = &self;
            match &self.buffers {
                Buffers::Forward(inputs, outputs) => {
                    launch::forward::forward(client, call, inputs, outputs, strategy)
                }
                Buffers::Backward(inputs, outputs) => {
                    launch::backward::backward(client, call, inputs, outputs, strategy)
                }
            }
        })
    }

    /// The inferred schedule first, then the others.
    fn candidate(&self, index: usize) -> Option<Strategy> {
        let Some(index) = index.checked_sub(1) else {
            return Some(Strategy::Inferred);
        };
        let (pass, name) = self.pass();
        let problem = Problem {
            n: batch(self.call.n),
            ..self.call.problem(name, &self.client)
        };
        let schedules = plan::candidates(pass, &problem);
        schedules.get(index).copied().map(Strategy::Forced)
    }
}

/// Launches a candidate. If that fails, a trial fails and a call uses the inferred schedule: the results on
/// disk may come from another driver, which allowed more.
fn attempt(
    candidate: Option<Strategy>,
    is_trial: bool,
    launch: impl Fn(Strategy) -> Result<(), PlanError>,
) -> Result<(), String> {
    let launch = |strategy| launch(strategy).map_err(|error| error.to_string());
    let done = match candidate {
        Some(strategy) => launch(strategy),
        None => Err("there are fewer candidates".to_owned()),
    };
    if is_trial {
        done
    } else {
        done.or_else(|_| launch(Strategy::Inferred))
    }
}

/// N in the keys. Calls with the same key have the same candidates.
fn batch(n: usize) -> usize {
    n.checked_next_power_of_two().unwrap_or(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::error::Resource;
    use std::cell::RefCell;

    const NOT_ALLOWED: PlanError = PlanError::BeyondLimit {
        resource: Resource::Units,
        requested: 2,
        available: 1,
    };

    /// Result and launches of a candidate if only the inferred schedule runs.
    fn attempted(
        candidate: Option<Strategy>,
        is_trial: bool,
    ) -> (Result<(), String>, Vec<Strategy>) {
        let launched = RefCell::new(Vec::new());
        let launch = |strategy| {
            launched.borrow_mut().push(strategy);
            match strategy {
                Strategy::Inferred => Ok(()),
                _ => Err(NOT_ALLOWED),
            }
        };
        let done = attempt(candidate, is_trial, launch);
        (done, launched.into_inner())
    }

    #[test]
    fn a_call_whose_schedule_fails_uses_the_inferred_one() {
        let schedule = "walk rows=1 width=1 n_threads=2 k_splits=1".parse();
        let forced = Strategy::Forced(schedule.unwrap());
        let inferred = Strategy::Inferred;
        assert_eq!(
            attempted(Some(forced), false),
            (Ok(()), vec![forced, inferred])
        );
        assert_eq!(attempted(None, false), (Ok(()), vec![inferred]));
        let failed = Err(NOT_ALLOWED.to_string());
        assert_eq!(attempted(Some(forced), true), (failed, vec![forced]));
        let (none, launched) = attempted(None, true);
        assert!(none.is_err() && launched.is_empty());
    }
}
