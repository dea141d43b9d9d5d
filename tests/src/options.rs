//! Options of a sequence: lengths, step masks, packed rows, starts, recurrent mask, zoneout, projected input, forms of
//! biases and clips, views, every convention, and small and empty sizes.
//!
//! The CPU backends run all three-way combinations of option values. Other backends run all pairs.

use burn::tensor::DType;
use gru_op::{Checkpointing, Direction, GruSpec, Layout, Order, Reset, Update};
use gru_testkit::{
    close::Tolerance,
    cover::cover,
    inputs::Inputs,
    oracle::{Call, Skipped},
    problem::Problem,
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    call::{self, How},
};

/// The values of options that packed rows have, too. The first is the common one.
const COMMON: &[&[&str]] = &[
    &["", "input-bias", "recurrent-bias", "no-bias"],
    &["", "clip-gates", "clip-state", "clip-both"],
    &["", "no-state"],
    &["", "mask"],
    &["", "projected"],
    &["", "before"],
    &["", "takes"],
    &["", "reverse"],
    &["", "lean"],
];

const PADDED: &[&[&str]] = &[
    &["", "one", "one-row", "no-features"],
    &["", "lengths", "holes"],
    &["", "start-zeros", "start-per-row", "start-shared"],
    &["", "zoneout-per-step", "zoneout-per-unit"],
    &["", "views"],
    &["", "time"],
    &["", "composed"],
];

/// Packed rows have neither starts nor zoneout, and one layout.
const PACKED: &[&[&str]] = &[&["packed"], &["", "one", "one-row"]];

