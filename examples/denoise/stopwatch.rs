//! Times of several things, taken in turn: what disturbs the machine disturbs all of them.

use std::time::Instant;

/// Runs each of `things` once to warm up, then `rounds` times, one after the other, and gives the
/// seconds of every run, `[thing][round]`.
pub fn in_turn(rounds: usize, things: &mut [&mut dyn FnMut()]) -> Vec<Vec<f64>> {
    things.iter_mut().for_each(|thing| thing());
    let mut times = vec![Vec::with_capacity(rounds); things.len()];
    for _ in 0..rounds {
        for (thing, times) in things.iter_mut().zip(&mut times) {
            let start = Instant::now();
            thing();
            times.push(start.elapsed().as_secs_f64());
        }
    }
    times
}

/// The middle one; NaN of none.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
