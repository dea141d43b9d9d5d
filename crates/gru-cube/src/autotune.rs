//! [`Strategy::Tuned`]: CubeCL's autotune times the cuts that a device allows at the first call of a size,
//! and keeps the fastest, in memory and on disk, as it does for Burn's own kernels.

use crate::{
    launch::{self, BackwardInputs, BackwardOutputs, Call, ForwardInputs, ForwardOutputs},
    plan::{
        self, Problem,
        cut::{Cut, Strategy},
        error::PlanError,
    },
};
use cubecl::{
    client::Client,
    server::Handle,
    tune::{LocalTuner, Tunable, TunableSet, local_tuner},
};

/// Cuts that are timed: each is compiled first, which takes longer.
const CANDIDATES: usize = 10;

/// Changes with [`plan::forward_candidates`] and its like: what was kept on disk then means another cut.
const REVISION: usize = 2;

/// A pass, as far as tuning knows it.
trait Pass: Clone + Send + Sync + 'static {
    const NAME: &'static str;
    type Inputs: Clone + Send + Sync + 'static;
    type Outputs: Clone + Send + Sync + 'static;
    /// Which of the optional buffers that decide what is allowed or fast are given.
    fn given(inputs: &Self::Inputs, outputs: &Self::Outputs) -> Vec<bool>;
    /// New buffers to write to, where nobody reads.
    fn scratch(client: &Client, inputs: &Self::Inputs, outputs: &Self::Outputs) -> Self::Outputs;
    fn cuts(problem: &Problem) -> Vec<Cut>;
    fn launch(task: &Task<Self>, strategy: Strategy) -> Result<(), PlanError>;
}

/// A call of a pass with all that it reads and writes.
#[derive(Clone)]
struct Task<P: Pass> {
    client: Client,
    call: Call,
    inputs: P::Inputs,
    outputs: P::Outputs,
    /// It is timed, and its results are thrown away.
    is_rehearsal: bool,
}

impl<P: Pass> Task<P> {
    /// Runs by the fastest cut.
    fn execute(self, tuner: &'static LocalTuner<String, String>) {
        let client = self.client.clone();
        let identity = &client.properties().identity;
        // One card by two compilers has two fastest cuts.
        let device = format!(
            "{} {} {}",
            identity.name,
            identity.fingerprint,
            client.name()
        );
        let set = tuner.init(&device, Self::set);
        tuner.execute(&device, &client, set, self);
    }

    fn set() -> TunableSet<String, Self, ()> {
        let key = |task: &Self| task.key();
        let rehearsal = |_: &String, task: &Self| task.rehearsal();
        (0..CANDIDATES).fold(TunableSet::new(key, rehearsal), |set, index| {
            let run = move |task: Self| task.run(index);
            set.with(Tunable::new(&format!("cut-{REVISION}-{index}"), run))
        })
    }

    /// Pass, sizes and conventions: calls of one key have the same cuts to choose from, and one fastest. From
    /// some steps on T decides nothing.
    fn key(&self) -> String {
        let Call {
            n,
            t,
            h,
            spec,
            dtype,
            order: _,
        } = self.call;
        let (n, t) = (batch(n), t.min(64).next_power_of_two());
        let given = P::given(&self.inputs, &self.outputs);
        let name = P::NAME;
        format!("{name} N{n} T{t} H{h} {:?} {dtype:?} {given:?}", spec.reset)
    }

    fn rehearsal(&self) -> Self {
        Self {
            outputs: P::scratch(&self.client, &self.inputs, &self.outputs),
            is_rehearsal: true,
            ..self.clone()
        }
    }

    /// By the cut of this number.
    fn run(self, index: usize) -> Result<(), String> {
        let launch = |strategy| P::launch(&self, strategy);
        attempt(self.candidate(index), self.is_rehearsal, launch)
    }

    /// The inferred cut first, then the others.
    fn candidate(&self, index: usize) -> Option<Strategy> {
        let Some(index) = index.checked_sub(1) else {
            return Some(Strategy::Inferred);
        };
        let problem = Problem {
            n: batch(self.call.n),
            ..self.call.problem(P::NAME, &self.client)
        };
        P::cuts(&problem).get(index).copied().map(Strategy::Forced)
    }
}

/// Launches a candidate. Where that fails a rehearsal fails, and a call runs by the inferred cut: what was
/// kept on disk may be of another driver, which allowed more.
fn attempt(
    candidate: Option<Strategy>,
    is_rehearsal: bool,
    launch: impl Fn(Strategy) -> Result<(), PlanError>,
) -> Result<(), String> {
    let launch = |strategy| launch(strategy).map_err(|refused| refused.to_string());
    let done = match candidate {
        Some(strategy) => launch(strategy),
        None => Err("there are fewer cuts".to_owned()),
    };
    if is_rehearsal {
        done
    } else {
        done.or_else(|_| launch(Strategy::Inferred))
    }
}

/// N as the keys have it: calls of one key have the same candidates.
fn batch(n: usize) -> usize {
    n.checked_next_power_of_two().unwrap_or(n)
}

