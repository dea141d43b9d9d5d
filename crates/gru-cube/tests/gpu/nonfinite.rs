//! NaN and infinities in every input, through every cut, against float64.
//!
//! WGSL lets a compiler assume that there are none: there these are tests of this driver.

use super::support::{
    FORWARD, GRADIENT, Given, Problem, Ran, client, oracle, refused, run, tile, trial,
};
use gru_cube::{Cut, Strategy, WalkTile};
use gru_spec::{Activation, Activations, Direction, GruSpec, Layout, Order, Reset, Update};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial(
            "nonfinite/every-input-through-every-cut".to_owned(),
            every_input_through_every_cut,
        ),
        trial(
            "nonfinite/what-skipped-steps-hold-reaches-nothing".to_owned(),
            what_skipped_steps_hold_reaches_nothing,
        ),
    ]
}

const fn walk(resident: bool) -> Cut {
    Cut::Walk(WalkTile {
        rows: 2,
        width: 2,
        lanes: 4,
        splits: 2,
        resident,
    })
}

/// Five terms in parts of three and of two: the sixth, which is none, must not bring the infinity of
/// another.
const CUTS: [Cut; 3] = [walk(true), walk(false), Cut::Steps(tile(2, 2, 4, 1, 2, 4))];

/// Activations that keep infinities finite, and some that choose by comparison.
fn specs() -> [(GruSpec, Order); 2] {
    let choosing = Activations {
        reset: Activation::HardSigmoid {
            alpha: 0.3,
            beta: 0.45,
        },
        update: Activation::Sigmoid,
        candidate: Activation::Relu,
    };
    [
        (GruSpec::default(), Order::default()),
        (
            GruSpec::default()
                .with_reset(Reset::BeforeMatmul)
                .with_update(Update::Takes)
                .with_activations(choosing)
                .with_clip_state(Some(0.9)),
            Order {
                layout: Layout::TimeMajor,
                direction: Direction::Reverse,
            },
        ),
    ]
}

/// One number of each input.
type Place = (&'static str, fn(&mut Problem) -> &mut f64);

const PLACES: [Place; 8] = [
    ("p", |problem| &mut problem.p[17]),
    ("h0", |problem| &mut problem.h0.as_mut().unwrap()[1]),
    ("w_hh", |problem| &mut problem.w_hh[19]),
    ("last of w_hh", |problem| problem.w_hh.last_mut().unwrap()),
    ("b_ih", |problem| &mut problem.b_ih.as_mut().unwrap()[7]),
    ("b_hh", |problem| &mut problem.b_hh.as_mut().unwrap()[12]),
    ("recurrent_mask", |problem| {
        &mut problem.recurrent_mask.as_mut().unwrap()[6]
    }),
    ("d_states", |problem| &mut problem.d_states[8]),
];

fn every_input_through_every_cut() -> Ran {
    let client = client();
    let mut wrong = Vec::new();
    for (spec, order) in specs() {
        for cut in CUTS {
            for (place, of) in PLACES {
                for value in [f64::NAN, f64::NEG_INFINITY] {
                    let mut problem =
                        Problem::new((3, 4, 5), spec, Given::ALL, 3).with_order(order);
                    *of(&mut problem) = value;
                    let strategy = Strategy::Forced(cut);
                    let got = run::<f32>(&client, &problem, (strategy, strategy), false)
                        .map_err(refused)?;
                    let expected = oracle(&problem);
                    if let Err(message) = got.compare(&expected, (FORWARD, GRADIENT)) {
                        wrong.push(format!(
                            "{value} in {place}, {:?}, {cut:?}: {message}",
                            spec.reset
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

fn what_skipped_steps_hold_reaches_nothing() -> Ran {
    let client = client();
    for (spec, order) in specs() {
        for cut in [CUTS[0], CUTS[2]] {
            let strategy = Strategy::Forced(cut);
            let outcome = |padding: f64| {
                let mut problem = Problem::new((3, 4, 5), spec, Given::ALL, 3).with_order(order);
                let valid = problem.step_mask.clone().unwrap();
                for (p, valid) in problem.p.chunks_mut(15).zip(valid) {
                    if valid == 0.0 {
                        p.fill(padding);
                    }
                }
                run::<f32>(&client, &problem, (strategy, strategy), true).map_err(refused)
            };
            let clean = outcome(0.0)?;
            for padding in [f64::NAN, f64::INFINITY] {
                assert!(
                    clean == outcome(padding)?,
                    "{padding}, {:?}, {cut:?}",
                    spec.reset
                );
            }
        }
    }
    Ok(())
}
