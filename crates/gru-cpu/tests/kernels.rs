//! Every instruction set, each forced, against the float64 oracle: states, saved gates and every gradient, from saved
//! and from recomputed gates. The sizes do not fill a vector or a tile, and the buffers start as NaN.

mod support;

use gru_cpu::{
    Element, Gradients, Gru, Inputs, Sequence, Weights,
    spec::{Activations, Direction, GruSpec, Layout, Order, Reset, Sizes, Update},
    testing::Isa,
};
use gru_testkit::{activations::ACTIVATIONS, passes};
use support::{OfIsa, with_any_isa, with_each_isa, with_threads};

fn main() {
    let of_isas: [OfIsa; 6] = [
        ("odd_sizes", odd_sizes),
        ("no_inputs_at_all", no_inputs_at_all),
        (
            "every_rule_layout_and_direction",
            every_rule_layout_and_direction,
        ),
        (
            "masks_skipped_steps_zoneout_starts_and_projected_inputs",
            masks_skipped_steps_zoneout_starts_and_projected_inputs,
        ),
        (
            "uncommon_activations_and_clips",
            uncommon_activations_and_clips,
        ),
        ("long_sequences", long_sequences),
    ];
    let of_isas = of_isas.map(|(name, test)| with_each_isa(name, test));
    let others = [
        with_any_isa(
            "this_machine_has_more_than_one",
            this_machine_has_more_than_one,
        ),
        with_threads("threads", threads),
        with_threads("calls_at_once_share_a_pool", calls_at_once_share_a_pool),
    ];
    support::run(of_isas.into_iter().chain(others));
}

const NAMES: [&str; 9] = [
    "states",
    "saved",
    "x",
    "h0",
    "w_ih",
    "w_hh",
    "b_ih",
    "b_hh",
    "start_state",
];

/// States, saved gates, and the seven gradients, with and without saved gates.
type Results<E> = [[Vec<E>; 9]; 2];

/// Which inputs are present.
#[derive(Clone, Copy, Debug)]
struct Options {
    h0: bool,
    w_ih: bool,
    biases: bool,
    mask: bool,
    valid: bool,
    take: bool,
    starts: bool,
    start_state: bool,
}

const ALL: Options = Options {
    h0: true,
    w_ih: true,
    biases: true,
    mask: false,
    valid: false,
    take: false,
    starts: false,
    start_state: false,
};

/// Values in (−1, 1), equal in both types: multiples of 2⁻¹⁶.
fn noise<E: Element>(len: usize, seed: u64) -> Vec<E> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 47) as f64 / 65536.0 - 1.0
    };
    let mut one = || E::from(next()).expect("a float");
    (0..len).map(|_| one()).collect()
}

