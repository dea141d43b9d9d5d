//! The largest difference of numbers, and its bound.

/// NaN if a difference is NaN.
pub fn largest(a: impl IntoIterator<Item = f64>, b: impl IntoIterator<Item = f64>) -> f64 {
    let pairs = a.into_iter().zip(b).map(|(a, b)| (a - b).abs());
    // `f64::max` would lose NaN.
    pairs.fold(
        0.0,
        |most: f64, d| {
            if d <= most || most.is_nan() { most } else { d }
        },
    )
}

#[track_caller]
pub fn within(what: &str, found: f64, bound: f64) {
    println!("{what}: {found:.3e} of {bound:.3e}");
    // NaN fails this comparison.
    assert!(found <= bound, "{what}: {found:e}, more than {bound:e}");
}
