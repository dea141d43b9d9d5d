//! The hand-written backward pass against central differences of the forward pass, in float64, for every option of
//! a call, with kept and with recomputed gates.

use gru_cpu::{
    Gradients, Gru, Inputs, Sequence, Weights,
    spec::{Activation, Activations, Direction, GruSpec, Layout, Order, Reset, Sizes, Update},
};

/// A small deterministic source of values in (−1, 1): splitmix64.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn vec(&mut self, len: usize) -> Vec<f64> {
        (0..len).map(|_| self.next()).collect()
    }
}

#[derive(Clone, Copy, Debug)]
struct Options {
    h0: bool,
    w_ih: bool,
    b_ih: bool,
    b_hh: bool,
    mask: bool,
    valid: bool,
    take: bool,
    starts: bool,
}

const ALL: Options = Options {
    h0: true,
    w_ih: true,
    b_ih: true,
    b_hh: true,
    mask: false,
    valid: false,
    take: false,
    starts: false,
};

/// Owned inputs: x, h0, w_ih, w_hh, b_ih, b_hh, start state, mask, valid, take, starts.
struct Case {
    gru: Gru,
    options: Options,
    tensors: [Vec<f64>; 11],
}

const NAMES: [&str; 7] = ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh", "start_state"];

impl Case {
    fn new(sizes: Sizes, spec: GruSpec, options: Options) -> Self {
        Self::of(Gru::new(sizes, spec), options)
    }

    fn of(gru: Gru, options: Options) -> Self {
        let Sizes { n, t, i, h } = gru.sizes;
        let mut noise = Noise(7);
        let features = if options.w_ih { i } else { 3 * h };
        let mut tensors = [
            n * t * features,
            n * h,
            i * 3 * h,
            h * 3 * h,
            3 * h,
            3 * h,
            n * h,
            n * h,
            n * t,
            n * t * h,
            n * t,
        ]
        .map(|len| noise.vec(len));
        tensors[7].iter_mut().for_each(|m| *m = m.abs() * 2.0);
        for flags in [8, 10] {
            let flags = tensors[flags].iter_mut();
            flags.for_each(|v| *v = f64::from(*v > -0.4));
        }
        tensors[9].iter_mut().for_each(|v| *v = v.abs());
        Self {
            gru,
            options,
            tensors,
        }
    }

    fn inputs(&self) -> Inputs<'_, f64> {
        let [
            x,
            h0,
            w_ih,
            w_hh,
            b_ih,
            b_hh,
            start_state,
            mask,
            valid,
            take,
            starts,
        ] = &self.tensors;
        let o = self.options;
        Inputs {
            sequence: Sequence {
                h0: o.h0.then_some(h0),
                recurrent_mask: o.mask.then_some(mask),
                step_mask: o.valid.then_some(valid),
                zoneout: o.take.then_some(take),
                starts: o.starts.then_some(starts),
                start_state: o.starts.then_some(start_state),
                ..Sequence::new(x)
            },
            weights: Weights {
                b_ih: o.b_ih.then_some(b_ih),
                b_hh: o.b_hh.then_some(b_hh),
                ..Weights::new(o.w_ih.then_some(w_ih), w_hh)
            },
        }
    }

    fn loss(&self, up: &[f64]) -> f64 {
        let mut states = vec![f64::NAN; up.len()];
        self.gru.forward(&self.inputs(), &mut states, None);
        states.iter().zip(up).map(|(y, d)| y * d).sum()
    }

    fn check(mut self) {
        for lean in [false, true] {
            self.check_mode(lean);
        }
    }

    fn check_mode(&mut self, lean: bool) {
        let mode = if lean { "lean" } else { "kept" };
        let id = format!("{mode} {:?} {:?}", self.gru, self.options);
        let size = self.gru.sizes.rows() * self.gru.sizes.h;
        let up = Noise(99).vec(size);
        // Buffers of NaN show every element that is not written.
        let mut states = vec![f64::NAN; size];
        let mut saved = vec![f64::NAN; size * self.gru.spec.saved_per_unit()];
        self.gru
            .forward(&self.inputs(), &mut states, Some(&mut saved));
        let mut grads: [Vec<f64>; 7] =
            std::array::from_fn(|k| vec![f64::NAN; self.tensors[k].len()]);
        let present = [
            true,
            self.options.h0,
            self.options.w_ih,
            true,
            self.options.b_ih,
            self.options.b_hh,
            self.options.starts,
        ];
        {
            let [x, h0, w_ih, w_hh, b_ih, b_hh, start_state] = &mut grads;
            let to = Gradients {
                x: Some(x),
                h0: self.options.h0.then_some(h0.as_mut_slice()),
                w_ih: self.options.w_ih.then_some(w_ih.as_mut_slice()),
                w_hh: Some(w_hh),
                b_ih: self.options.b_ih.then_some(b_ih.as_mut_slice()),
                b_hh: self.options.b_hh.then_some(b_hh.as_mut_slice()),
                start_state: self.options.starts.then_some(start_state.as_mut_slice()),
            };
            self.gru
                .backward(&self.inputs(), &states, (!lean).then_some(&saved), &up, to);
        }

        for (which, name) in NAMES.iter().enumerate().filter(|(k, _)| present[*k]) {
            for (k, &written) in grads[which].iter().enumerate() {
                let at = self.tensors[which][k];
                let mut differ = |d: f64| {
                    let mut loss = |v: f64| {
                        self.tensors[which][k] = v;
                        self.loss(&up)
                    };
                    let numeric = (loss(at + d) - loss(at - d)) / (2.0 * d);
                    self.tensors[which][k] = at;
                    (numeric - written).abs() / numeric.abs().max(1.0)
                };
                // The error of a difference is d² times the third derivative, plus 1e-16/d. The finer
                // difference is for a kink (relu, a clip) within the first step.
                let (coarse, fine) = (differ(1e-5), differ(1e-7));
                assert!(
                    coarse < 1e-7 || fine < 1e-6,
                    "{id}: gradient of {name}[{k}] = {written} is off by {coarse}, {fine}"
                );
            }
        }
    }
}

