//! All cases. A new case is one line here, and every backend runs it.

use crate::{activations::ACTIVATIONS, case::Case, cover::cover};

/// Options of a call and their values. The first value is the common one.
pub const OPTIONS: &[&[&str]] = &[
    &["", "no-b_ih", "no-b_hh", "no-b_ih no-b_hh"],
    &["", "clip-gates", "clip-state", "clip-gates clip-state"],
    &["", "no-h0"],
    &["", "mask"],
    &["", "projected"],
    &["", "before"],
    &["", "takes"],
    &["", "reverse"],
    &["", "lean"],
];

/// Options that packed rows do not have.
pub const PADDED: &[&[&str]] = &[
    &["", "lengths", "skips"],
    &["", "start-zeros", "start-states", "start-shared"],
    &["", "zoneout-per-step", "zoneout-per-unit"],
    &["", "time"],
];

/// Sizes without a remainder, with single elements, and without features.
pub const SIZES: &[&str] = &["", "N1 T1 I1 H1", "N1 T8 H33", "I0"];

/// Few cases with every combination of values of any `strength` options.
pub fn covering(options: &[&[&str]], strength: usize) -> Vec<Case> {
    let sizes: Vec<usize> = options.iter().map(|values| values.len()).collect();
    let case = |row: Vec<usize>| {
        let values = options.iter().zip(row).map(|(values, k)| values[k]);
        Case::new(&values.collect::<Vec<_>>().join(" "))
    };
    cover(&sizes, strength).into_iter().map(case).collect()
}

/// Single rows, steps, features and units, and sizes just above a vector or a tile.
pub fn sizes() -> Vec<Case> {
    let sizes = [
        "N1 T1 I1 H1",
        "N2 T1 I3 H5",
        "N4 T1 I2 H9",
        "N1 T6 I3 H4",
        "N2 T4 I1 H3",
        "N2 T4 I3 H1",
        "N9 T2 I2 H3",
        "N2 T3 I19 H4",
        "N2 T3 I3 H17",
        "N1 T2 I2 H33",
        // A single step without a state does not use the recurrent weight.
        "N3 T1 I2 H5 no-h0",
    ];
    covering(&[&sizes, &["", "before takes"]], 2)
}

/// Sizes beyond one tile, panel or cube.
pub fn large() -> Vec<Case> {
    let cases = [
        "N5 T13 I9 H33",
        "N5 T13 I9 H33 before takes time reverse",
        "N2 T40 I16 H64 time",
        "N2 T40 I16 H64 before takes",
        "N17 T3 I5 H48 no-b_hh no-h0",
        "N1 T7 I65 H96 no-b_ih no-b_hh",
    ];
    cases.map(Case::new).into()
}

/// Without rows, steps, features or units.
pub fn empty() -> Vec<Case> {
    let sizes = ["N0", "T0", "N0 T0", "I0", "H0"];
    let options = [
        "",
        "before lean time no-h0",
        "lengths mask",
        "skips zoneout-per-step start-shared before",
    ];
    covering(&[&sizes, &options], 2)
}

/// Every activation in every gate, and clips that are infinite in float32.
pub fn activations() -> Vec<Case> {
    let rules = ["", "takes", "before", "before takes"];
    let gates = (0..ACTIVATIONS.len()).map(|k| format!("activations-{k} {}", rules[k % 4]));
    let all = gates.chain(["clips-infinite", "clips-infinite before takes"].map(String::from));
    all.map(|words| Case::new(&format!("N2 T4 I3 H5 {words}")))
        .collect()
}

/// Zeros, subnormals, and gates without a slope.
pub fn extreme() -> Vec<Case> {
    covering(
        &[&["zero", "subnormal", "saturated"], &["", "before lean"]],
        2,
    )
}

/// One value of each input or of the upstream gradient is not finite. With lengths, the value of `h0` is of a row
/// without steps.
pub fn nonfinite() -> Vec<Case> {
    let values: Vec<String> = [
        "x",
        "h0",
        "w_ih",
        "w_hh",
        "last-of-w_hh",
        "b_ih",
        "b_hh",
        "d_y",
    ]
    .iter()
    .flat_map(|tensor| ["nan", "inf", "neginf"].map(|value| format!("{value}-in-{tensor}")))
    .collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let options = [
        "",
        "lean",
        "before",
        "before lean",
        "start-zeros",
        "start-states before lean",
        // Clips and activations that compare numbers, and a zoneout that keeps nothing at some steps.
        "lengths zoneout-per-step clip-gates",
        "lengths zoneout-per-step clip-state before activations-2 lean",
    ];
    let mut cases = covering(&[&["N3 T4 I2 H18"], &values, &options], 2);
    // Only NaN with zoneout: `0 · ∞` depends on the form of the blend.
    cases.retain(|case| case.id().contains("nan-in") || !case.has("lengths"));
    cases
}

/// 16-bit values, with long sequences: errors do not accumulate over time. Without clips, because at a clip the
/// rounding decides on the gradient.
pub fn sixteen_bits() -> Vec<Case> {
    let sizes = [
        "N5 T13 I9 H33",
        "N2 T200 I16 H64",
        "N2 T200 I16 H64 before",
        "N3 T40 I8 H17 lean",
    ];
    sizes
        .map(|words| Case::new(&format!("{words} 16-bits")))
        .into()
}

/// Sequences whose input products a GPU computes in two chunks of time, and in three with recomputed gates.
pub fn long() -> Vec<Case> {
    let cases = [
        "skips",
        "skips before time reverse",
        "skips before time reverse zoneout-per-unit start-states",
        "skips reverse",
        "skips before",
        "short-lengths",
        "short-lengths before time reverse",
    ];
    let cases: Vec<Case> = cases
        .iter()
        .map(|words| Case::new(&format!("N64 T107 I5 H64 mask {words}")))
        .collect();
    let lean = cases.iter().map(|case| case.with("lean"));
    lean.chain(cases.clone()).collect()
}

/// All cases that take a millisecond, with every combination of values of any `strength` options.
pub fn matrix(strength: usize) -> Vec<Case> {
    let options = [&[SIZES], OPTIONS, PADDED].concat();
    [
        covering(&options, strength),
        sizes(),
        large(),
        empty(),
        activations(),
        extreme(),
        nonfinite(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique() {
        let cases = [matrix(3), sixteen_bits(), long()].concat();
        let ids: BTreeSet<_> = cases.iter().map(Case::id).collect();
        assert_eq!(ids.len(), cases.len());
    }

    /// A clip that no value reaches, or that changes all values, tests nothing.
    #[test]
    fn every_clip_shows() {
        for case in matrix(2) {
            let clips = [case.spec.clip_gates, case.spec.clip_state]
                .into_iter()
                .flatten();
            let is_clipped = clips.into_iter().any(|clip| clip < 1e38);
            if !is_clipped || case.sizes.places() < 10 || case.has("lengths") {
                continue;
            }
            let drawn = case.draw();
            let clipped = drawn.call.forward().y;
            let mut call = drawn.call;
            call.spec = call.spec.with_clip_gates(None).with_clip_state(None);
            let free = call.forward().y;
            assert_ne!(clipped, free, "{}", case.id());
        }
    }
}
