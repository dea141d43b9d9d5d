//! Recomputed gates, from float64 products, compared with the gates of the float64 forward pass.

use super::support::{
    F32, Given, Problem, catalogue, client, close, download, oracle_forward, panics, poisoned,
    test, upload,
};
use gru_cube::Products;
use gru_spec::{GruSpec, Reset};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        test("gates/every-convention", every_convention),
        test(
            "gates/products-of-the-other-reset-panic",
            products_of_the_other_reset_panic,
        ),
    ]
}

/// `g = mask ⊙ h₋₁` of every row.
fn lhs(problem: &Problem, states: &[f64]) -> Vec<f64> {
    let Problem { n, t, h, order, .. } = *problem;
    let mut g = vec![0.0; n * t * h];
    for (k, step) in (0..n).flat_map(|k| (0..t).map(move |step| (k, step))) {
        let time = order.direction.time(step, t);
        for j in 0..h {
            let state = problem.before(states, k, step, j);
            g[problem.row(k, time) * h + j] = problem.mask(k, j) * state;
        }
    }
    g
}

/// `lhs · w_hh` of the gates `from..to`.
fn product(problem: &Problem, lhs: &[f64], from: usize, to: usize) -> Vec<f64> {
    let h = problem.h;
    lhs.chunks(h)
        .flat_map(|g| {
            (from * h..to * h).map(move |c| {
                let column = (0..h).map(|k| problem.w_hh[k * 3 * h + c]);
                g.iter().zip(column).map(|(g, w)| g * w).sum::<f64>()
            })
        })
        .collect()
}

fn gates(problem: &Problem, g: &[f64]) -> Vec<f64> {
    let client = client();
    let len = g.len() * problem.spec.saved_per_unit();
    let gates = poisoned::<f32>(&client, len);
    let up = |data: &[f64]| upload::<f32>(&client, data);
    let call = problem.recurrence::<f32>(&client);
    let make = |products: Products| gru_cube::gates(&client, &call, &products, &gates);
    match problem.spec.reset {
        Reset::AfterMatmul => make(Products::All {
            q: up(&product(problem, g, 0, 3)),
        }),
        Reset::BeforeMatmul => {
            let times_r = up(g);
            make(Products::ResetAndUpdate {
                q: up(&product(problem, g, 0, 2)),
                g: times_r.clone(),
            });
            let times_r = download::<f32>(&client, times_r, g.len());
            make(Products::Candidate {
                q: up(&product(problem, &times_r, 2, 3)),
            });
        }
    }
    download::<f32>(&client, gates, len)
}

pub fn every_convention() {
    for (i, (spec, order)) in catalogue::conventions().into_iter().enumerate() {
        // Gates of skipped steps are undefined, so no step is skipped here.
        let given = [Given::bits(15), Given::NONE][i / 2 % 2];
        let problem = Problem::new((3, 4, 33), spec, given, i as u64).with_order(order);
        let (states, expected) = oracle_forward(&problem);
        let got = gates(&problem, &lhs(&problem, &states));
        if let Err(message) = close("gates", &got, &expected, F32.forward) {
            panic!("{spec:?}: {message}");
        }
    }
}

fn products_of_the_other_reset_panic() {
    let spec = GruSpec::default().with_reset(Reset::BeforeMatmul);
    let problem = Problem::new((1, 1, 3), spec, Given::NONE, 1);
    let client = client();
    let buffer = upload::<f32>(&client, &[0.0; 9]);
    let products = Products::All { q: buffer.clone() };
    let call = problem.recurrence::<f32>(&client);
    panics(
        || gru_cube::gates(&client, &call, &products, &buffer),
        "gru_cube: expected the products of reset BeforeMatmul, got All",
    )
    .unwrap();
}
