//! Random problems in float64 with views, lengths, masks, starts, packed rows and every other option: the operator
//! gives the results of the oracle. The composed operations that other backends use give these results too.
//!
//! `PROPTEST_CASES` sets the number of problems. `gru-cpu` has property tests of the kernels.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use gru_op::{
    Checkpointing, Direction, GruSpec, GruWeights, Layout, Order, Reset, SequenceOptions, Update,
    composed, gru_packed, gru_sequence_with, pack, unpack,
};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    oracle::{Call, Skipped},
};
use libtest_mimic::{Failed, Trial};
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config, RngSeed, TestRunner},
};

use super::{
    backends::TestBackend,
    runs::{gradient, loss, values},
};

pub fn trials(_: &[TestBackend]) -> Vec<Trial> {
    vec![Trial::test(
        "properties/operator-and-composed-are-the-oracle",
        || {
            let config = Config {
                rng_seed: RngSeed::Fixed(17_091_987),
                failure_persistence: None,
                ..Config::default()
            };
            let run = |problem: Problem| problem.check().map_err(TestCaseError::fail);
            let ran = TestRunner::new(config).run(&problem(), run);
            ran.map_err(|e| Failed::from(e.to_string()))
        },
    )]
}

/// A call with options.
#[derive(Debug, Clone)]
struct Problem {
    sizes: [usize; 4],
    spec: GruSpec,
    order: Order,
    checkpointing: Checkpointing,
    steps: Which,
    /// None, or starts, with a state if true.
    starts: Option<bool>,
    mask: bool,
    /// None, one value for all units, or one for each unit.
    zoneout: Option<bool>,
    projected: bool,
    h0: bool,
    b_ih: bool,
    b_hh: bool,
    views: bool,
    seed: u64,
}

#[derive(Debug, Clone, Copy)]
enum Which {
    All,
    Lengths,
    /// Lengths without padding.
    Packed,
    Holes,
}

fn problem() -> impl Strategy<Value = Problem> {
    // The suite `empty` covers N = 0 and T = 0.
    let size = || prop_oneof![4 => 1..=7usize, 1 => 8..=40usize];
    let t = prop_oneof![8 => 1..=6usize, 1 => 7..=20usize];
    let i = prop_oneof![1 => Just(0usize), 8 => size()];
    let spec = (
        select(vec![Reset::AfterMatmul, Reset::BeforeMatmul]),
        select(vec![Update::Keeps, Update::Takes]),
        select(vec![Layout::BatchMajor, Layout::TimeMajor]),
        select(vec![Direction::Forward, Direction::Reverse]),
        select(vec![Checkpointing::KeepGates, Checkpointing::Recompute]),
    );
    let spec = spec.prop_map(|(reset, update, layout, direction, checkpointing)| {
        let spec = GruSpec::default().with_reset(reset).with_update(update);
        (spec, Order { layout, direction }, checkpointing)
    });
    let steps = select(vec![
        Which::All,
        Which::Lengths,
        Which::Packed,
        Which::Holes,
    ]);
    let starts = any::<Option<bool>>();
    let options = (
        any::<bool>(),
        any::<Option<bool>>(),
        any::<bool>(),
        any::<bool>(),
    );
    let biases = (any::<bool>(), any::<bool>());
    (
        (size(), t, i, size()),
        spec,
        (steps, starts),
        options,
        biases,
        any::<bool>(),
        any::<u64>(),
    )
        .prop_map(
            |(
                (n, t, mut i, h),
                (spec, mut order, checkpointing),
                (steps, mut starts),
                (mask, mut zoneout, projected, h0),
                (b_ih, b_hh),
                views,
                seed,
            )| {
                if t == 1 && order.direction == Direction::Reverse {
                    // A single step has no start before it, so Burn's graph has no gradient of its state.
                    starts = starts.map(|_| false);
                }
                if matches!(steps, Which::Packed) {
                    // These require padding.
                    order.layout = Layout::BatchMajor;
                    (starts, zoneout) = (None, None);
                    // `pack` of no numbers has no gradient.
                    i = i.max(1);
                }
                Problem {
                    sizes: [n, t, i, h],
                    spec,
                    order,
                    checkpointing,
                    steps,
                    starts,
                    mask,
                    zoneout,
                    projected,
                    h0,
                    b_ih,
                    b_hh,
                    views,
                    seed,
                }
            },
        )
}

