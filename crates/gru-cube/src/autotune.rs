//! [`Strategy::Tuned`]: CubeCL's autotune times the cuts that a device allows at the first call of a size,
//! and keeps the fastest, in memory and on disk, as it does for Burn's own kernels.

use crate::{
    cut::{Cut, Strategy},
    error::PlanError,
    launch::{self, BackwardInputs, BackwardOutputs, Call, ForwardInputs, ForwardOutputs},
    plan::{self, Problem},
};
use cubecl::{
    client::Client,
    server::Handle,
    tune::{LocalTuner, Tunable, TunableSet, local_tuner},
};
use std::fmt::Write;

/// Cuts that are timed: each is compiled first, which takes longer.
const CANDIDATES: usize = 10;

/// Changes with [`plan::forward_candidates`] and its like: what was kept on disk then means another cut.
const REVISION: usize = 1;

/// A call of a pass with all that it reads and writes.
trait Pass: Clone + Send + Sync + 'static {
    fn client(&self) -> &Client;
    /// Pass, sizes and conventions: calls of one key have one fastest cut.
    fn key(&self) -> String;
    /// The cut of this number; none if there are fewer.
    fn candidate(&self, index: usize) -> Option<Strategy>;
    /// The same call that writes nowhere where somebody reads.
    fn rehearsal(&self) -> Self;
    fn run(self, strategy: Strategy) -> Result<(), PlanError>;
}

/// Runs a call by its fastest cut.
fn execute<P: Pass>(tuner: &'static LocalTuner<String, String>, pass: P) {
    let identity = &pass.client().properties().identity;
    let device = format!("{} {}", identity.name, identity.fingerprint);
    let client = pass.client().clone();
    let set = tuner.init(&device, set::<P>);
    tuner.execute(&device, &client, set, pass);
}

fn set<P: Pass>() -> TunableSet<String, P, ()> {
    let key = |pass: &P| pass.key();
    let rehearsal = |_: &String, pass: &P| pass.rehearsal();
    let cut = |index: usize| {
        let run = move |pass: P| {
            let strategy = pass.candidate(index).ok_or("there are fewer cuts")?;
            pass.run(strategy).map_err(|refused| refused.to_string())
        };
        Tunable::new(&format!("cut-{REVISION}-{index}"), run)
    };
    (0..CANDIDATES).fold(TunableSet::new(key, rehearsal), |set, index| {
        set.with(cut(index))
    })
}

/// N as the keys have it: calls of one key have the same candidates.
fn batch(n: usize) -> usize {
    n.checked_next_power_of_two().unwrap_or(n)
}

/// What both passes put into their keys. From some steps on T decides nothing.
fn key(pass: &str, call: &Call, given: &[bool]) -> String {
    let Call {
        n,
        t,
        h,
        spec,
        dtype,
    } = call;
    let (n, t) = (batch(*n), t.min(&64).next_power_of_two());
    let mut key = format!("{pass} N{n} T{t} H{h} {:?} {dtype:?} ", spec.reset);
    for &given in given {
        let _ = write!(key, "{}", u8::from(given));
    }
    key
}

/// The inferred cut first, then the others.
fn candidate(
    index: usize,
    call: &Call,
    client: &Client,
    cuts: fn(&Problem) -> Vec<Cut>,
) -> Option<Strategy> {
    let Some(index) = index.checked_sub(1) else {
        return Some(Strategy::Inferred);
    };
    let problem = Problem {
        n: batch(call.n),
        ..call.problem("gru_cube", client)
    };
    cuts(&problem).get(index).copied().map(Strategy::Forced)
}

#[derive(Clone)]
struct Forward {
    client: Client,
    call: Call,
    inputs: ForwardInputs,
    outputs: ForwardOutputs,
}

impl Pass for Forward {
    fn client(&self) -> &Client {
        &self.client
    }

    fn key(&self) -> String {
        let inputs = &self.inputs;
        let given = [
            self.outputs.gates.is_some(),
            inputs.b_ih.is_some(),
            inputs.b_hh.is_some(),
            inputs.h0.is_some(),
            inputs.mask.is_some(),
            inputs.valid.is_some(),
        ];
        key("forward", &self.call, &given)
    }

    fn candidate(&self, index: usize) -> Option<Strategy> {
        candidate(index, &self.call, &self.client, plan::forward_candidates)
    }

    fn rehearsal(&self) -> Self {
        let empty = |like: &Handle| self.client.empty(like.size_in_used() as usize);
        Self {
            outputs: ForwardOutputs {
                states: empty(&self.outputs.states),
                gates: self.outputs.gates.as_ref().map(empty),
            },
            ..self.clone()
        }
    }

    fn run(self, strategy: Strategy) -> Result<(), PlanError> {
        launch::forward(
            &self.client,
            &self.call,
            &self.inputs,
            &self.outputs,
            strategy,
        )
    }
}

#[derive(Clone)]
struct Backward {
    client: Client,
    call: Call,
    inputs: BackwardInputs,
    outputs: BackwardOutputs,
}

impl Pass for Backward {
    fn client(&self) -> &Client {
        &self.client
    }

    fn key(&self) -> String {
        let inputs = &self.inputs;
        // A rehearsal is not in place, and has a buffer more.
        let given = [
            inputs.h0.is_some(),
            inputs.mask.is_some(),
            inputs.valid.is_some(),
        ];
        key("backward", &self.call, &given)
    }

    fn candidate(&self, index: usize) -> Option<Strategy> {
        candidate(index, &self.call, &self.client, plan::backward_candidates)
    }

    fn rehearsal(&self) -> Self {
        let empty = |like: &Handle| self.client.empty(like.size_in_used() as usize);
        Self {
            outputs: BackwardOutputs {
                // In place it would write over what the next cut reads.
                d_gates: Some(empty(&self.inputs.gates)),
                d_h0: empty(&self.outputs.d_h0),
            },
            ..self.clone()
        }
    }

    fn run(self, strategy: Strategy) -> Result<(), PlanError> {
        launch::backward(
            &self.client,
            &self.call,
            &self.inputs,
            &self.outputs,
            strategy,
        )
    }
}

/// [`launch::forward`] by the fastest cut, where one at least is allowed.
pub(crate) fn forward(
    client: &Client,
    call: &Call,
    inputs: &ForwardInputs,
    outputs: &ForwardOutputs,
) {
    static TUNER: LocalTuner<String, String> = local_tuner!("forward");
    let pass = Forward {
        client: client.clone(),
        call: *call,
        inputs: inputs.clone(),
        outputs: outputs.clone(),
    };
    execute(&TUNER, pass);
}

/// [`launch::backward`] by the fastest cut, where one at least is allowed.
pub(crate) fn backward(
    client: &Client,
    call: &Call,
    inputs: &BackwardInputs,
    outputs: &BackwardOutputs,
) {
    static TUNER: LocalTuner<String, String> = local_tuner!("backward");
    let pass = Backward {
        client: client.clone(),
        call: *call,
        inputs: inputs.clone(),
        outputs: outputs.clone(),
    };
    execute(&TUNER, pass);
}
