//! Cases of `gru-testkit` on the kernels, in slices.
#![allow(dead_code)] // Each test uses a part of it.

use gru_cpu::{
    Element, Gru, Inputs, Stack, StackInputs, StackLayer,
    spec::{self, Checkpointing, Lengths, PerInput, Precision, Sizes},
    testing::Isa,
};
use gru_testkit::{
    case::Case,
    close::{Outcome, Tensors, Tolerance},
    draw::Drawn,
    oracle::{Call, Round},
    passes,
    runs::{Known, Runs, Stop},
};
use std::marker::PhantomData;

/// The rule of the recorded cases for float32, and 1e-7 times as much in float64.
pub const F32: Tolerance = Tolerance::F32;
pub const F64: Tolerance = F32.times(1e-7);

/// What no pass writes.
const UNWRITTEN: f64 = 777.0;

/// A call with all its tensors.
#[derive(Clone, Debug)]
pub struct Problem<E> {
    pub gru: Gru,
    pub lengths: Lengths,
    pub inputs: spec::Inputs<Vec<E>>,
    pub d_states: Vec<E>,
    /// For each row of memory: its row in a padded sequence.
    pub places: Vec<usize>,
    /// For each row of a padded sequence: whether it belongs to a skipped step or is past the end of a row.
    pub is_hidden: Vec<bool>,
}

/// What a call writes.
#[derive(Clone, Debug)]
pub struct Results<E> {
    pub states: Vec<E>,
    pub gates: Vec<E>,
    pub d: PerInput<Option<Vec<E>>>,
}

impl<E: Element> Results<E> {
    /// The results by name, the gradients by the name of their input.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Vec<E>)> {
        let d = self.d.as_ref().named();
        let d = d.filter_map(|(name, d)| Some((name, d.as_ref()?)));
        [("states", &self.states), ("gates", &self.gates)]
            .into_iter()
            .chain(d)
    }

    /// All bits. Two NaNs are equal.
    pub fn bits(&self) -> Vec<(&'static str, Vec<u64>)> {
        let bits = |&v: &E| if v.is_nan() { 1 } else { wide(v).to_bits() };
        let bits = |(name, values): (_, &Vec<E>)| (name, values.iter().map(bits).collect());
        self.named().map(bits).collect()
    }
}

fn wide<E: Element>(v: E) -> f64 {
    v.to_f64().expect("every float is a float64")
}

fn number<E: Element>(v: f64) -> E {
    E::from(v).expect("a float64 is any float")
}

impl<E: Element> Problem<E> {
    /// The problem of a case without special rows.
    pub fn of(words: &str) -> Self {
        Self::new(&Case::new(words).draw())
    }

    /// With lengths, everything past the end of a row is NaN.
    pub fn new(drawn: &Drawn) -> Self {
        let (call, mut inputs) = (&drawn.call, drawn.call.inputs.clone());
        let (sizes, sequence) = (call.sizes, &mut inputs.sequence);
        if let Some(zoneout) = &mut sequence.zoneout
            && zoneout.len() == sizes.places()
        {
            // `[N,T,1]` for the operator.
            *zoneout = zoneout.iter().flat_map(|&v| vec![v; sizes.h]).collect();
        }
        let gru = Gru {
            sizes,
            order: call.order,
            spec: call.spec,
        };
        let mut problem = Problem::dense(gru, inputs, drawn.d_y.clone());
        if let Some(lengths) = &drawn.lengths {
            problem.lengths = Lengths::Padded(lengths[..].into());
            for values in problem.sequences() {
                drawn.fill_skipped(values, f64::NAN);
            }
        }
        problem.cast()
    }

    /// Rows of T steps.
    pub fn dense(gru: Gru, inputs: spec::Inputs<Vec<E>>, d_states: Vec<E>) -> Self {
        let rows = gru.sizes.places();
        let is_hidden = match &inputs.sequence.step_mask {
            Some(valid) => valid.iter().map(|valid| valid.is_zero()).collect(),
            None => vec![false; rows],
        };
        Self {
            gru,
            lengths: Lengths::All,
            inputs,
            d_states,
            places: (0..rows).collect(),
            is_hidden,
        }
    }

    /// The same call in another type.
    pub fn cast<F: Element>(&self) -> Problem<F> {
        let numbers = |values: &Vec<E>| values.iter().map(|&v| number(wide(v))).collect();
        Problem {
            gru: self.gru,
            lengths: self.lengths.clone(),
            inputs: self.inputs.as_ref().map(numbers),
            d_states: numbers(&self.d_states),
            places: self.places.clone(),
            is_hidden: self.is_hidden.clone(),
        }
    }

