//! A forward pass in chunks of time, each with its own `x·w_ih`, compared with float64 and with one call.

use super::support::{Device, F32, Ran, cases::KINDS, client, expected, not_allowed, trial};
use gru_cube::{Buffers, Strategy};
use gru_spec::{Layout, Sizes};
use gru_testkit::{case::Case, close::close, draw::Drawn, matrix::covering, runs::Stop};
use libtest_mimic::Trial;
use std::ops::Range;

pub fn trials() -> Vec<Trial> {
    let options: &[&[&str]] = &[
        &["N3 T7 H9 projected mask skips start-states"],
        &["", "reverse"],
        &["", "time"],
        &["", "before"],
        &["+1", "+2"],
    ];
    let of = |case: Case| {
        let text = KINDS[if case.has("+1") { 1 } else { 2 }];
        let strategy = Strategy::Forced(text.parse().expect("a schedule"));
        trial(format!("chunks/{}", case.id()), move || {
            chunks_equal_one_call(&case.draw(), strategy)
        })
    };
    covering(options, 2).into_iter().map(of).collect()
}

/// `x·w_ih` of some steps, in the order of computation.
fn x_of(drawn: &Drawn, steps: &Range<usize>) -> Vec<f64> {
    let Sizes { n, t, h, .. } = drawn.call.sizes;
    let times = drawn.call.order.direction.times(steps.clone(), t);
    let (rows, width) = match drawn.call.order.layout {
        Layout::BatchMajor => (n, t),
        Layout::TimeMajor => (1, t),
    };
    // In time-major order, the rows of a time are neighbours.
    let columns = 3 * h * if rows == 1 { n } else { 1 };
    let row = |row: usize| times.start + row * width..times.end + row * width;
    let places = (0..rows).flat_map(row);
    let x = &drawn.call.inputs.sequence.x;
    places
        .flat_map(|place| &x[place * columns..][..columns])
        .copied()
        .collect()
}

fn chunks_equal_one_call(drawn: &Drawn, strategy: Strategy) -> Ran {
    let client = client();
    let device = Device::f32(&client);
    let Sizes { n, t, h, .. } = drawn.call.sizes;
    let saved = drawn.call.spec.saved_per_unit();
    let run = |chunks: &[Range<usize>]| {
        let [states, gates] = [1, saved].map(|width| device.poisoned(n * t * width * h));
        let mut call = device.recurrence(drawn);
        for steps in chunks {
            call.inputs.sequence.x = device.upload(&x_of(drawn, steps));
            let buffers = Buffers::Forward {
                steps: steps.clone(),
                states: states.clone(),
                gates: Some(gates.clone()),
            };
            gru_cube::run(&client, &call, &buffers, strategy).map_err(not_allowed)?;
        }
        Ok::<_, Stop>([states, gates].map(|buffer| device.download(&buffer)))
    };
    let [states, gates] = run(&[0..0, 0..7])?;
    let [parts, gates_of_parts] = run(&[0..3, 3..3, 3..4, 4..7])?;
    assert_eq!(states, parts);
    // Compared as bits, because gates are NaN where nothing was written.
    let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&gates), bits(&gates_of_parts));
    close(
        "states",
        &parts,
        &expected(drawn).outputs["states"],
        F32.forward,
    )
    .unwrap();
    Ok(())
}
