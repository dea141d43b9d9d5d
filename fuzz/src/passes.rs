//! Both passes of gru-cpu over slices, and properties of the results that hold for any input.

use crate::{
    draw::{self, Numbers, Real},
    panics::announced,
};
use arbitrary::{Result, Unstructured};
use gru_cpu::{
    Gradients, Gru, Inputs,
    spec::{self, Activation, GruSpec, NAMES, PerInput, Shape, Sizes},
    testing::Isa,
};
use gru_testkit::{close::close, passes};
use std::sync::LazyLock;

/// Messages of the checks of sizes and of the spec.
pub const REFUSALS: &[&str] = &[
    "GruSpec: ",
    "has the wrong number of elements",
    "the sizes exceed the address space",
    "but the input is already projected",
    "start_state requires starts",
];

/// The oracle, which is a hundred times slower, also runs up to this many multiply-adds.
const LARGEST_ORACLE_WORK: usize = 1 << 16;

type Forward<E> = fn(&Gru, &Inputs<'_, E>, &mut [E], Option<&mut [E]>);
type Backward<E> = fn(&Gru, &Inputs<'_, E>, &[E], Option<&[E]>, &[E], Gradients<'_, E>);

/// The kernels, or the oracle.
struct Passes<E: Real> {
    forward: Forward<E>,
    backward: Backward<E>,
}

impl<E: Real> Passes<E> {
    const KERNELS: Self = Self {
        forward: Gru::forward::<E>,
        backward: Gru::backward::<E>,
    };
    const ORACLE: Self = Self {
        forward: passes::forward::<E>,
        backward: passes::backward::<E>,
    };
}

/// One call of each pass.
#[derive(Debug)]
pub struct Case {
    gru: Gru,
    isa: Isa,
    threads: usize,
    /// Which inputs are present.
    there: [bool; 11],
    /// Which gradients are requested.
    wanted: [bool; 7],
    /// Offsets of the slices in their allocations.
    from: usize,
    numbers: Numbers,
    wide: bool,
}

/// Pools of one, two and three threads.
static POOLS: LazyLock<[rayon::ThreadPool; 3]> = LazyLock::new(|| {
    [1, 2, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a pool")
    })
});

impl Case {
    /// Draws a case.
    pub fn draw(u: &mut Unstructured<'_>) -> Result<Self> {
        let sizes = draw::sizes(u)?;
        Ok(Self {
            gru: draw::gru(u, sizes)?,
            isa: draw::isa(u)?,
            threads: u.int_in_range(1..=3)?,
            there: draw::there(u)?,
            wanted: u.arbitrary()?,
            from: u.int_in_range(0..=3)?,
            wide: u.arbitrary()?,
            numbers: Numbers::draw(u)?,
        })
    }

    /// Runs both passes.
    pub fn run(self) {
        let (isa, pool) = (self.isa, &POOLS[self.threads - 1]);
        let run = || {
            if self.wide {
                self.run_in::<f64>([1e-12, 1e-12])
            } else {
                self.run_in::<f32>([2e-6, 5e-6])
            }
        };
        // The pool runs it on another thread.
        pool.install(|| announced(REFUSALS, || isa.run(run)));
    }

    /// The tolerances of states and gradients are the tolerances of `gru_testkit::close`, which explains
    /// them. No case needs more: [`LARGEST_ORACLE_WORK`] limits its sums, and its weights contract.
    fn run_in<E: Real>(mut self, [of_states, of_gradients]: [f64; 2]) {
        let inputs = self.inputs::<E>();
        let states = self.states();
        let d_states = self.numbers.take::<E>(states, 1.0);
        let results = Results::of(&self, Passes::KERNELS, &inputs, &d_states);
        if !self.numbers.are_moderate() || !is_bounded(&self.gru.spec) {
            return;
        }
        let all = results.gradients.iter().flatten().chain([&results.states]);
        for (k, tensor) in all.enumerate() {
            assert!(tensor.iter().all(|v| v.is_finite()), "result {k}");
        }
        if !is_smooth(&self.gru.spec) || draw::work(&self.gru.sizes) > LARGEST_ORACLE_WORK {
            return;
        }
        let [kept, lean] = &results.gradients;
        let inputs = inputs.map(|tensor| wide(&tensor));
        let expected = Results::of(&self, Passes::ORACLE, &inputs, &wide(&d_states));
        let agree = |name: &str, got: &[E], expected: &[f64], tolerance: f64| {
            close(name, &wide(got), expected, tolerance).unwrap_or_else(|error| panic!("{error}"));
        };
        agree("states", &results.states, &expected.states, of_states);
        for ((name, expected), k) in NAMES.iter().zip(&expected.gradients[0]).zip(0..) {
            agree(name, &kept[k], expected, of_gradients);
            agree(name, &lean[k], expected, of_gradients);
        }
    }

    /// The shapes of all inputs, present or not.
    fn shapes(&self) -> spec::Inputs<Shape> {
        let Gru { sizes, order, .. } = self.gru;
        let mut shapes = sizes.shapes(order.layout);
        if !self.there[draw::W_IH] {
            shapes.sequence.x = sizes.sequence(order.layout, 3 * sizes.h);
        }
        shapes
    }