    /// The tensors with a value for each row of memory.
    fn sequences(&mut self) -> impl Iterator<Item = &mut Vec<E>> {
        let sequence = &mut self.inputs.sequence;
        let optional = [
            &mut sequence.step_mask,
            &mut sequence.starts,
            &mut sequence.zoneout,
        ];
        let all = optional.into_iter().flatten();
        all.chain([&mut sequence.x, &mut self.d_states])
    }

    /// The same batch-major rows without padding.
    pub fn packed(mut self) -> Self {
        let rows = self.places.len();
        self.places.retain(|&place| !self.is_hidden[place]);
        let places = self.places.clone();
        for values in self.sequences() {
            let width = values.len() / rows.max(1);
            let picked = places.iter().flat_map(|at| &values[at * width..][..width]);
            *values = picked.copied().collect();
        }
        self.lengths = Lengths::Packed(self.lengths.of_rows().expect("lengths").into());
        self
    }

    pub fn inputs(&self) -> Inputs<'_, E> {
        self.inputs.as_ref().map(|values| &values[..])
    }

    /// The states of a call that keeps no gates.
    pub fn states(&self) -> Vec<E> {
        let mut states = vec![number(UNWRITTEN); self.d_states.len()];
        self.gru
            .forward_ragged(&self.lengths, &self.inputs(), &mut states, None);
        states
    }

    /// Every result, with gradients from kept or from recomputed gates. The gates of skipped steps are NaN for the
    /// backward pass and in the results.
    pub fn run(&self, is_lean: bool) -> Results<E> {
        let (gru, inputs, lengths) = (&self.gru, self.inputs(), &self.lengths);
        let new = |len: usize| vec![number::<E>(UNWRITTEN); len];
        let mut states = new(self.d_states.len());
        let mut gates = new(self.d_states.len() * gru.spec.saved_per_unit());
        gru.forward_ragged(lengths, &inputs, &mut states, Some(&mut gates));
        let is_same = |(a, b): (&E, &E)| a == b || a.is_nan() && b.is_nan();
        let are_same = states.iter().zip(&self.states()).all(is_same);
        assert!(are_same, "inference and training differ: {gru:?}");
        if let Lengths::All = lengths {
            self.fill_hidden(&mut gates, E::nan());
        }
        let saved = (!is_lean).then_some(&gates[..]);
        let into = |value: f64| {
            let new = |of: &&[E]| vec![number::<E>(value); of.len()];
            let mut d = inputs.differentiable().map(|of| of.map(new));
            let to = d.as_mut().map(|d| d.as_deref_mut());
            gru.backward_ragged(lengths, &inputs, &states, saved, &self.d_states, to);
            d
        };
        let d = into(UNWRITTEN);
        // Every element is written and not read before, so `gradients` may return new memory. Past the end of a row it
        // writes zeros.
        let wanted = d.as_ref().map(Option::is_some);
        let new = gru.gradients_ragged(lengths, &inputs, &states, saved, &self.d_states, wanted);
        let is_ragged = lengths.of_rows().is_some();
        for ((name, d), (of_nan, new)) in
            d.as_ref().named().zip(into(f64::NAN).zip(new).into_array())
        {
            let all = d.iter().flatten().zip(of_nan.iter().flatten());
            for ((d, of_nan), new) in all.zip(new.iter().flatten()) {
                let is_past = name == "x" && is_ragged && *d == number(UNWRITTEN);
                let are_same = is_same((d, of_nan)) && is_same((d, new));
                let is_unwritten = is_past && of_nan.is_nan() && new.is_zero();
                assert!(
                    are_same || is_unwritten,
                    "gradient of {name}: an element is not written, or was read before: {gru:?}"
                );
            }
        }
        Results { states, gates, d }
    }

    /// NaN in x at skipped steps, where it may hold any value.
    pub fn poison_skipped(&mut self) {
        let mut x = std::mem::take(&mut self.inputs.sequence.x);
        self.fill_hidden(&mut x, E::nan());
        self.inputs.sequence.x = x;
    }

    /// The results of the oracle, in float32 with every operation rounded, and with an error in its gates.
    pub fn plain(&self, gate_error: Option<Round>) -> Outcome {
        let call = Call {
            gate_error,
            ..passes::call(&self.gru, &self.inputs())
        };
        let forward = call.forward();
        let d_states: Vec<f64> = self.d_states.iter().copied().map(wide).collect();
        let gradients = forward.gradients(&d_states, &[]);
        let gates = forward.saved(&call);
        Outcome {
            outputs: Tensors::from([("states".into(), forward.y), ("gates".into(), gates)]),
            gradients,
        }
    }

    fn fill_hidden(&self, values: &mut [E], with: E) {
        let width = values.len() / self.is_hidden.len().max(1);
        let rows = self.is_hidden.iter().enumerate();
        for (row, _) in rows.filter(|(_, is_hidden)| **is_hidden) {
            values[row * width..][..width].fill(with);
        }
    }

    /// The results by name. Nothing is written past the end of a row, where states and gradients are zero here, and gates
    /// NaN.
    pub fn outcome(&self, results: &Results<E>) -> Outcome {
        let mut outcome = Outcome::default();
        let (Sizes { i, h, .. }, w_ih) = (self.gru.sizes, &self.inputs.weights.w_ih);
        let features = if w_ih.is_some() { i } else { 3 * h };
        for (name, values) in results.named() {
            let mut values = values.clone();
            let padding = match name {
                _ if matches!(self.lengths, Lengths::All) => None,
                "states" => Some((h, E::zero())),
                "gates" => Some((self.gru.spec.saved_per_unit() * h, E::nan())),
                "x" => Some((features, E::zero())),
                _ => None,
            };
            if let Some((width, padding)) = padding {
                let mut padded = vec![number::<E>(UNWRITTEN); self.is_hidden.len() * width];
                for (at, place) in self.places.iter().enumerate() {
                    let row = &values[at * width..][..width];
                    padded[place * width..][..width].copy_from_slice(row);
                }
                let written = padded.clone();
                self.fill_hidden(&mut padded, number(UNWRITTEN));
                let mut pairs = written.iter().zip(&padded);
                let is_untouched = pairs.all(|(a, b)| a == b || b.is_nan());
                // Without hidden units the whole gradient of x is written.
                assert!(is_untouched || h == 0, "{name} past the end of a row");
                self.fill_hidden(&mut padded, padding);
                values = padded;
            }
            let tensors: &mut Tensors = match name {
                "states" | "gates" => &mut outcome.outputs,
                _ => &mut outcome.gradients,
            };
            tensors.insert(name.into(), values.into_iter().map(wide).collect());
        }
        outcome
    }
}