type Forward<E> = fn(&Gru, &Inputs<'_, E>, &mut [E], Option<&mut [E]>);
type Backward<E> = fn(&Gru, &Inputs<'_, E>, &[E], Option<&[E]>, &[E], Gradients<'_, E>);

fn run<E: Element>(gru: &Gru, options: Options) -> Results<E> {
    run_as(gru, options, false)
}

/// The same results from the oracle, in float64.
fn expected(gru: &Gru, options: Options) -> Results<f64> {
    run_as(gru, options, true)
}

fn run_as<E: Element>(gru: &Gru, options: Options, by_definition: bool) -> Results<E> {
    let Sizes { n, t, i, h } = gru.sizes;
    let scale = E::from(1.0 / (h as f64).sqrt()).expect("a float");
    let weights = |len, seed| -> Vec<E> {
        let noise = noise::<E>(len, seed);
        noise.into_iter().map(|w| w * scale).collect()
    };
    let features = if options.w_ih { i } else { 3 * h };
    let (mut x, h0) = (noise::<E>(n * t * features, 1), noise::<E>(n * h, 2));
    let (w_ih, w_hh) = (weights(i * 3 * h, 3), weights(h * 3 * h, 4));
    let (b_ih, b_hh) = (weights(3 * h, 5), weights(3 * h, 6));
    let mask = noise::<E>(n * h, 8);
    let flags = |seed, least: E| -> Vec<E> {
        let noise = noise::<E>(n * t, seed).into_iter();
        noise
            .map(|v| if v > least { E::one() } else { E::zero() })
            .collect()
    };
    let starts = flags(11, scale / (E::one() + E::one()));
    let start_state = noise::<E>(n * h, 12);
    let take: Vec<E> = noise::<E>(n * t * h, 10).into_iter().map(E::abs).collect();
    let valid = flags(9, E::zero() - scale);
    if options.valid && !by_definition {
        // The padding of a sequence may hold any value.
        for (row, _) in valid.iter().enumerate().filter(|(_, v)| **v == E::zero()) {
            x[row * features..][..features].fill(E::nan());
        }
    }
    let inputs = Inputs {
        sequence: Sequence {
            h0: options.h0.then_some(&h0),
            recurrent_mask: options.mask.then_some(&mask),
            step_mask: options.valid.then_some(&valid),
            zoneout: options.take.then_some(&take),
            starts: options.starts.then_some(&starts),
            start_state: options.start_state.then_some(&start_state),
            ..Sequence::new(&x)
        },
        weights: Weights {
            b_ih: options.biases.then_some(&b_ih),
            b_hh: options.biases.then_some(&b_hh),
            ..Weights::new(options.w_ih.then_some(&w_ih), &w_hh)
        },
    };
    let (forward, backward) = if by_definition {
        (
            passes::forward as Forward<E>,
            passes::backward as Backward<E>,
        )
    } else {
        (Gru::forward as Forward<E>, Gru::backward as Backward<E>)
    };
    let nan = |len: usize| vec![E::nan(); len];
    let width = h * gru.spec.saved_per_unit();
    let mut states = nan(n * t * h);
    let mut saved = nan(n * t * width);
    forward(gru, &inputs, &mut states, Some(&mut saved));
    let mut inference = nan(n * t * h);
    forward(gru, &inputs, &mut inference, None);
    assert!(inference == states, "inference and training differ");
    let skipped = valid.iter().enumerate().filter(|(_, v)| **v == E::zero());
    let skipped: Vec<usize> = skipped.map(|(row, _)| row).collect();
    if options.valid && !by_definition {
        // The gates of the padding may hold any value too.
        for row in &skipped {
            saved[row * width..][..width].fill(E::nan());
        }
    }
    let up = noise::<E>(n * t * h, 7);
    let gradients = |saved: Option<&[E]>| {
        let lens = [x.len(), n * h, i * 3 * h, h * 3 * h, 3 * h, 3 * h, n * h];
        let mut d = lens.map(nan);
        let [dx, dh0, dw_ih, dw_hh, db_ih, db_hh, d_start] = &mut d;
        let to = Gradients {
            x: Some(dx),
            h0: options.h0.then_some(dh0.as_mut_slice()),
            w_ih: options.w_ih.then_some(dw_ih.as_mut_slice()),
            w_hh: Some(dw_hh),
            b_ih: options.biases.then_some(db_ih.as_mut_slice()),
            b_hh: options.biases.then_some(db_hh.as_mut_slice()),
            start_state: options.start_state.then_some(d_start.as_mut_slice()),
        };
        backward(gru, &inputs, &states, saved, &up, to);
        let there = [
            true,
            options.h0,
            options.w_ih,
            true,
            options.biases,
            options.biases,
            options.start_state,
        ];
        for (d, there) in d.iter_mut().zip(there) {
            if !there {
                d.clear();
            }
        }
        d
    };
    let [kept, lean] = [gradients(Some(&saved)), gradients(None)];
    if options.valid {
        // Skipped gates have no meaning.
        for row in &skipped {
            saved[row * width..][..width].fill(E::zero());
        }
    }
    [kept, lean].map(|[x, h0, w_ih, w_hh, b_ih, b_hh, start_state]| {
        let (states, saved) = (states.clone(), saved.clone());
        [states, saved, x, h0, w_ih, w_hh, b_ih, b_hh, start_state]
    })
}

/// `|got − expected| ≤ tol · max(1, max |expected|)`: the rule of the recorded cases. `tol` is 2e-6 for outputs and
/// 5e-6 for gradients in float32, and 1e-7 times as much in float64.
fn agree<E: Element>(id: &str, scale: f64, got: &Results<E>, expected: &Results<f64>) {
    let [kept, _] = expected;
    for (k, (got, expected)) in got.iter().flatten().zip(kept.iter().cycle()).enumerate() {
        let (mode, k) = (["kept", "lean"][k / NAMES.len()], k % NAMES.len());
        assert_eq!(got.len(), expected.len(), "{id}: {mode} {}", NAMES[k]);
        let largest = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        let allowed = scale * if k < 2 { 2e-6 } else { 5e-6 } * largest;
        for (at, (&got, &expected)) in got.iter().zip(expected).enumerate() {
            let error = (got.to_f64().expect("a float") - expected).abs();
            assert!(
                error <= allowed,
                "{id}: {mode} {}[{at}] = {:?}, expected {expected} to {allowed}",
                NAMES[k],
                got.to_f64()
            );
        }
    }
}

fn compare(isa: Isa, sizes: Sizes, spec: GruSpec, options: Options) {
    compare_in(isa, Gru::new(sizes, spec), options);
}

fn compare_in(isa: Isa, gru: Gru, options: Options) {
    let expected = expected(&gru, options);
    let id = format!("{gru:?} {options:?}");
    let single = isa.run(|| run::<f32>(&gru, options));
    agree(&id, 1.0, &single, &expected);
    let double = isa.run(|| run::<f64>(&gru, options));
    agree(&id, 1e-7, &double, &expected);
}

fn resets() -> [GruSpec; 2] {
    [Reset::AfterMatmul, Reset::BeforeMatmul].map(|reset| GruSpec::default().with_reset(reset))
}

fn rules() -> Vec<(GruSpec, Order)> {
    let mut all = Vec::new();
    for spec in resets() {
        for update in [Update::Keeps, Update::Takes] {
            for layout in [Layout::BatchMajor, Layout::TimeMajor] {
                for direction in [Direction::Forward, Direction::Reverse] {
                    all.push((spec.with_update(update), Order { layout, direction }));
                }
            }
        }
    }
    all
}

fn this_machine_has_more_than_one() {
    assert!(Isa::Scalar.is_available());
    let wanted = cfg!(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_feature = "simd128"
    ));
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    assert!(
        !wanted || available.count() > 1,
        "only the scalar path is tested"
    );
}

