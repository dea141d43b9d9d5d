//! A call with all its tensors, for tests that change one thing and compare everything.
#![allow(dead_code)] // Each test uses a part of it.

use gru_cpu::{
    Element, Gradients, Gru, Inputs,
    spec::{Direction, GruSpec, Layout, Lengths, NAMES, Order, Reset, Sizes, Update},
};
use gru_testkit::{
    close::close,
    oracle::{Call, Round},
    passes,
    random::SplitMix64,
};
use std::ops::Index;

/// The tensors of a call, in the order of [`Case::tensors`]: all inputs, and last the upstream gradient.
pub const TENSORS: [&str; NAMES.len() + 1] = {
    let mut all = ["d_states"; NAMES.len() + 1];
    all.split_at_mut(NAMES.len()).0.copy_from_slice(&NAMES);
    all
};

/// What a call writes.
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

/// Every result of a call, by its name in [`RESULTS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Results<E>(pub [Vec<E>; 9]);

impl<E> Index<&str> for Results<E> {
    type Output = Vec<E>;

    fn index(&self, name: &str) -> &Vec<E> {
        let at = RESULTS.iter().position(|result| *result == name);
        &self.0[at.expect("a result's name")]
    }
}

/// Every reset, update, layout and direction.
pub fn rules() -> Vec<(GruSpec, Order)> {
    let mut all = Vec::new();
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        for update in [Update::Keeps, Update::Takes] {
            for layout in [Layout::BatchMajor, Layout::TimeMajor] {
                for direction in [Direction::Forward, Direction::Reverse] {
                    let spec = GruSpec::default().with_reset(reset).with_update(update);
                    all.push((spec, Order { layout, direction }));
                }
            }
        }
    }
    all
}

/// The row of memory of a row of the batch at a time.
pub fn place(gru: &Gru, row: usize, time: usize) -> usize {
    match gru.order.layout {
        Layout::BatchMajor => row * gru.sizes.t + time,
        Layout::TimeMajor => time * gru.sizes.n + row,
    }
}

/// 42 units of the last place: in float32, 5e-6.
pub fn units<E: Element>() -> [f64; 2] {
    [42.0 * E::epsilon().to_f64().expect("a float"); 2]
}

/// [`close`], with a tolerance of states and gates, and one of gradients.
#[track_caller]
pub fn agree<E: Element>(id: &str, tolerance: [f64; 2], got: &Results<E>, expected: &Results<f64>) {
    let are_finite = expected.0.iter().flatten().all(|v| v.is_finite());
    assert!(are_finite, "{id}: a number to expect is not finite");
    agree_in_kind(id, tolerance, got, expected);
}

/// [`agree`], also of numbers that are not finite.
#[track_caller]
pub fn agree_in_kind<E: Element>(
    id: &str,
    tolerance: [f64; 2],
    got: &Results<E>,
    expected: &Results<f64>,
) {
    for name in RESULTS {
        let got = got[name].iter().map(|v| v.to_f64().expect("a float"));
        let tolerance = tolerance[usize::from(name.starts_with("d_"))];
        let close = close(name, &got.collect::<Vec<_>>(), &expected[name], tolerance);
        close.unwrap_or_else(|error| panic!("{id}: {error}"));
    }
}

/// A call and its tensors. Optional tensors may be absent.
#[derive(Clone, Debug)]
pub struct Case<E> {
    pub gru: Gru,
    tensors: [Option<Vec<E>>; TENSORS.len()],
}

impl Case<f64> {
    /// Batch-major and forward in time.
    pub fn new(sizes: Sizes, spec: GruSpec, present: &[&str]) -> Self {
        Self::of(Gru::new(sizes, spec), present)
    }

