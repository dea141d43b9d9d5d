//! A call with all its tensors, for tests that change one thing and compare everything.
#![allow(dead_code)] // Each test uses a part of it.

use gru_cpu::{
    Element, Gradients, Gru, Inputs, Sequence, Weights,
    spec::{GruSpec, Sizes},
    testing::Isa,
};
use gru_testkit::{
    oracle::{Call, Round},
    passes,
};
use libtest_mimic::{Arguments, Completion, Trial};

/// A name, and a test for an instruction set.
pub type OfIsa = (&'static str, fn(Isa));

/// A trial for each instruction set. Instruction sets that this machine or build does not have are ignored.
pub fn with_each_isa(name: &str, test: fn(Isa)) -> Vec<Trial> {
    let trial = |isa: Isa| {
        let missing = (!isa.is_available()).then(|| format!("{isa:?} is not available"));
        ignorable(format!("{name}::{isa:?}"), missing, move || test(isa))
    };
    Isa::ALL.into_iter().map(trial).collect()
}

/// A trial of the default instruction set, or of several.
pub fn with_any_isa(name: &str, test: fn()) -> Vec<Trial> {
    vec![ignorable(name.into(), None, test)]
}

/// A trial that needs threads.
pub fn with_threads(name: &str, test: fn()) -> Vec<Trial> {
    let missing = cfg!(target_family = "wasm").then(|| "no threads".into());
    vec![ignorable(name.into(), missing, test)]
}

fn ignorable(name: String, missing: Option<String>, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::ignorable_test(name, || {
        if let Some(reason) = missing {
            return Ok(Completion::ignored_with(reason));
        }
        test();
        Ok(Completion::Completed)
    })
}

/// The main function of a test with trials.
pub fn run(trials: impl IntoIterator<Item = Vec<Trial>>) {
    let trials = trials.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// The tensors of a call, in the order of [`Case::tensors`]. The last is the upstream gradient.
pub const TENSORS: [&str; 12] = [
    "x",
    "h0",
    "w_ih",
    "w_hh",
    "b_ih",
    "b_hh",
    "recurrent_mask",
    "step_mask",
    "zoneout",
    "starts",
    "start_state",
    "d_states",
];

/// What a call writes, in the order of [`Case::run`].
pub const RESULTS: [&str; 9] = [
    "states",
    "gates",
    "d_x",
    "d_h0",
    "d_w_ih",
    "d_w_hh",
    "d_b_ih",
    "d_b_hh",
    "d_start_state",
];

/// Every result of a call, in the order of [`RESULTS`].
pub type Results<E> = [Vec<E>; 9];

enum Passes {
    Kernels,
    Oracle,
}

type Forward<E> = fn(&Gru, &Inputs<'_, E>, &mut [E], Option<&mut [E]>);
type Backward<E> = fn(&Gru, &Inputs<'_, E>, &[E], Option<&[E]>, &[E], Gradients<'_, E>);

/// A call and its tensors. Optional tensors may be absent.
#[derive(Clone, Debug)]
pub struct Case<E> {
    pub gru: Gru,
    pub tensors: [Option<Vec<E>>; 12],
}

impl Case<f64> {
    /// Batch-major and forward in time.
    pub fn new(sizes: Sizes, spec: GruSpec, present: &[&str]) -> Self {
        Self::of(Gru::new(sizes, spec), present)
    }

    /// Values that are exact in float32: all within (−1, 1), weights divided by √H, about every third step skipped.
    /// `present` selects the optional tensors.
    pub fn of(gru: Gru, present: &[&str]) -> Self {
        let Sizes { n, t, i, h } = gru.sizes;
        let features = if present.contains(&"w_ih") { i } else { 3 * h };
        let lens = [
            n * t * features,
            n * h,
            i * 3 * h,
            h * 3 * h,
            3 * h,
            3 * h,
            n * h,
            n * t,
            n * t * h,
            n * t,
            n * h,
            n * t * h,
        ];
        let mut seed = 0;
        let tensors = std::array::from_fn(|k| {
            seed += 1;
            let always = ["x", "w_hh", "d_states"].contains(&TENSORS[k]);
            if !always && !present.contains(&TENSORS[k]) {
                return None;
            }
            let scale = match TENSORS[k] {
                "w_ih" | "w_hh" => 1.0 / (h.next_power_of_two() as f64).sqrt().floor(),
                _ => 1.0,
            };
            let noise = noise(lens[k], seed);
            Some(match TENSORS[k] {
                "step_mask" => noise.map(|v| f64::from(v > -0.4)).collect(),
                "starts" => noise.map(|v| f64::from(v > 0.3)).collect(),
                "zoneout" => noise.map(f64::abs).collect(),
                _ => noise.map(|v| f64::from((v * scale) as f32)).collect(),
            })
        });
        Self { gru, tensors }
    }

    /// The same call in another type.
    pub fn cast<E: Element>(&self) -> Case<E> {
        let number = |&v: &f64| E::from(v).expect("a float");
        let cast = |v: &Vec<f64>| v.iter().map(number).collect();
        Case {
            gru: self.gru,
            tensors: self.tensors.each_ref().map(|v| v.as_ref().map(cast)),
        }
    }
}

/// Values in (−1, 1), multiples of 2⁻¹⁶.
fn noise(len: usize, seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 47) as f64 / 65536.0 - 1.0
    })
}