    /// The number of elements of the states.
    fn states(&self) -> usize {
        let Sizes { n, t, h, .. } = self.gru.sizes;
        n * t * h
    }

    /// Draws the inputs that are present.
    fn inputs<E: Real>(&mut self) -> spec::Inputs<Vec<E>> {
        // Then the recurrence contracts, and no sequence is long enough for chaos.
        let contracting = 1.0 / (self.gru.sizes.h.max(1) as f64).sqrt();
        let shapes = self.shapes();
        let mut tensors = shapes.named().map(|(name, shape)| {
            let scale = match name {
                "w_ih" | "w_hh" => contracting,
                // A sixth of the steps begins a sequence.
                "starts" => 0.6,
                _ => 1.0,
            };
            let values = self.numbers.take::<E>(shape.elements(), scale);
            let values = values.into_iter();
            match name {
                "step_mask" | "starts" => values.map(E::round).collect(),
                "zoneout" => values.map(E::abs).collect(),
                _ => values.collect(),
            }
        });
        let slots = self.there.map(|there| tensors.next().filter(|_| there));
        spec::Inputs::from_slots(slots).expect("x and w_hh are present")
    }
}

fn wide<E: Real>(values: &[E]) -> Vec<f64> {
    let values = values.iter().map(|v| v.to_f64().expect("a float"));
    values.collect()
}

/// Whether states and gradients stay small if all inputs are small.
fn is_bounded(spec: &GruSpec) -> bool {
    let gates = spec.activations;
    let small = |values: &[f64]| values.iter().all(|v| v.abs() <= 1.0);
    let bounded = |activation| match activation {
        Activation::Sigmoid | Activation::Tanh | Activation::Softsign => true,
        Activation::HardSigmoid { alpha, beta } => small(&[alpha, beta]),
        _ => false,
    };
    bounded(gates.reset)
        && bounded(gates.candidate)
        && bounded(gates.update)
        && !matches!(gates.update, Activation::Tanh | Activation::Softsign)
}

/// Whether a rounding error of an input changes each result by a similar amount only.
fn is_smooth(spec: &GruSpec) -> bool {
    let gates = spec.activations;
    let kinks = |activation| matches!(activation, Activation::HardSigmoid { .. });
    let kinks = gates.into_array().map(kinks);
    kinks == [false; 3] && spec.clip_gates.is_none() && spec.clip_state.is_none()
}

struct Results<E> {
    states: Vec<E>,
    /// With kept gates, and with recomputed gates. Empty if not requested.
    gradients: [[Vec<E>; 7]; 2],
}

impl<E: Real> Results<E> {
    fn of(case: &Case, passes: Passes<E>, inputs: &spec::Inputs<Vec<E>>, d_states: &[E]) -> Self {
        let Passes { forward, backward } = passes;
        let (gru, from, count) = (&case.gru, case.from, case.states());
        let inputs = &inputs.as_ref().map(Vec::as_slice);
        let mut states = Output::new(count, from);
        let mut saved = Output::new(count * gru.spec.saved_per_unit(), from);
        forward(gru, inputs, states.slice(), Some(saved.slice()));
        let mut inference = Output::new(count, from);
        forward(gru, inputs, inference.slice(), None);
        let skips = inputs
            .sequence
            .step_mask
            .is_some_and(|v| v.iter().any(|v| v.is_zero()));
        if !skips {
            saved.written();
        }
        let (states, inference) = (states.written(), inference.written());
        let same = |(a, b): (&E, &E)| a == b || a.is_nan() && b.is_nan();
        assert!(
            states.iter().zip(&inference).all(same),
            "training differs from inference"
        );

        let saved = saved.slice();
        let gradients = [Some(&*saved), None].map(|saved| {
            let wanted = PerInput::from_array(case.wanted);
            let mut outputs = case.shapes().differentiable().map(|shape| {
                let shape = shape.expect("every input has a shape");
                Output::new(shape.elements(), from)
            });
            let to = outputs.as_mut().zip(wanted);
            let to = to.map(|(output, wanted)| wanted.then(|| output.slice()));
            backward(gru, inputs, &states, saved, d_states, to);
            let written = |(output, wanted): (Output<E>, bool)| {
                if wanted { output.written() } else { Vec::new() }
            };
            outputs.zip(wanted).map(written).into_array()
        });
        Self { states, gradients }
    }
}

/// The output buffer of a pass.
struct Output<E> {
    all: Vec<E>,
    from: usize,
}

impl<E: Real> Output<E> {
    /// An unwritten buffer with an offset in its allocation.
    fn new(len: usize, from: usize) -> Self {
        let all = vec![E::UNWRITTEN; from + len];
        Self { all, from }
    }

    fn slice(&mut self) -> &mut [E] {
        &mut self.all[self.from..]
    }

    /// The written values. Checks that all of them are written, and nothing before them.
    fn written(&self) -> Vec<E> {
        let (before, slice) = self.all.split_at(self.from);
        assert!(
            before.iter().all(|v| v.is_unwritten()),
            "written before the slice"
        );
        assert!(!slice.iter().any(|v| v.is_unwritten()), "not written");
        slice.to_vec()
    }
}
