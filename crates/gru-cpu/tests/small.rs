//! Every unsafe block of the scalar path at sizes that miri can run:
//!
//!     cargo +nightly miri test -p gru-cpu --no-default-features --test small

mod support;

use gru_cpu::testing::Isa;
use gru_testkit::matrix::covering;
use support::{check, known};

#[test]
fn scalar_at_odd_sizes() {
    let sizes: &[&str] = &[
        "N1 T1 I1 H1",
        "N1 T2 I2 H3",
        "N5 T3 I1 H3",
        "N3 T5 I2 H7",
        "N5 T3 I2 H3 mask skips zoneout-per-unit start-states",
        "N5 T3 I2 H3 mask lengths zoneout-per-unit activations-10",
        "N5 T3 I2 H3 clip-gates",
    ];
    let rules = ["", "lean", "before", "before lean"];
    for known in known(covering(&[sizes, &rules, &["", "time"]], 2)) {
        check(Isa::Scalar, &known).unwrap();
    }
}
