//! The recorded vectors as calls.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use gru_op::{
    Direction, GruSpec, Layout, Order, Reset,
    spec::{Inputs, Sequence, Sizes, Weights},
};
use gru_testkit::{
    close::{Outcome, Tensors},
    conformance::{self, Array, Case, CaseSpec},
    draw::Drawn,
    oracle::Call,
};

/// The order of most recorded cases.
pub const TIME_MAJOR: Order = Order {
    layout: Layout::TimeMajor,
    direction: Direction::Forward,
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

/// The sizes of a case.
pub fn sizes(spec: &CaseSpec) -> Sizes {
    let size = |name| spec.number(name).unwrap_or(1);
    Sizes {
        n: size("N"),
        t: size("T"),
        i: size("I"),
        h: size("H"),
    }
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
pub fn grad_f64(case: &Case, twin: &str) -> (Drawn, Outcome) {
    let sizes = sizes(&case.spec);
    let reset = match case.spec.option("variant").as_str() {
        Some("reset_after") => Reset::AfterMatmul,
        Some("reset_before") => Reset::BeforeMatmul,
        other => panic!("{}: variant {other:?}", case.spec.name()),
    };
    let weight = |array: &Array| columns(&array.data, 3 * sizes.h, [0, 1, 2]);
    let input = |name: &str| case.tensor(&format!("in.{name}"));
    let inputs = Inputs {
        sequence: Sequence {
            h0: Some(input("h0").data.clone()),
            ..Sequence::new(input("x").data.clone())
        },
        weights: Weights {
            w_ih: Some(weight(input("w_ih"))),
            w_hh: weight(input("w_hh")),
            b_ih: Some(weight(input("b_ih"))),
            b_hh: Some(weight(input("b_hh"))),
        },
    };
    let call = Call {
        order: TIME_MAJOR,
        ..Call::new(sizes, GruSpec::default().with_reset(reset), inputs)
    };
    let upstream = |name: &str| case.tensor(name).data.clone();
    let drawn = Drawn::new(call, upstream("up.grad_h"), upstream("up.grad_h_last"));
    let y = case.tensor(&format!("out.h{twin}")).data.clone();
    let last = y[y.len() - sizes.n * sizes.h..].to_vec();
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
    (drawn, expected)
}