type Op = fn(Tensor<3>, &GruWeights, &GruSpec, SequenceOptions<2>) -> (Tensor<3>, Tensor<2>);

/// `gru_packed` as an operator over padded rows.
fn packed(
    x: Tensor<3>,
    lengths: &[usize],
    weights: &GruWeights,
    spec: &GruSpec,
    options: SequenceOptions<2>,
) -> (Tensor<3>, Tensor<2>) {
    let [n, t, _] = x.dims();
    let (y, state) = gru_packed(pack(x, lengths), lengths, weights, spec, options);
    let y = unpack(y, lengths);
    let [_, longest, h] = y.dims();
    let end = Tensor::zeros([n, t - longest, h], (&y.device(), y.dtype()));
    (Tensor::cat(vec![y, end], 1), state)
}

impl Problem {
    fn check(&self) -> Result<(), String> {
        for op in [gru_sequence_with as Op, composed::gru_sequence_with] {
            let (got, expected) = self.run(op)?;
            got.compare(&expected, Tolerance::F64)?;
        }
        Ok(())
    }

    /// The results of an operator, and the expected results.
    fn run(&self, op: Op) -> Result<(Outcome, Outcome), String> {
        let [n, t, i, h] = self.sizes;
        let device = Device::flex().autodiff();
        let sequence = |features: usize| match self.order.layout {
            Layout::BatchMajor => [n, t, features],
            Layout::TimeMajor => [t, n, features],
        };
        let mut noise = Noise(self.seed);
        let features = if self.projected { 3 * h } else { i };
        let x = noise.leaf(sequence(features), &device).require_grad();
        let h0 = self.h0.then(|| noise.leaf([n, h], &device).require_grad());
        let w_ih = !self.projected;
        let w_ih = w_ih.then(|| noise.leaf([i, 3 * h], &device).require_grad());
        let w_hh = noise.leaf([h, 3 * h], &device).require_grad();
        let b_ih = self
            .b_ih
            .then(|| noise.leaf([3 * h], &device).require_grad());
        let b_hh = self
            .b_hh
            .then(|| noise.leaf([3 * h], &device).require_grad());
        let mask = self.mask.then(|| noise.leaf([n, h], &device));
        let zoneout = self.zoneout.map(|per_unit| {
            let units = if per_unit { h } else { 1 };
            noise.leaf(sequence(units), &device).abs()
        });
        let d_y = noise.numbers(n * t * h);
        let d_h = noise.numbers(n * h);
        let (padded, lengths, step_mask, skipped) = self.steps(&mut noise, &device);
        let starts = self.starts.map(|_| noise.flags(n * t));
        let start_state =
            (self.starts == Some(true)).then(|| noise.leaf([n, h], &device).require_grad());
        fn optional<const D: usize>(tensor: &Option<Tensor<D>>) -> Option<Vec<f64>> {
            tensor.clone().map(values)
        }
        // Starts past the end of a row have no effect.
        let effective = starts.clone().map(|starts| match (self.steps, &step_mask) {
            (Which::Lengths, Some(valid)) => starts
                .iter()
                .zip(valid)
                .map(|(&start, &valid)| f64::from(start) * valid)
                .collect(),
            _ => numbers(&starts),
        });
        let call = Call {
            h0: optional(&h0),
            w_ih: optional(&w_ih),
            b_ih: optional(&b_ih),
            b_hh: optional(&b_hh),
            order: self.order,
            recurrent_mask: optional(&mask),
            zoneout: optional(&zoneout),
            step_mask,
            skipped,
            starts: effective,
            start_state: optional(&start_state),
            ..Call::new(
                self.spec,
                [n, t, h],
                values(x.clone()),
                values(w_hh.clone()),
            )
        };
        let options = padded
            .state(h0.clone().map(|h0| self.view(h0)))
            .layout(self.order.layout)
            .direction(self.order.direction)
            .checkpointing(self.checkpointing)
            .recurrent_mask(mask)
            .zoneout(zoneout)
            .starts(starts.map(|starts| self.flags(starts, &device)))
            .start_state(start_state.clone());
        let weights = GruWeights::new(w_ih.clone().map(|w| self.view(w)), self.view(w_hh.clone()))
            .with_b_ih(b_ih.clone())
            .with_b_hh(b_hh.clone());
        let (y, h_t) = match self.steps {
            Which::Packed => packed(
                self.view(x.clone()),
                &lengths,
                &weights,
                &self.spec,
                options,
            ),
            _ => op(self.view(x.clone()), &weights, &self.spec, options),
        };
        let gradients = (loss(&y, &d_y) + loss(&h_t, &d_h)).backward();
        let mut named = Tensors::from([("x".into(), gradient("x", &x, &gradients)?)]);
        named.insert("w_hh".into(), gradient("w_hh", &w_hh, &gradients)?);
        for (name, leaf) in [("h0", h0), ("start_state", start_state), ("w_ih", w_ih)] {
            if let Some(leaf) = leaf {
                named.insert(name.into(), gradient(name, &leaf, &gradients)?);
            }
        }
        for (name, leaf) in [("b_ih", b_ih), ("b_hh", b_hh)] {
            if let Some(leaf) = leaf {
                named.insert(name.into(), gradient(name, &leaf, &gradients)?);
            }
        }
        let got = Outcome {
            outputs: Tensors::from([("y".into(), values(y)), ("h_t".into(), values(h_t))]),
            gradients: named,
        };
        Ok((got, call.outcome(&d_y, &d_h)))
    }

