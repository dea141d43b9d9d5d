//! The lhs operands of the weight gradients, value by value.

use super::support::{Given, Problem, catalogue, client, download, poisoned, test, upload};
use gru_cube::Starts;
use gru_spec::Reset;
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![test("operands/every-convention", every_convention)]
}

pub fn every_convention() {
    // At the first step no step before may be read, also not in a branch that no unit takes.
    for sizes in [(3, 4, 5), (1, 1, 1)] {
        conventions_at(sizes);
    }
}

fn conventions_at((n, t, h): (usize, usize, usize)) {
    let client = client();
    for (i, (spec, order)) in catalogue::conventions().into_iter().enumerate() {
        let given = Given {
            starts: [Starts::None, Starts::FromZeros, Starts::FromState][i % 3],
            ..[Given::ALL, Given::NONE][i / 2 % 2]
        };
        let problem = Problem::new((n, t, h), spec, given, i as u64).with_order(order);
        let width = spec.saved_per_unit() * h;
        let states = problem.d_states.clone();
        let skipped = |row: usize| problem.step_mask.as_ref().is_some_and(|v| v[row] == 0.0);
        // Gates of skipped steps are undefined.
        let gate = |x: usize| {
            if skipped(x / width) {
                f64::NAN
            } else {
                x as f64 / 64.0
            }
        };
        let gates: Vec<f64> = (0..n * t * width).map(gate).collect();
        let times_r = spec.reset == Reset::BeforeMatmul;
        let g = poisoned::<f32>(&client, n * t * h);
        let call = problem.recurrence::<f32>(&client);
        let gates_on_device = times_r.then(|| upload::<f32>(&client, &gates));
        let states_on_device = upload::<f32>(&client, &states);
        gru_cube::recurrent_inputs(
            &client,
            &call,
            &states_on_device,
            gates_on_device.as_ref(),
            &g,
        );
        let got = download::<f32>(&client, g, n * t * h);

        for k in 0..n {
            for step in 0..t {
                let row = problem.row(k, order.direction.time(step, t));
                for j in 0..h {
                    let h_before = problem.before(&states, k, step, j);
                    let r = if times_r { gates[row * width + j] } else { 1.0 };
                    let expected = if skipped(row) {
                        0.0
                    } else {
                        (problem.mask(k, j) * h_before * r) as f32
                    };
                    let off = (got[row * h + j] - f64::from(expected)).abs();
                    assert!(off <= 1e-6, "{spec:?} n{k} step {step} j{j}: off by {off}");
                }
            }
        }
    }
}
