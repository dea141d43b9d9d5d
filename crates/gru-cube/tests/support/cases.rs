//! The test cases: conventions, sizes, optional tensors and schedules, in covering arrays of pairs.

use super::Kernels;
use cubecl::ir::FloatKind;
use gru_cube::Strategy;
use gru_testkit::{case::Case, matrix};

/// Cases, and how each runs.
pub type Cases = Vec<(Kernels, Case)>;

/// What a call may be. The first value is the common one.
const OPTIONS: &[&[&str]] = &[
    &["", "no-b_ih"],
    &["", "no-b_hh"],
    &["", "no-h0"],
    &["", "mask"],
    &["", "skips", "lengths", "sorted-lengths"],
    &["", "before"],
    &["", "takes"],
    &["", "reverse"],
    &["", "time"],
    &["", "lean"],
    &["", "zoneout-per-step", "zoneout-per-unit"],
    &["", "start-zeros", "start-states"],
    &["", "+in-place"],
    &["", "+inference"],
];

const CLIPS: &[&str] = &["", "clip-gates", "clip-state", "clip-gates clip-state"];

/// The strategy of a text: `inferred`, or a schedule.
fn strategy(text: &str) -> Strategy {
    match text {
        "inferred" => Strategy::Inferred,
        schedule => Strategy::Forced(schedule.parse().expect("a schedule")),
    }
}

/// Cases in which every combination of `strength` options, sizes and strategies occurs.
fn covering(
    dtype: FloatKind,
    strength: usize,
    sizes: &[&str],
    strategies: &[&str],
    options: &[&[&str]],
) -> Cases {
    let words = strategies
        .iter()
        .map(|text| format!("+{}", text.replace(' ', "-")));
    let words: Vec<String> = words.collect();
    let as_words: Vec<&str> = words.iter().map(String::as_str).collect();
    let options = [&[sizes, &as_words[..]][..], options].concat();
    let with_strategy = |case: Case| {
        let case = case.with("projected");
        let at = words.iter().position(|word| case.has(word));
        let strategy = strategy(strategies[at.expect("a strategy")]);
        (Kernels { dtype, strategy }, case)
    };
    matrix::covering(&options, strength)
        .into_iter()
        .map(with_strategy)
        .collect()
}

/// All options of a call in pairs, with clips.
fn pairs(sizes: &[&str], strategies: &[&str]) -> Cases {
    covering(
        FloatKind::F32,
        2,
        sizes,
        strategies,
        &[OPTIONS, &[CLIPS][..]].concat(),
    )
}

/// Inferred schedules for small and odd sizes.
pub fn inferred() -> Cases {
    let sizes = [
        "N1 T1 H3",
        "N3 T2 H1",
        "N5 T7 H7",
        "N13 T2 H16",
        "N1 T7 H17",
        "N3 T5 H33",
        "N5 T3 H65",
        "N2 T2 H130",
    ];
    pairs(&sizes, &["inferred"])
}

/// Forced sequence kernels: sizes with remainders, one k-split and several, with and without a resident weight.
pub fn sequences() -> Cases {
    let schedules = [
        "sequence rows=1 width=1 n_threads=8 k_splits=1 resident",
        "sequence rows=1 width=1 n_threads=32 k_splits=4",
        "sequence rows=2 width=2 n_threads=16 k_splits=3 resident",
        "sequence rows=4 width=4 n_threads=5 k_splits=1",
        "sequence rows=4 width=4 n_threads=64 k_splits=2 resident",
        "sequence rows=4 width=2 n_threads=40 k_splits=2",
        "sequence rows=8 width=4 n_threads=16 k_splits=4 resident",
        "sequence rows=3 width=1 n_threads=16 k_splits=2",
    ];
    pairs(&["N5 T3 H33", "N1 T4 H7", "N13 T7 H33"], &schedules)
}

/// Forced step kernels: one cube per row and several, one block of K and several.
pub fn steps() -> Cases {
    let schedules = [
        "steps rows=1 width=1 n_threads=32 n_per_thread=1 k_splits=4 block_k=64",
        "steps rows=4 width=4 n_threads=16 n_per_thread=2 k_splits=2 block_k=16",
        "steps rows=8 width=4 n_threads=8 n_per_thread=1 k_splits=1 block_k=33",
        "steps rows=2 width=2 n_threads=5 n_per_thread=3 k_splits=3 block_k=7",
        "steps rows=4 width=2 n_threads=64 n_per_thread=1 k_splits=1 block_k=256",
    ];
    let sizes = [
        "N1 T1 H1",
        "N3 T2 H3",
        "N13 T7 H16",
        "N1 T7 H65",
        "N5 T4 H33",
    ];
    pairs(&sizes, &schedules)
}

/// Persistent kernels: one cube per row and several; one block of K and several; one tile of rows and several; fewer
/// threads than pairs and more.
pub fn persistent() -> Cases {
    let schedules = [
        "persistent rows=4 width=4 n_threads=17 n_per_thread=1 k_splits=3 block_k=64",
        "persistent rows=2 width=1 n_threads=8 n_per_thread=3 k_splits=2 block_k=16",
        "persistent rows=1 width=1 n_threads=33 n_per_thread=1 k_splits=1 block_k=33",
        "persistent rows=4 width=2 n_threads=9 n_per_thread=2 k_splits=4 block_k=20",
        "persistent rows=2 width=2 n_threads=9 n_per_thread=1 k_splits=5 block_k=20",
    ];
    pairs(&["N5 T7 H33", "N6 T150 H33", "N13 T7 H33"], &schedules)
}