fn odd_sizes(isa: Isa) {
    for h in [1, 3, 7, 15, 16, 17, 33, 65] {
        for n in [1, 5, 13] {
            for t in [1, 2, 3, 4, 7] {
                for spec in resets() {
                    compare(isa, Sizes { n, t, i: 2, h }, spec, ALL);
                }
            }
        }
    }
}

fn no_inputs_at_all(isa: Isa) {
    for spec in resets() {
        let (n, t, i, h) = (5, 3, 0, 17);
        compare(isa, Sizes { n, t, i, h }, spec, ALL);
    }
}

fn every_rule_layout_and_direction(isa: Isa) {
    for (n, t, i, h) in [(11, 6, 5, 35), (2, 3, 1, 9)] {
        for (spec, order) in rules() {
            let gru = Gru::new(Sizes { n, t, i, h }, spec);
            for (h0, biases) in [(true, true), (false, true), (true, false)] {
                let options = Options { h0, biases, ..ALL };
                compare_in(isa, Gru { order, ..gru }, options);
            }
        }
    }
}

fn masks_skipped_steps_zoneout_starts_and_projected_inputs(isa: Isa) {
    let sizes = Sizes {
        n: 6,
        t: 5,
        i: 3,
        h: 21,
    };
    for (spec, order) in rules() {
        for bits in 0..128 {
            let (starts, start_state) = (bits & 32 == 0, bits & 64 == 0);
            if start_state && !starts {
                continue;
            }
            let options = Options {
                h0: bits & 1 == 0,
                w_ih: bits & 2 == 0,
                mask: bits & 4 == 0,
                valid: bits & 8 == 0,
                take: bits & 16 == 0,
                starts,
                start_state,
                ..ALL
            };
            let gru = Gru { sizes, order, spec };
            compare_in(isa, gru, options);
        }
    }
}

fn uncommon_activations_and_clips(isa: Isa) {
    // Each activation as every gate.
    let all = ACTIVATIONS;
    let sets = (0..all.len()).map(|k| [0, 4, 8].map(|gate| all[(k + gate) % all.len()]));
    for [reset, update, candidate] in sets {
        let activations = Activations {
            reset,
            update,
            candidate,
        };
        for (gates, state) in [(None, None), (Some(0.6), None), (None, Some(0.4))] {
            for spec in resets() {
                let spec = spec.with_activations(activations);
                let spec = spec.with_clip_gates(gates).with_clip_state(state);
                let sizes = Sizes {
                    n: 9,
                    t: 4,
                    i: 2,
                    h: 19,
                };
                compare(isa, sizes, spec, ALL);
            }
        }
    }
}

/// Sizes whose rows, and whose units, are split between threads, in pools of several sizes.
fn threads() {
    for threads in [1, 2, 3, 5] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a pool").install(|| {
            for (n, t, h) in [(33, 6, 64), (1, 40, 130), (3, 9, 300), (17, 5, 530)] {
                for spec in resets() {
                    let gru = Gru::new(Sizes { n, t, i: 8, h }, spec);
                    let expected = expected(&gru, ALL);
                    let id = format!("{threads} threads {gru:?}");
                    agree(&id, 1.0, &run::<f32>(&gru, ALL), &expected);
                }
            }
        });
    }
}

/// More concurrent calls than the pool has threads. No call may wait for a thread that waits for it.
fn calls_at_once_share_a_pool() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = pool.expect("a pool");
    let sizes = Sizes {
        n: 2,
        t: 60,
        i: 8,
        h: 256,
    };
    let gru = Gru::new(sizes, GruSpec::default());
    let expected = expected(&gru, ALL);
    pool.scope(|scope| {
        for k in 0..6 {
            let expected = &expected;
            scope.spawn(move |_| {
                agree(&format!("call {k}"), 1.0, &run::<f32>(&gru, ALL), expected);
            });
        }
    });
}

fn long_sequences(isa: Isa) {
    for spec in resets() {
        // A single row has separate code for its steps.
        for (n, starts) in [(1, false), (2, false), (1, true), (2, true)] {
            let start_state = starts;
            let options = Options {
                starts,
                start_state,
                ..ALL
            };
            let sizes = Sizes {
                n,
                t: 700,
                i: 3,
                h: 20,
            };
            compare(isa, sizes, spec, options);
        }
    }
}