fn every_rule(mut f: impl FnMut(GruSpec, Order)) {
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        for update in [Update::Keeps, Update::Takes] {
            for layout in [Layout::BatchMajor, Layout::TimeMajor] {
                for direction in [Direction::Forward, Direction::Reverse] {
                    let spec = GruSpec::default().with_reset(reset).with_update(update);
                    f(spec, Order { layout, direction });
                }
            }
        }
    }
}

const SMALL: Sizes = Sizes {
    n: 3,
    t: 4,
    i: 2,
    h: 3,
};

#[test]
fn every_rule_layout_and_direction() {
    every_rule(|spec, order| {
        let gru = Gru::new(SMALL, spec);
        Case::of(Gru { order, ..gru }, ALL).check();
    });
}

#[test]
fn one_step_one_row_one_unit() {
    for (n, t, i, h) in [(1, 1, 1, 1), (2, 1, 3, 2), (1, 5, 1, 2), (4, 2, 1, 1)] {
        every_rule(|spec, order| {
            let gru = Gru::new(Sizes { n, t, i, h }, spec);
            Case::of(Gru { order, ..gru }, ALL).check();
        });
    }
}

#[test]
fn every_option_absent_or_present() {
    for bits in 0..256 {
        let bit = |k: u32| bits >> k & 1 == 1;
        let options = Options {
            h0: bit(0),
            w_ih: bit(1),
            b_ih: bit(2),
            b_hh: bit(3),
            mask: bit(4),
            valid: bit(5),
            take: bit(6),
            starts: bit(7),
        };
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            let spec = GruSpec::default().with_reset(reset);
            Case::new(SMALL, spec, options).check();
            let order = Order {
                layout: Layout::TimeMajor,
                direction: Direction::Reverse,
            };
            let gru = Gru::new(SMALL, spec.with_update(Update::Takes));
            Case::of(Gru { order, ..gru }, options).check();
        }
    }
}

#[test]
fn activations_and_clips() {
    let (alpha, beta) = (0.7, 0.3);
    let sets = [
        [
            Activation::HardSigmoid { alpha, beta },
            Activation::Softsign,
            Activation::Elu { alpha },
        ],
        [
            Activation::Tanh,
            Activation::Affine { alpha, beta },
            Activation::ScaledTanh { alpha, beta },
        ],
        [
            Activation::LeakyRelu { alpha: 0.1 },
            Activation::Sigmoid,
            Activation::Softplus,
        ],
        [
            Activation::Softplus,
            Activation::ThresholdedRelu { alpha: 0.2 },
            Activation::Relu,
        ],
        [
            Activation::Sigmoid,
            Activation::Sigmoid,
            Activation::Identity,
        ],
    ];
    for [reset, update, candidate] in sets {
        for (clip_gates, clip_state) in [(None, None), (Some(0.6), None), (None, Some(0.4))] {
            every_rule(|spec, order| {
                let spec = spec
                    .with_activations(Activations {
                        reset,
                        update,
                        candidate,
                    })
                    .with_clip_gates(clip_gates)
                    .with_clip_state(clip_state);
                let gru = Gru::new(SMALL, spec);
                Case::of(Gru { order, ..gru }, ALL).check();
            });
        }
    }
}

#[test]
fn empty_batch_and_empty_sequence_give_zero_gradients() {
    for (n, t) in [(0, 3), (2, 0)] {
        let case = Case::new(Sizes { n, t, i: 2, h: 3 }, GruSpec::default(), ALL);
        let mut d_w = vec![f64::NAN; 27];
        let to = Gradients {
            w_hh: Some(&mut d_w),
            ..Gradients::default()
        };
        case.gru.backward(&case.inputs(), &[], None, &[], to);
        assert!(d_w.iter().all(|&d| d == 0.0));
    }
}

#[test]
#[should_panic(expected = "gru_cpu::Gru::forward: w_hh has the wrong number of elements")]
fn a_short_weight_is_refused() {
    let mut case = Case::new(SMALL, GruSpec::default(), ALL);
    case.tensors[3].pop();
    case.loss(&[0.0; 36]);
}