    /// The valid steps, for the operator and for the oracle.
    fn steps(
        &self,
        noise: &mut Noise,
        device: &Device,
    ) -> (SequenceOptions<2>, Vec<usize>, Option<Vec<f64>>, Skipped) {
        let options = SequenceOptions::new();
        let [n, t, ..] = self.sizes;
        match self.steps {
            Which::All => (options, vec![], None, Skipped::State),
            Which::Lengths | Which::Packed => {
                let mut lengths: Vec<usize> = (0..n).map(|_| noise.below(t + 1)).collect();
                lengths[n / 2] = lengths[n / 2].max(1);
                let counts = |at: usize| match self.order.layout {
                    Layout::BatchMajor => at % t < lengths[at / t],
                    Layout::TimeMajor => at / n < lengths[at % n],
                };
                let valid = numbers(&(0..n * t).map(counts).collect::<Vec<_>>());
                let options = match self.steps {
                    Which::Packed => options,
                    _ => options.lengths(&lengths),
                };
                (options, lengths, Some(valid), Skipped::Zero)
            }
            Which::Holes => {
                let counts = noise.flags(n * t);
                let valid = numbers(&counts);
                let options = options.mask(self.flags(counts, device));
                (options, vec![], Some(valid), Skipped::Repeats)
            }
        }
    }

    /// Flags in the layout of the call.
    fn flags(&self, flags: Vec<bool>, device: &Device) -> Tensor<2, Bool> {
        let [n, t, ..] = self.sizes;
        let shape = match self.order.layout {
            Layout::BatchMajor => [n, t],
            Layout::TimeMajor => [t, n],
        };
        Tensor::from_data(TensorData::new(flags, shape), device)
    }

    /// The tensor, or a view of it transposed twice if the problem has views.
    fn view<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        if !self.views {
            return tensor;
        }
        let copy = tensor.swap_dims(0, D - 1) * 1.0;
        copy.swap_dims(0, D - 1)
    }
}

fn numbers(flags: &[bool]) -> Vec<f64> {
    flags.iter().map(|&flag| f64::from(flag)).collect()
}

/// Steele, Lea and Flood's splitmix64.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    /// Two of three are true.
    fn flags(&mut self, count: usize) -> Vec<bool> {
        (0..count).map(|_| self.below(3) > 0).collect()
    }

    /// Values in (−1, 1).
    fn numbers(&mut self, count: usize) -> Vec<f64> {
        let one = |_| (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        (0..count).map(one).collect()
    }

    fn leaf<const D: usize>(&mut self, shape: [usize; D], device: &Device) -> Tensor<D> {
        let numbers = self.numbers(shape.iter().product());
        Tensor::from_data(TensorData::new(numbers, shape), (device, DType::F64))
    }
}
