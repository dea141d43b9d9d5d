//! NaN and infinities in every input, with every kind of schedule, compared with float64.
//!
//! WGSL allows a compiler to assume that there are none. With WGSL these tests only show what this driver
//! does.

use super::support::{
    F32, Given, Ignored, Outcome, Problem, Ran, client, not_allowed, oracle, run, sequence, tile,
    trial,
};
use gru_cube::{Schedule, Starts, Strategy};
use gru_spec::{Activation, Activations, Direction, GruSpec, Layout, Order, Reset, Update};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial(
            "nonfinite/every-input-with-every-schedule",
            every_input_with_every_schedule,
        ),
        trial(
            "nonfinite/values-at-skipped-steps-have-no-effect",
            values_at_skipped_steps_have_no_effect,
        ),
        trial("nonfinite/nothing-crosses-a-start", nothing_crosses_a_start),
    ]
}

/// Five terms in two k-splits of three: the sixth term does not exist and must not add the infinity of
/// another term.
const SCHEDULES: [Schedule; 3] = [
    sequence(2, 2, 4, 2, true),
    sequence(2, 2, 4, 2, false),
    Schedule::Steps(tile(2, 2, 4, 1, 2, 4)),
];

/// Activations that map infinities to finite values, and some that compare.
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

/// One value of each input.
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

fn every_input_with_every_schedule() -> Ran {
    let client = client();
    let mut wrong = Vec::new();
    for (spec, order) in specs() {
        for schedule in SCHEDULES {
            for (place, of) in PLACES {
                for value in [f64::NAN, f64::NEG_INFINITY] {
                    let mut problem =
                        Problem::new((3, 4, 5), spec, Given::ALL, 3).with_order(order);
                    *of(&mut problem) = value;
                    let strategy = Strategy::Forced(schedule);
                    let got =
                        run::<f32>(&client, &problem, strategy, false).map_err(not_allowed)?;
                    let expected = oracle(&problem);
                    if let Err(message) = got.compare(&expected, F32) {
                        wrong.push(format!(
                            "{value} in {place}, {:?}, {schedule:?}: {message}",
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

fn values_at_skipped_steps_have_no_effect() -> Ran {
    let client = client();
    for (spec, order) in specs() {
        for schedule in [SCHEDULES[0], SCHEDULES[2]] {
            let strategy = Strategy::Forced(schedule);
            let outcome = |padding: f64| {
                let mut problem = Problem::new((3, 4, 5), spec, Given::ALL, 3).with_order(order);
                let valid = problem.step_mask.clone().unwrap();
                for (p, valid) in problem.p.chunks_mut(15).zip(valid) {
                    if valid == 0.0 {
                        p.fill(padding);
                    }
                }
                run::<f32>(&client, &problem, strategy, true).map_err(not_allowed)
            };
            let clean = outcome(0.0)?;
            for padding in [f64::NAN, f64::INFINITY] {
                assert!(
                    clean == outcome(padding)?,
                    "{padding}, {:?}, {schedule:?}",
                    spec.reset
                );
            }
        }
    }
    Ok(())
}

/// Row 1 starts before step 2, in either direction. NaN before it must not reach later states, and gradients from
/// after it must be exactly 0. With the start one step earlier or later, both must cross.
fn nothing_crosses_a_start() -> Ran {
    for (spec, order) in specs() {
        for schedule in SCHEDULES {
            for (time, is_right) in [(1, false), (2, true), (3, false)] {
                let crossed = crosses(spec, order, schedule, time)?;
                let at = format!("{:?}, {schedule}, a start at {time}", spec.reset);
                assert_eq!(crossed, [!is_right; 2], "{at}: states and gradients cross");
            }
        }
    }
    Ok(())
}

/// Two answers about row 1, which starts at `time`. Whether NaN from steps 0 and 1 reaches later states, or the gradient
/// of the start state. Whether a gradient from steps 2 and 3 reaches `p` of steps 0 and 1, or the initial state.
fn crosses(
    spec: GruSpec,
    order: Order,
    schedule: Schedule,
    time: usize,
) -> Result<[bool; 2], Ignored> {
    const ROW: usize = 1;
    let (n, t, h) = (3, 4, 5);
    let given = Given {
        step_mask: false,
        starts: Starts::FromState,
        ..Given::ALL
    };
    let mut problem = Problem::new((n, t, h), spec, given, 3).with_order(order);
    let place = |step: usize| problem.row(ROW, order.direction.time(step, t));
    let (early, late) = ([place(0), place(1)], [place(2), place(3)]);
    let of = |rows: [usize; 2], width: usize| {
        rows.into_iter()
            .flat_map(move |row| row * width..(row + 1) * width)
    };
    let start = problem.row(ROW, time);
    let starts = problem.starts.as_mut().unwrap();
    starts.fill(0.0);
    starts[start] = 1.0;
    for k in of(early, h) {
        problem.d_states[k] = 0.0;
    }
    let strategy = Strategy::Forced(schedule);
    let outcome =
        |problem: &Problem| run::<f32>(&client(), problem, strategy, false).map_err(not_allowed);
    let clean = outcome(&problem)?;
    for k in of(early, 3 * h) {
        problem.p[k] = f64::NAN;
    }
    problem.h0.as_mut().unwrap()[ROW * h..][..h].fill(f64::NAN);
    let poisoned = outcome(&problem)?;

    let rows = |from: &[f64]| from[ROW * h..][..h].to_vec();
    let after = |of_run: &Outcome| -> Vec<u64> {
        let states = of(late, h).map(|k| of_run.states[k]);
        let d_p = of(late, 3 * h).map(|k| of_run.d_p[k]);
        let all = states.chain(d_p).chain(rows(&of_run.d_start));
        all.map(f64::to_bits).collect()
    };
    let mut before = of(early, 3 * h)
        .map(|k| clean.d_p[k])
        .chain(rows(&clean.d_h0));
    // The other rows do not start.
    assert!(clean.d_start.iter().any(|&d| d != 0.0));
    assert!(of(late, 3 * h).any(|k| clean.d_p[k] != 0.0));
    Ok([after(&clean) != after(&poisoned), before.any(|d| d != 0.0)])
}