impl Problem<f32> {
    /// A stack of this layer.
    pub fn stack(&self, precision: Precision) -> Stack {
        let Gru { sizes, order, spec } = self.gru;
        let layer = StackLayer {
            spec,
            direction: order.direction,
            ..StackLayer::new(self.inputs().weights)
        };
        Stack::new(precision, [sizes.i, sizes.h], 1, &[layer])
    }

    /// The inputs of that stack.
    pub fn stack_inputs(&self) -> StackInputs<'_> {
        let sequence = self.inputs().sequence;
        StackInputs {
            state: sequence.h0,
            step_mask: sequence.step_mask,
            starts: sequence.starts,
            start_state: sequence.start_state,
            ..StackInputs::new(sequence.x)
        }
    }

    /// The states of that stack after every step.
    pub fn stack_states(&self, stack: &Stack, inputs: StackInputs<'_>) -> Vec<f32> {
        let Sizes { n, t, h, .. } = self.gru.sizes;
        let (mut y, mut last) = (vec![f32::NAN; n * t * h], vec![f32::NAN; n * h]);
        stack.forward(self.gru.order.layout, [n, t], inputs, &mut y, &mut last);
        y
    }
}

/// A float type on an instruction set, and whether rows of different lengths are packed.
struct Slices<E>(Isa, bool, PhantomData<E>);

impl<E: Element> Runs for Slices<E> {
    fn run(&self, case: &Case, drawn: &Drawn) -> Result<Outcome, Stop> {
        let Self(isa, is_packed, _) = *self;
        let mut problem = Problem::<E>::new(drawn);
        if is_packed {
            problem = problem.packed();
        }
        let is_lean = case.checkpointing == Checkpointing::Recompute;
        let results = isa.run(|| problem.run(is_lean));
        Ok(problem.outcome(&results))
    }
}

/// Both float types on an instruction set, padded and packed.
pub fn check(isa: Isa, known: &Known) -> Result<(), String> {
    let can_pack = known.truth().0.lengths.is_some() && !known.case.has("time");
    for packed in [false, true]
        .into_iter()
        .filter(|packed| !packed || can_pack)
    {
        let single = known.check(&Slices::<f32>(isa, packed, PhantomData), F32);
        let double = known.check(&Slices::<f64>(isa, packed, PhantomData), F64);
        let both = single.and(double);
        both.map_err(|stop| format!("{isa:?}, packed {packed}: {stop:?}"))?;
    }
    Ok(())
}

/// The cases that a call without Burn has.
pub fn known(cases: Vec<Case>) -> Vec<Known> {
    let cases = cases.into_iter().filter(|case| !case.has("start-shared"));
    cases.map(Known::for_kernels).collect()
}