/// Matrix units, as `steps` or `persistent`. One matrix and several along rows and columns, one plane and several, one
/// k-split and several; blocks of K with and without a remainder. For matrices of 8 and 16, planes of 8 and 32.
///
/// Without clips: at a clip the gradient is discontinuous, and rounding to 16 bits decides.
pub fn matrices(kind: &str, dtype: FloatKind) -> Cases {
    let schedules = [
        "rows=16 width=1 n_threads=64 n_per_thread=2 k_splits=1 block_k=128",
        "rows=32 width=1 n_threads=32 n_per_thread=1 k_splits=2 block_k=32",
        "rows=16 width=1 n_threads=64 n_per_thread=1 k_splits=2 block_k=48",
        "rows=48 width=1 n_threads=32 n_per_thread=1 k_splits=1 block_k=16",
    ];
    let schedules = schedules.map(|tile| format!("{kind} {tile} matrix"));
    let schedules: Vec<&str> = schedules.iter().map(String::as_str).collect();
    let sizes = [
        "N5 T4 H48",
        "N1 T1 H16",
        "N17 T3 H32",
        "N50 T2 H80",
        "N3 T5 H112",
    ];
    let sizes = sizes.map(|size| format!("{size} 16-bits"));
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    covering(dtype, 2, &sizes, &schedules, OPTIONS)
}

/// A sequence kernel with and without a resident weight, and step kernels.
pub const KINDS: [&str; 3] = [
    "sequence rows=4 width=4 n_threads=32 k_splits=2 resident",
    "sequence rows=4 width=4 n_threads=32 k_splits=2",
    "steps rows=4 width=4 n_threads=16 n_per_thread=2 k_splits=2 block_k=16",
];

/// 16-bit types, by sequence kernels and step kernels.
pub fn sixteen_bits() -> Cases {
    let sizes = ["N3 T5 H7 16-bits", "N5 T4 H33 16-bits"];
    covering(FloatKind::F16, 2, &sizes, &["inferred", KINDS[2]], OPTIONS)
}

/// All optional tensors at once. The small ones then share a buffer, because a kernel binds at most seven.
pub fn all_tensors(dtype: FloatKind) -> Cases {
    let options: &[&[&str]] = &[
        &["", "before"],
        &["zoneout-per-unit", "zoneout-per-step", ""],
        &["", "+in-place"],
        &["start-states", "start-zeros", ""],
        &["", "time"],
        &["", "reverse"],
    ];
    let size = ["N5 T3 H33 mask skips +inference 16-bits"];
    covering(dtype, 3, &size, &KINDS, options)
}

/// States too large for one cube, with both resets.
pub fn large(h: usize) -> Cases {
    let case = |reset| Case::new(&format!("N5 T3 H{h} projected mask skips {reset}"));
    ["", "before"]
        .map(|reset| (Kernels::f32(Strategy::Inferred), case(reset)))
        .into()
}

/// Every activation in every gate, clipped and not.
pub fn activations() -> Cases {
    let clipped = |case: &Case| {
        [
            case.with("projected"),
            case.with("projected clip-gates mask skips"),
        ]
    };
    let cases = matrix::activations();
    let cases = cases.iter().flat_map(clipped);
    cases
        .map(|case| (Kernels::f32(Strategy::Inferred), case))
        .collect()
}

/// One value of each input or of the upstream gradient is not finite. Some rows start again after it.
///
/// WGSL allows a compiler to assume that there are none. With WGSL these tests only show what this driver does.
pub fn nonfinite() -> Cases {
    // Five terms in two k-splits of three: the sixth term does not exist and must not add the infinity of another one.
    let schedules = [
        "sequence rows=2 width=2 n_threads=4 k_splits=2 resident",
        "sequence rows=2 width=2 n_threads=4 k_splits=2",
        "steps rows=2 width=2 n_threads=4 n_per_thread=1 k_splits=2 block_k=4",
    ];
    let tensors = [
        "x",
        "h0",
        "w_hh",
        "last-of-w_hh",
        "b_ih",
        "b_hh",
        "recurrent_mask",
        "d_y",
    ];
    let values =
        tensors.map(|tensor| ["nan", "neginf"].map(|value| format!("{value}-in-{tensor}")));
    let values: Vec<&str> = values.iter().flatten().map(String::as_str).collect();
    let options: &[&[&str]] = &[
        &values,
        // Activations that map infinities to finite values, and some that compare.
        &["", "before takes activations-2 clip-state time reverse"],
        &["skips", "start-states", "start-zeros", "sorted-lengths"],
    ];
    let mut cases = covering(FloatKind::F32, 3, &["N3 T4 H5 mask"], &schedules, options);
    // One row has no valid step then. Sequence kernels multiply its mask by zero in the backward pass.
    cases.retain(|(_, case)| !(case.has("skips") && case.id().contains("in-recurrent_mask")));
    cases
}