fn like(client: &Client, buffer: &Handle) -> Handle {
    client.empty(buffer.size_in_used() as usize)
}

#[derive(Clone)]
struct Forward;

impl Pass for Forward {
    const NAME: &'static str = "gru_cube::forward";
    type Inputs = ForwardInputs;
    type Outputs = ForwardOutputs;

    fn given(inputs: &ForwardInputs, outputs: &ForwardOutputs) -> Vec<bool> {
        vec![
            outputs.gates.is_some(),
            inputs.b_ih.is_some(),
            inputs.b_hh.is_some(),
            inputs.h0.is_some(),
            inputs.recurrent_mask.is_some(),
            inputs.step_mask.is_some(),
            inputs.zoneout.is_some(),
        ]
    }

    fn scratch(client: &Client, _: &ForwardInputs, outputs: &ForwardOutputs) -> ForwardOutputs {
        ForwardOutputs {
            states: like(client, &outputs.states),
            gates: outputs.gates.as_ref().map(|gates| like(client, gates)),
        }
    }

    fn cuts(problem: &Problem) -> Vec<Cut> {
        plan::forward_candidates(problem)
    }

    fn launch(task: &Task<Self>, strategy: Strategy) -> Result<(), PlanError> {
        let Task {
            client,
            call,
            inputs,
            outputs,
            ..
        } = task;
        launch::forward::forward(client, call, inputs, outputs, strategy)
    }
}

#[derive(Clone)]
struct Backward;

impl Pass for Backward {
    const NAME: &'static str = "gru_cube::backward";
    type Inputs = BackwardInputs;
    type Outputs = BackwardOutputs;

    /// A rehearsal is not in place, and has a buffer more: that is not asked for.
    fn given(inputs: &BackwardInputs, _: &BackwardOutputs) -> Vec<bool> {
        vec![
            inputs.h0.is_some(),
            inputs.recurrent_mask.is_some(),
            inputs.step_mask.is_some(),
            inputs.zoneout.is_some(),
        ]
    }

    fn scratch(
        client: &Client,
        inputs: &BackwardInputs,
        outputs: &BackwardOutputs,
    ) -> BackwardOutputs {
        BackwardOutputs {
            // In place it would write over what the next cut reads.
            d_gates: Some(like(client, &inputs.gates)),
            d_h0: like(client, &outputs.d_h0),
        }
    }

    fn cuts(problem: &Problem) -> Vec<Cut> {
        plan::backward_candidates(problem)
    }

    fn launch(task: &Task<Self>, strategy: Strategy) -> Result<(), PlanError> {
        let Task {
            client,
            call,
            inputs,
            outputs,
            ..
        } = task;
        launch::backward::backward(client, call, inputs, outputs, strategy)
    }
}

/// [`launch::forward::forward`] by the fastest cut, where one at least is allowed.
pub(crate) fn forward(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
) {
    static TUNER: LocalTuner<String, String> = local_tuner!("forward");
    let task = Task::<Forward> {
        client: client.clone(),
        call: *call,
        inputs: inputs.clone(),
        outputs: outputs.clone(),
        is_rehearsal: false,
    };
    task.execute(&TUNER);
}

/// [`launch::backward::backward`] by the fastest cut, where one at least is allowed.
pub(crate) fn backward(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
) {
    static TUNER: LocalTuner<String, String> = local_tuner!("backward");
    let task = Task::<Backward> {
        client: client.clone(),
        call: *call,
        inputs: inputs.clone(),
        outputs: outputs.clone(),
        is_rehearsal: false,
    };
    task.execute(&TUNER);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const REFUSED: PlanError = PlanError::TooManyUnits {
        requested: 2,
        available: 1,
    };

    /// What became of a candidate where only the inferred cut runs, and what was launched.
    fn attempted(
        candidate: Option<Strategy>,
        is_rehearsal: bool,
    ) -> (Result<(), String>, Vec<Strategy>) {
        let launched = RefCell::new(Vec::new());
        let launch = |strategy| {
            launched.borrow_mut().push(strategy);
            match strategy {
                Strategy::Inferred => Ok(()),
                _ => Err(REFUSED),
            }
        };
        let done = attempt(candidate, is_rehearsal, launch);
        (done, launched.into_inner())
    }

    #[test]
    fn a_call_whose_cut_is_refused_runs_by_the_inferred_one() {
        let cut = "walk rows=1 width=1 lanes=2 splits=1".parse();
        let forced = Strategy::Forced(cut.unwrap());
        let inferred = Strategy::Inferred;
        assert_eq!(
            attempted(Some(forced), false),
            (Ok(()), vec![forced, inferred])
        );
        assert_eq!(attempted(None, false), (Ok(()), vec![inferred]));
        let refused = Err(REFUSED.to_string());
        assert_eq!(attempted(Some(forced), true), (refused, vec![forced]));
        let (none, launched) = attempted(None, true);
        assert!(none.is_err() && launched.is_empty());
    }
}