/// A value of each option.
#[derive(Clone)]
struct Case(Vec<&'static str>);

/// Few cases that cover every combination of values of any `strength` options.
fn cases(strength: usize) -> Vec<Case> {
    let of = |own: &[&[&'static str]]| -> Vec<Case> {
        let options = [own, COMMON].concat();
        let sizes: Vec<usize> = options.iter().map(|values| values.len()).collect();
        let case = |row: Vec<usize>| {
            Case(
                options
                    .iter()
                    .zip(row)
                    .map(|(values, k)| values[k])
                    .collect(),
            )
        };
        cover(&sizes, strength).into_iter().map(case).collect()
    };
    [of(PADDED), of(PACKED)].concat()
}

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    let [pairs, triples] = [2, 3].map(cases);
    for &backend in backends {
        let cases = if backend.samples_modes() {
            &pairs
        } else {
            &triples
        };
        for case in cases {
            // A product over no features panics in Burn 0.22.1's NdArray.
            let panics =
                backend.name == "ndarray" && case.has("composed") && case.has("no-features");
            for dtype in backend.dtypes() {
                let id = format!("options/{}/{}", case.id(), backend.id(dtype));
                let is_rounded = case.has("composed") && !backend.float64_sigmoid;
                let tolerance = match dtype {
                    DType::F64 if !is_rounded => Tolerance::F64,
                    _ => backend.tolerance(Tolerance::F32),
                };
                let case = case.clone();
                let trial = backend.trial(id, move |device| {
                    let (call, inputs) = case.call();
                    let (how, upstream) = (case.how(), [&inputs.d_y[..], &inputs.d_h_t]);
                    let got = call::on(device, dtype, &call, upstream, &how)?;
                    got.compare(&call::expected(&call, upstream, &how), tolerance)
                });
                trials.push(if panics {
                    trial.with_ignored_flag(true)
                } else {
                    trial
                });
            }
        }
    }
    trials
}

impl Case {
    fn has(&self, value: &str) -> bool {
        self.0.contains(&value)
    }

    fn id(&self) -> String {
        let values = self.0.iter().filter(|value| !value.is_empty());
        let values: Vec<&str> = values.copied().collect();
        match &values[..] {
            [] => "plain".into(),
            values => values.join("-"),
        }
    }

    fn sizes(&self) -> [usize; 4] {
        if self.has("one") {
            [1, 1, 1, 1]
        } else if self.has("one-row") {
            [1, 8, 3, 33]
        } else {
            [5, 6, if self.has("no-features") { 0 } else { 3 }, 7]
        }
    }

    /// The length of each row, if the case has lengths.
    fn lengths(&self) -> Option<&'static [usize]> {
        if !self.has("lengths") && !self.has("packed") {
            None
        } else if self.has("one") {
            Some(&[1])
        } else if self.has("one-row") {
            Some(&[5])
        } else {
            // Unsorted, repeated, zero and full.
            Some(&[4, 0, 6, 1, 4])
        }
    }

    fn how(&self) -> How<'static> {
        How {
            lengths: self.lengths(),
            packed: self.has("packed"),
            shared_start: self.has("start-shared"),
            checkpointing: if self.has("lean") {
                Checkpointing::Recompute
            } else {
                Checkpointing::KeepGates
            },
            views: self.has("views"),
            composed: self.has("composed"),
        }
    }

    fn spec(&self) -> GruSpec {
        let clip = |name: &str| self.has(name) || self.has("clip-both");
        GruSpec::default()
            .with_reset(if self.has("before") {
                Reset::BeforeMatmul
            } else {
                Reset::AfterMatmul
            })
            .with_update(if self.has("takes") {
                Update::Takes
            } else {
                Update::Keeps
            })
            .with_clip_gates(clip("clip-gates").then_some(0.75))
            .with_clip_state(clip("clip-state").then_some(0.25))
    }

    fn order(&self) -> Order {
        Order {
            direction: if self.has("reverse") {
                Direction::Reverse
            } else {
                Direction::Forward
            },
            layout: if self.has("time") {
                Layout::TimeMajor
            } else {
                Layout::BatchMajor
            },
        }
    }

    /// The call, and inputs with its upstream gradients.
    fn call(&self) -> (Call, Inputs) {
        let [n, t, i, h] = self.sizes();
        let features = if self.has("projected") { 3 * h } else { i };
        // Without the clips, whose kinks a draw would avoid.
        let problem = Problem::new(n, t, features, h).with_order(self.order());
        let inputs = Inputs::random(&problem);
        let places = || {
            (0..n * t).map(|place| match problem.order.layout {
                Layout::BatchMajor => [place / t, place % t],
                Layout::TimeMajor => [place % n, place / n],
            })
        };
        let flags = |flag: fn([usize; 2], usize) -> bool| -> Vec<f64> {
            places().map(|place| f64::from(flag(place, t))).collect()
        };
        let odd = |k: usize| ((k * 37 + 11) % 17) as f64 / 16.0;
        let zoneout = |units: usize| (0..n * t * units).map(odd).collect();
        let all = Call::of(&problem, &inputs);
        let shared = |k: usize| if self.has("start-shared") { k % h } else { k };
        let has_starts = ["start-zeros", "start-per-row", "start-shared"];
        let has_starts = has_starts.map(|value| self.has(value));
        let call = Call {
            spec: self.spec(),
            h0: all.h0.filter(|_| !self.has("no-state")),
            w_ih: all.w_ih.filter(|_| !self.has("projected")),
            b_ih: all
                .b_ih
                .filter(|_| !self.has("recurrent-bias") && !self.has("no-bias")),
            b_hh: all
                .b_hh
                .filter(|_| !self.has("input-bias") && !self.has("no-bias")),
            recurrent_mask: self.has("mask").then(|| {
                let scale = |k: usize| {
                    if k.is_multiple_of(4) {
                        0.0
                    } else {
                        0.5 + odd(k)
                    }
                };
                (0..n * h).map(scale).collect()
            }),
            zoneout: if self.has("zoneout-per-step") {
                Some(zoneout(1))
            } else {
                self.has("zoneout-per-unit").then(|| zoneout(h))
            },
            step_mask: self.has("holes").then(|| flags(is_valid)),
            skipped: Skipped::Repeats,
            starts: has_starts.contains(&true).then(|| flags(is_start)),
            start_state: (has_starts[1] || has_starts[2])
                .then(|| (0..n * h).map(|k| odd(shared(k) + 5) - 0.5).collect()),
            ..all
        };
        match self.lengths() {
            Some(lengths) => (call::with_lengths(call, lengths), inputs),
            None => (call, inputs),
        }
    }
}

/// Whether a step is valid in a mask with holes. Row 1 has no valid step. Row 2 begins and ends with skipped steps.
fn is_valid([n, t]: [usize; 2], steps: usize) -> bool {
    n != 1 && !(n == 2 && (t == 0 || t == steps - 1)) && !(n + 2 * t).is_multiple_of(3)
}

/// Whether a row starts a new sequence at time `t`. Row 0 starts at time 0, row 3 twice in a row.
fn is_start([n, t]: [usize; 2], _: usize) -> bool {
    (n == 0 && t == 0) || (n == 3 && t == 2) || (n + t).is_multiple_of(4) && t > 0
}
