//! The same inputs give the same bits.

use super::support::{Given, Problem, Ran, client, not_allowed, run, trial};
use gru_cube::Strategy;
use gru_spec::{GruSpec, Reset};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![trial(
        "determinism/twice-the-same-bits",
        twice_the_same_bits,
    )]
}

fn twice_the_same_bits() -> Ran {
    let before = GruSpec::default().with_reset(Reset::BeforeMatmul);
    for (spec, size) in [
        (GruSpec::default(), (5, 7, 33)),
        (before, (5, 7, 33)),
        (GruSpec::default(), (3, 4, 300)),
    ] {
        let problem = Problem::new(size, spec, Given::ALL, 3);
        let once =
            || run::<f32>(&client(), &problem, Strategy::Inferred, false).map_err(not_allowed);
        let (first, second) = (once()?, once()?);
        // Every value is finite (the oracle tests check that), so equal values have equal bits, except for
        // the sign of zero.
        assert_eq!(first, second, "{size:?}");
        assert!(first.states.iter().any(|&x| x != 0.0));
    }
    Ok(())
}
