//! The recorded vectors as problems.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use gru_op::{Layout, Order, Reset};
use gru_testkit::{
    close::{Outcome, Tensors},
    conformance::{self, Array, Case, CaseSpec},
    inputs::Inputs,
    problem::Problem,
};

/// The folder of the vectors.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| crate::data().join("conformance"))
}

/// The cases of one kind.
pub fn of_kind(kind: &str) -> Vec<CaseSpec> {
    let mut cases = CaseSpec::all(directory());
    cases.retain(|case| case.kind() == kind);
    assert!(!cases.is_empty(), "no case of kind {kind}");
    cases
}

/// The problem of a case's sizes, time-major as most cases are.
pub fn sizes(spec: &CaseSpec) -> Problem {
    let size = |name| spec.number(name).unwrap_or(1);
    Problem::new(size("N"), size("T"), size("I"), size("H")).with_order(Order {
        layout: Layout::TimeMajor,
        ..Order::default()
    })
}

/// Converts a weight or bias with gates as row blocks, `[3H, F]` or `[3H]`, to columns r|z|n. `order`
/// lists the row blocks of r, z and n.
pub fn columns(rows: &[f64], gates: usize, order: [usize; 3]) -> Vec<f64> {
    let block = rows.len() / 3;
    let ordered: Vec<f64> = order
        .iter()
        .flat_map(|gate| &rows[gate * block..][..block])
        .copied()
        .collect();
    conformance::transposed(&ordered, gates, rows.len() / gates)
}

/// A `grad_f64` case with its expected results. `twin` is `".f64"` for full precision and empty for
/// values rounded to float32.
pub fn grad_f64(case: &Case, twin: &str) -> (Problem, Inputs, Outcome) {
    let problem = sizes(&case.spec);
    let reset = match case.spec.option("variant").as_str() {
        Some("reset_after") => Reset::AfterMatmul,
        Some("reset_before") => Reset::BeforeMatmul,
        other => panic!("{}: variant {other:?}", case.spec.name()),
    };
    let problem = problem.with_spec(problem.spec.with_reset(reset));
    let gates = 3 * problem.h;
    let weight = |array: &Array| columns(&array.data, gates, [0, 1, 2]);
    let input = |name: &str| case.tensor(&format!("in.{name}"));
    let inputs = Inputs {
        x: input("x").data.clone(),
        h0: Some(input("h0").data.clone()),
        w_ih: weight(input("w_ih")),
        w_hh: weight(input("w_hh")),
        b_ih: Some(weight(input("b_ih"))),
        b_hh: Some(weight(input("b_hh"))),
        d_y: case.tensor("up.grad_h").data.clone(),
        d_h_t: case.tensor("up.grad_h_last").data.clone(),
    };
    let y = case.tensor(&format!("out.h{twin}")).data.clone();
    let last = y[y.len() - problem.n * problem.h..].to_vec();
    let gradients = ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh"].map(|name| {
        let recorded = case.tensor(&format!("grad.{name}{twin}"));
        let gradient = match name {
            "x" | "h0" => recorded.data.clone(),
            _ => weight(recorded),
        };
        (name.to_owned(), gradient)
    });
    let expected = Outcome {
        outputs: Tensors::from([("y".into(), y), ("h_t".into(), last)]),
        gradients: Tensors::from(gradients),
    };
    (problem, inputs, expected)
}
