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
    conformance::{Case, transposed},
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
    let inputs =
        inputs(|name| from_pytorch(name, &case.tensor(&format!("in.{name}")).data, sizes.h));
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
    let gradient = |name: &str| {
        let recorded = &case.tensor(&format!("grad.{name}{twin}")).data;
        from_pytorch(name, recorded, sizes.h)
    };
    let expected = Outcome {
        outputs: Tensors::from([("y".into(), y), ("h_t".into(), last)]),
        gradients: by_name(gradient),
    };
    (drawn, expected)
}

/// The inputs and gradients of a recorded layer.
const NAMES: [&str; 6] = ["x", "h0", "w_ih", "w_hh", "b_ih", "b_hh"];

/// An array of PyTorch's, whose weights have gates as rows, in the operator's order.
pub fn from_pytorch(name: &str, recorded: &[f64], h: usize) -> Vec<f64> {
    match name {
        "w_ih" | "w_hh" => transposed(recorded, 3 * h, recorded.len() / (3 * h)),
        _ => recorded.to_vec(),
    }
}

/// The arrays of all inputs.
pub fn inputs(array: impl Fn(&str) -> Vec<f64>) -> Inputs<Vec<f64>> {
    let [x, h0, w_ih, w_hh, b_ih, b_hh] = NAMES.map(array);
    Inputs {
        sequence: Sequence {
            h0: Some(h0),
            ..Sequence::new(x)
        },
        weights: Weights {
            w_ih: Some(w_ih),
            w_hh,
            b_ih: Some(b_ih),
            b_hh: Some(b_hh),
        },
    }
}

/// The arrays of all gradients.
pub fn by_name(array: impl Fn(&str) -> Vec<f64>) -> Tensors {
    NAMES.map(|name| (name.to_owned(), array(name))).into()
}