    /// Values that are exact in float32: all within (−1, 1), weights divided by √H, about every third step skipped.
    /// `present` selects the optional tensors.
    pub fn of(gru: Gru, present: &[&str]) -> Self {
        let h = gru.sizes.h;
        let shapes = gru.sizes.shapes(gru.order.layout);
        let tensors = std::array::from_fn(|k| {
            let name = TENSORS[k];
            let always = ["x", "w_hh", "d_states"].contains(&name);
            if !always && !present.contains(&name) {
                return None;
            }
            let len = match name {
                "x" if !present.contains(&"w_ih") => gru.sizes.rows() * 3 * h,
                "d_states" => gru.sizes.rows() * h,
                _ => shapes.named().find(|(of, _)| *of == name)?.1.elements(),
            };
            let scale = match name {
                "w_ih" | "w_hh" => 1.0 / (h.next_power_of_two() as f64).sqrt().floor(),
                _ => 1.0,
            };
            let noise = noise(len, k as u64 + 1);
            Some(match name {
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

/// Values in [−1, 1) that are exact in float32.
fn noise(len: usize, seed: u64) -> impl Iterator<Item = f64> {
    let mut random = SplitMix64(seed);
    (0..len).map(move |_| random.uniform(1.0))
}

impl<E: Element> Case<E> {
    /// A tensor, to read.
    pub fn part(&self, name: &str) -> Option<&[E]> {
        let at = TENSORS.iter().position(|tensor| *tensor == name);
        self.tensors[at.expect("a tensor's name")].as_deref()
    }

    /// A tensor, to add or to remove.
    pub fn slot(&mut self, name: &str) -> &mut Option<Vec<E>> {
        let at = TENSORS.iter().position(|tensor| *tensor == name);
        &mut self.tensors[at.expect("a tensor's name")]
    }

    /// A tensor, if it is present.
    pub fn get(&mut self, name: &str) -> Option<&mut Vec<E>> {
        self.slot(name).as_mut()
    }

    /// A tensor that must be present.
    pub fn tensor(&mut self, name: &str) -> &mut Vec<E> {
        self.get(name).expect("the case has this tensor")
    }

    pub fn d_states(&self) -> &[E] {
        self.part("d_states").expect("every case has d_states")
    }

    pub fn inputs(&self) -> Inputs<'_, E> {
        let slots = NAMES.map(|name| self.part(name));
        Inputs::from_slots(slots).expect("every case has x and w_hh")
    }

    /// NaN in x at skipped steps, where it may hold any value.
    pub fn poison_skipped(&mut self) {
        let mut x = std::mem::take(self.tensor("x"));
        self.fill_skipped(&mut x, E::nan());
        *self.tensor("x") = x;
    }

    /// Fills a tensor with a value for each row and step at skipped steps.
    fn fill_skipped(&self, values: &mut [E], with: E) {
        let valid = self.part("step_mask").unwrap_or_default();
        let width = values.len() / valid.len().max(1);
        for (row, _) in valid.iter().enumerate().filter(|(_, v)| v.is_zero()) {
            values[row * width..][..width].fill(with);
        }
    }

    /// The states of a call that keeps no gates.
    pub fn states(&self) -> Vec<E> {
        let mut states = vec![E::nan(); self.d_states().len()];
        self.gru.forward(&self.inputs(), &mut states, None);
        states
    }

    /// Every result, with gradients from kept or from recomputed gates. Absent results are empty. The gates of skipped
    /// steps, which have no meaning, are NaN for the backward pass, and zero in the results.
    pub fn run(&self, lean: bool) -> Results<E> {
        let (gru, inputs) = (&self.gru, self.inputs());
        // NaN shows every element that is not written.
        self.run_by(
            lean,
            E::nan(),
            |states, gates| gru.forward(&inputs, states, gates),
            |states, gates, up, to| gru.backward(&inputs, states, gates, up, to),
        )
    }

    /// [`run`](Self::run) for rows of different lengths. What is not written stays `unwritten`.
    pub fn run_ragged(&self, lengths: &Lengths, lean: bool, unwritten: E) -> Results<E> {
        let (gru, inputs) = (&self.gru, self.inputs());
        self.run_by(
            lean,
            unwritten,
            |states, gates| gru.forward_ragged(lengths, &inputs, states, gates),
            |states, gates, up, to| gru.backward_ragged(lengths, &inputs, states, gates, up, to),
        )
    }

    fn run_by(
        &self,
        lean: bool,
        unwritten: E,
        forward: impl Fn(&mut [E], Option<&mut [E]>),
        backward: impl Fn(&[E], Option<&[E]>, &[E], Gradients<'_, E>),
    ) -> Results<E> {
        let new = |len: usize| vec![unwritten; len];
        let d_states = self.d_states();
        let [mut states, mut inference] = [(); 2].map(|()| new(d_states.len()));
        let mut gates = new(d_states.len() * self.gru.spec.saved_per_unit());
        forward(&mut states, Some(&mut gates));
        forward(&mut inference, None);
        let is_same = |(a, b): (&E, &E)| a == b || a.is_nan() && b.is_nan();
        let are_same = states.iter().zip(&inference).all(is_same);
        assert!(are_same, "inference and training differ: {:?}", self.gru);
        self.fill_skipped(&mut gates, E::nan());
        let inputs = self.inputs();
        let mut d = inputs.differentiable().map(|of| of.map(|of| new(of.len())));
        let to = d.as_mut().map(|d| d.as_deref_mut());
        backward(&states, (!lean).then_some(&gates), d_states, to);
        self.fill_skipped(&mut gates, E::zero());
        let [x, h0, w_ih, w_hh, b_ih, b_hh, start_state] =
            d.map(Option::unwrap_or_default).into_array();
        Results([states, gates, x, h0, w_ih, w_hh, b_ih, b_hh, start_state])
    }

    /// The same results from the oracle, in float32 with every operation rounded.
    pub fn plain(&self) -> Results<E> {
        self.plain_with(None)
    }

    /// [`plain`](Self::plain) with an error in its gates.
    pub fn plain_with(&self, gate_error: Option<Round>) -> Results<E> {
        let call = Call {
            gate_error,
            ..passes::call(&self.gru, &self.inputs())
        };
        let forward = call.forward();
        let d_states = self.d_states().iter().map(|v| v.to_f64().expect("a float"));
        let mut d = forward.gradients(&d_states.collect::<Vec<_>>(), &[]);
        let [x, h0, w_ih, w_hh, b_ih, b_hh, start_state] =
            ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh", "start_state"]
                .map(|name| d.remove(name).unwrap_or_default());
        let gates = forward.saved(&call);
        let y = forward.y;
        let number = |v: f64| E::from(v).expect("a float64 is any float");
        let mut all = [y, gates, x, h0, w_ih, w_hh, b_ih, b_hh, start_state]
            .map(|of| of.into_iter().map(number).collect::<Vec<E>>());
        self.fill_skipped(&mut all[1], E::zero());
        Results(all)
    }
}
