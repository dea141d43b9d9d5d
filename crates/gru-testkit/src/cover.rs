//! Covering arrays: few rows of options in which every pair, or every triple, of option values occurs.
//!
//! Sampling by `k % 3` or `step_by` does not cover all pairs: if the periods of two options have a
//! common factor, some of their values never occur together.

use std::collections::BTreeSet;

/// Values of some parameters, as pairs of parameter and value.
pub type Combination = Vec<(usize, usize)>;

/// Candidates for each row. The best candidate is used.
const ATTEMPTS: usize = 8;

/// Rows with one value per parameter. Every combination of values of any `strength` parameters occurs in
/// a row. `sizes` contains the number of values of each parameter, whose values are `0..size`.
///
/// Greedy and deterministic: the rows depend only on the arguments. Row 0 is all zeros.
///
/// # Panics
///
/// If `strength` is 0 or a parameter has no value.
pub fn cover(sizes: &[usize], strength: usize) -> Vec<Vec<usize>> {
    let first = vec![0; sizes.len()];
    let mut left = every(sizes, strength);
    left.retain(|combination| !contains(&first, combination));
    let mut rows = vec![first];
    while let Some(start) = left.first() {
        let attempts = (0..ATTEMPTS).map(|attempt| row(sizes, &left, start, rows.len() + attempt));
        let covered = |row: &Vec<usize>| left.iter().filter(|c| contains(row, c)).count();
        let best = attempts
            .map(|row| (covered(&row), row))
            .reduce(|best, next| if next.0 > best.0 { next } else { best });
        let (_, best) = best.expect("there is at least one attempt");
        left.retain(|combination| !contains(&best, combination));
        rows.push(best);
    }
    rows
}

fn contains(row: &[usize], combination: &Combination) -> bool {
    combination
        .iter()
        .all(|&(parameter, value)| row[parameter] == value)
}

/// All combinations of `strength` parameters, or of all parameters if there are fewer.
fn every(sizes: &[usize], strength: usize) -> BTreeSet<Combination> {
    assert!(strength > 0, "cover: strength: expected at least 1, got 0");
    assert!(
        !sizes.contains(&0),
        "cover: sizes: expected at least 1 value each, got {sizes:?}"
    );
    let strength = strength.min(sizes.len());
    let mut partial: Vec<Combination> = vec![Vec::new()];
    for _ in 0..strength {
        let longer = |combination: Combination| {
            let from = combination
                .last()
                .map_or(0, |&(parameter, _)| parameter + 1);
            let pairs =
                (from..sizes.len()).flat_map(|p| (0..sizes[p]).map(move |value| (p, value)));
            let longer: Vec<Combination> = pairs
                .map(|pair| [&combination[..], &[pair]].concat())
                .collect();
            longer
        };
        partial = partial.into_iter().flat_map(longer).collect();
    }
    partial.into_iter().collect()
}

/// A row that contains `start`. The other parameters follow from `seed` on. Each gets the value that
/// completes the most combinations of `left`.
fn row(
    sizes: &[usize],
    left: &BTreeSet<Combination>,
    start: &Combination,
    seed: usize,
) -> Vec<usize> {
    let mut row: Vec<Option<usize>> = vec![None; sizes.len()];
    for &(parameter, value) in start {
        row[parameter] = Some(value);
    }
    for offset in 0..sizes.len() {
        let parameter = (seed + offset) % sizes.len();
        if row[parameter].is_some() {
            continue;
        }
        let mut gains = vec![0; sizes[parameter]];
        for combination in left {
            let here = combination.iter().find(|(p, _)| *p == parameter);
            let mut others = combination.iter().filter(|(p, _)| *p != parameter);
            if let Some(&(_, value)) = here
                && others.all(|&(p, value)| row[p] == Some(value))
            {
                gains[value] += 1;
            }
        }
        // Different values win ties in different rows, so that rows do not repeat their first values.
        let size = sizes[parameter];
        let values = (0..size).map(|k| (k + seed + offset) % size);
        row[parameter] = values.max_by_key(|&value| gains[value]);
    }
    row.into_iter()
        .map(|value| value.expect("each parameter got a value"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 7] = [3, 2, 4, 2, 3, 2, 2];

    /// The number of different values of some columns.
    fn distinct(rows: &[Vec<usize>], columns: &[usize]) -> usize {
        let values = rows.iter();
        let values = values.map(|row| columns.iter().map(|&c| row[c]).collect::<Vec<_>>());
        values.collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn every_pair_and_every_triple_occurs() {
        let pairs = cover(&SIZES, 2);
        let triples = cover(&SIZES, 3);
        for (a, of_a) in SIZES.iter().enumerate() {
            for (b, of_b) in SIZES.iter().enumerate().take(a) {
                assert_eq!(distinct(&pairs, &[a, b]), of_a * of_b, "{a} {b}");
                for (c, of_c) in SIZES.iter().enumerate().take(b) {
                    let expected = of_a * of_b * of_c;
                    assert_eq!(distinct(&triples, &[a, b, c]), expected, "{a} {b} {c}");
                }
            }
        }
    }

    /// No array can be smaller than the product of the largest sizes. These arrays are almost as small.
    #[test]
    fn rows_are_few() {
        let pairs = cover(&SIZES, 2).len();
        assert!((12..=14).contains(&pairs), "{pairs} rows for pairs");
        let triples = cover(&SIZES, 3).len();
        assert!((36..=48).contains(&triples), "{triples} rows for triples");
        assert_eq!(cover(&[2; 12], 2), cover(&[2; 12], 2));
    }

    #[test]
    fn few_parameters_get_their_product() {
        assert_eq!(cover(&[2, 3], 3).len(), 6);
        assert_eq!(cover(&[4], 2).len(), 4);
        assert_eq!(cover(&[], 2), [Vec::<usize>::new()]);
    }
}