impl Case<f64> {
    /// Every result of the oracle, with an error in its gates.
    pub fn plain_with(&self, error: Round) -> Results<f64> {
        let call = Call {
            gate_error: Some(error),
            ..passes::call(&self.gru, &self.inputs())
        };
        let forward = call.forward();
        let d_states = self.d_states();
        let mut d = forward.gradients(d_states, &[]);
        let saved = passes::saved(&forward, &self.gru);
        let [x, h0, w_ih, w_hh, b_ih, b_hh, start_state] =
            ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh", "start_state"]
                .map(|name| d.remove(name).unwrap_or_default());
        [forward.y, saved, x, h0, w_ih, w_hh, b_ih, b_hh, start_state]
    }
}

impl<E: Element> Case<E> {
    /// A tensor, if it is present.
    pub fn get(&mut self, name: &str) -> Option<&mut Vec<E>> {
        let at = TENSORS.iter().position(|tensor| *tensor == name);
        self.tensors[at.expect("a tensor's name")].as_mut()
    }

    /// A tensor that must be present.
    pub fn tensor(&mut self, name: &str) -> &mut Vec<E> {
        self.get(name).expect("the case has this tensor")
    }

    fn d_states(&self) -> &[E] {
        let d_states = self.tensors[11].as_ref();
        d_states.expect("every case has d_states")
    }

    pub fn inputs(&self) -> Inputs<'_, E> {
        let [
            x,
            h0,
            w_ih,
            w_hh,
            b_ih,
            b_hh,
            recurrent_mask,
            step_mask,
            zoneout,
            starts,
            start_state,
            _,
        ] = self.tensors.each_ref().map(Option::as_deref);
        Inputs {
            sequence: Sequence {
                h0,
                recurrent_mask,
                step_mask,
                zoneout,
                starts,
                start_state,
                ..Sequence::new(x.expect("every case has x"))
            },
            weights: Weights {
                b_ih,
                b_hh,
                ..Weights::new(w_ih, w_hh.expect("every case has w_hh"))
            },
        }
    }

    /// Every result, with gradients from kept or from recomputed gates. Absent results are empty.
    pub fn run(&self, lean: bool) -> Results<E> {
        self.run_by(lean, Passes::Kernels)
    }

    /// The same results from the oracle, in float32 with every operation rounded.
    pub fn plain(&self) -> Results<E> {
        self.run_by(false, Passes::Oracle)
    }

    fn run_by(&self, lean: bool, passes: Passes) -> Results<E> {
        let (forward, backward) = match passes {
            Passes::Kernels => (Gru::forward as Forward<E>, Gru::backward as Backward<E>),
            Passes::Oracle => (
                passes::forward as Forward<E>,
                passes::backward as Backward<E>,
            ),
        };
        let Sizes { n, t, i, h } = self.gru.sizes;
        let units = n * t * h;
        // NaN shows every element that is not written.
        let poison = |len: usize| vec![E::nan(); len];
        let mut states = poison(units);
        let mut gates = poison(units * self.gru.spec.saved_per_unit());
        let inputs = self.inputs();
        forward(&self.gru, &inputs, &mut states, Some(&mut gates));
        let there = [
            true,
            inputs.sequence.h0.is_some(),
            inputs.weights.w_ih.is_some(),
            true,
            inputs.weights.b_ih.is_some(),
            inputs.weights.b_hh.is_some(),
            inputs.sequence.start_state.is_some(),
        ];
        let lens = [
            inputs.sequence.x.len(),
            n * h,
            i * 3 * h,
            h * 3 * h,
            3 * h,
            3 * h,
            n * h,
        ];
        let mut d: [Vec<E>; 7] =
            std::array::from_fn(|k| poison(if there[k] { lens[k] } else { 0 }));
        let [x, h0, w_ih, w_hh, b_ih, b_hh, start_state] =
            d.each_mut().map(|d| Some(d.as_mut_slice()));
        let to = Gradients {
            x,
            h0: h0.filter(|_| there[1]),
            w_ih: w_ih.filter(|_| there[2]),
            w_hh,
            b_ih: b_ih.filter(|_| there[4]),
            b_hh: b_hh.filter(|_| there[5]),
            start_state: start_state.filter(|_| there[6]),
        };
        let kept = (!lean).then_some(gates.as_slice());
        let d_states = self.d_states();
        backward(&self.gru, &inputs, &states, kept, d_states, to);
        let [x, h0, w_ih, w_hh, b_ih, b_hh, start_state] = d;
        [states, gates, x, h0, w_ih, w_hh, b_ih, b_hh, start_state]
    }
}
