//! The recorded vectors as calls.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use gru_op::{
    GruSpec, Layout, Order, Reset,
    spec::{Inputs, Sequence, Sizes, Weights},
};
use gru_testkit::{
    close::{Outcome, Tensors},
    conformance::{Array, Case, transposed},
    draw::Drawn,
    oracle::Call,
};

/// The folder of the vectors.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| crate::data().join("conformance"))
}

/// A `grad_f64` case with its expected results. `twin` is `".f64"` for full precision and empty for
/// values rounded to float32.
pub fn grad_f64(case: &Case, twin: &str) -> (Drawn, Outcome) {
    let size = |name| case.spec.number(name).expect("every case has its sizes");
    let sizes = Sizes {
        n: size("N"),
        t: size("T"),
        i: size("I"),
        h: size("H"),
    };
    let reset = match case.spec.option("variant").as_str() {
        Some("reset_after") => Reset::AfterMatmul,
        Some("reset_before") => Reset::BeforeMatmul,
        other => panic!("{}: variant {other:?}", case.spec.name()),
    };
    // PyTorch's weights have gates as rows.
    let weight =
        |Array { data, .. }: &Array| transposed(data, 3 * sizes.h, data.len() / (3 * sizes.h));
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
        order: Order {
            layout: Layout::TimeMajor,
            ..Order::default()
        },
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
