//! Both passes of gru-cpu over slices, and properties of the results that hold for any input.

use crate::{
    draw::{self, Numbers, Real},
    panics::announced,
};
use arbitrary::{Result, Unstructured};
use gru_cpu::{
    Gradients, Gru, Inputs, Sequence, Weights,
    spec::{Activation, GruSpec, Sizes},
    testing::Isa,
};
use gru_testkit::passes;
use std::sync::LazyLock;

/// Messages of the checks of sizes and of the spec.
pub const REFUSALS: &[&str] = &[
    "GruSpec: ",
    "has the wrong number of elements",
    "the sizes exceed the address space",
    "but the input is already projected",
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
    /// Which of h0, w_ih, b_ih, b_hh, mask, valid and zoneout are present.
    there: [bool; 7],
    /// Which of the six gradients are requested.
    wanted: [bool; 6],
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
            there: u.arbitrary()?,
            wanted: u.arbitrary()?,
            from: u.int_in_range(0..=3)?,
            wide: u.arbitrary()?,
            numbers: Numbers::draw(u)?,
        })
    }

    /// Runs both passes.
    pub fn run(self) {
        let (isa, pool) = (self.isa, &POOLS[self.threads - 1]);
        announced(REFUSALS, || {
            pool.install(|| {
                isa.run(|| {
                    if self.wide {
                        self.run_in::<f64>([1e-12, 1e-12])
                    } else {
                        self.run_in::<f32>([2e-6, 5e-6])
                    }
                })
            })
        });
    }

    /// The tolerances of states and gradients are the tolerances of `gru_testkit::close`, which explains
    /// them. No case needs more: [`LARGEST_PLAIN_WORK`] limits its sums, and its weights contract.
    fn run_in<E: Real>(mut self, [of_states, of_gradients]: [f64; 2]) {
        let tensors = Tensors::<E>::draw(&self.gru.sizes, &mut self.numbers, self.there[1]);
        let results = Results::of(
            &self,
            Passes::KERNELS,
            &tensors.inputs(self.there),
            &tensors.d_states,
        );
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
        let wide = tensors.widened();
        let expected = Results::of(
            &self,
            Passes::ORACLE,
            &wide.inputs(self.there),
            &wide.d_states,
        );
        agree(of_states, &results.states, &expected.states);
        for (k, expected) in expected.gradients[0].iter().enumerate() {
            agree(of_gradients, &kept[k], expected);
            agree(of_gradients, &lean[k], expected);
        }
    }
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
    let kinks = [gates.reset, gates.update, gates.candidate].map(kinks);
    kinks == [false; 3] && spec.clip_gates.is_none() && spec.clip_state.is_none()
}

/// `|got − expected| ≤ tolerance · max(1, max |expected|)`. Each value is a sum with terms as large as
/// the largest value of its tensor.
fn agree<E: Real>(tolerance: f64, got: &[E], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    let largest = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
    for (k, (got, expected)) in got.iter().zip(expected).enumerate() {
        let got = got.to_f64().expect("a float");
        let error = (got - expected).abs();
        assert!(
            error <= tolerance * largest,
            "{got} at {k}, expected {expected}"
        );
    }
}

/// The inputs of a case.
struct Tensors<E> {
    x: Vec<E>,
    h0: Vec<E>,
    w_ih: Vec<E>,
    w_hh: Vec<E>,
    b_ih: Vec<E>,
    b_hh: Vec<E>,
    mask: Vec<E>,
    valid: Vec<E>,
    take: Vec<E>,
    d_states: Vec<E>,
}

impl<E: Real> Tensors<E> {
    fn draw(sizes: &Sizes, numbers: &mut Numbers, projected: bool) -> Self {
        let Sizes { n, t, i, h } = *sizes;
        let features = if projected { i } else { 3 * h };
        // Then the recurrence contracts, and no sequence is long enough for chaos.
        let scale = 1.0 / (h.max(1) as f64).sqrt();
        let mut take = |count, scale| numbers.take::<E>(count, scale);
        Self {
            x: take(n * t * features, 1.0),
            h0: take(n * h, 1.0),
            w_ih: take(i * 3 * h, scale),
            w_hh: take(h * 3 * h, scale),
            b_ih: take(3 * h, 1.0),
            b_hh: take(3 * h, 1.0),
            mask: take(n * h, 1.0),
            valid: take(n * t, 1.0).into_iter().map(E::round).collect(),
            take: take(n * t * h, 1.0).into_iter().map(E::abs).collect(),
            d_states: take(n * t * h, 1.0),
        }
    }

    fn inputs(&self, there: [bool; 7]) -> Inputs<'_, E> {
        let [h0, w_ih, b_ih, b_hh, mask, valid, take] = there;
        Inputs {
            sequence: Sequence {
                h0: h0.then_some(&self.h0),
                recurrent_mask: mask.then_some(&self.mask),
                step_mask: valid.then_some(&self.valid),
                zoneout: take.then_some(&self.take),
                ..Sequence::new(&self.x)
            },
            weights: Weights {
                b_ih: b_ih.then_some(&self.b_ih),
                b_hh: b_hh.then_some(&self.b_hh),
                ..Weights::new(w_ih.then_some(&self.w_ih), &self.w_hh)
            },
        }
    }

    fn widened(&self) -> Tensors<f64> {
        let wide = |values: &[E]| -> Vec<f64> {
            let values = values.iter().map(|v| v.to_f64().expect("a float"));
            values.collect()
        };
        Tensors {
            x: wide(&self.x),
            h0: wide(&self.h0),
            w_ih: wide(&self.w_ih),
            w_hh: wide(&self.w_hh),
            b_ih: wide(&self.b_ih),
            b_hh: wide(&self.b_hh),
            mask: wide(&self.mask),
            valid: wide(&self.valid),
            take: wide(&self.take),
            d_states: wide(&self.d_states),
        }
    }
}

struct Results<E> {
    states: Vec<E>,
    /// With kept gates, and with recomputed gates. Empty if not requested.
    gradients: [[Vec<E>; 6]; 2],
}

impl<E: Real> Results<E> {
    fn of(case: &Case, passes: Passes<E>, inputs: &Inputs<'_, E>, d_states: &[E]) -> Self {
        let Passes { forward, backward } = passes;
        let (gru, from) = (&case.gru, case.from);
        let Sizes { n, t, i, h } = gru.sizes;
        let mut states = Output::new(n * t * h, from);
        let mut saved = Output::new(n * t * h * gru.spec.saved_per_unit(), from);
        forward(gru, inputs, states.slice(), Some(saved.slice()));
        let mut inference = Output::new(n * t * h, from);
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
            let sizes = [
                inputs.sequence.x.len(),
                n * h,
                i * 3 * h,
                h * 3 * h,
                3 * h,
                3 * h,
            ];
            let mut outputs = sizes.map(|size| Output::new(size, from));
            let mut wanted = case.wanted.iter();
            let [x, h0, w_ih, w_hh, b_ih, b_hh] = outputs
                .each_mut()
                .map(|output| wanted.next().filter(|w| **w).map(|_| output.slice()));
            let to = Gradients {
                x,
                h0,
                w_ih,
                w_hh,
                b_ih,
                b_hh,
            };
            backward(gru, inputs, &states, saved, d_states, to);
            let mut wanted = case.wanted.iter();
            outputs.map(|output| match wanted.next() {
                Some(true) => output.written(),
                _ => Vec::new(),
            })
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
