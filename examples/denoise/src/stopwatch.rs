//! Times of several things, taken in turn: what disturbs the machine disturbs all of them.

use std::time::Instant;

/// Runs each of `things` with the numbers from 0 to `count`, all of them with one number before any
/// of them with the next, and gives the seconds of every run, `[thing][number]`.
pub fn in_turn(count: usize, things: &mut [&mut dyn FnMut(usize)]) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::with_capacity(count); things.len()];
    for k in 0..count {
        for (thing, times) in things.iter_mut().zip(&mut times) {
            let start = Instant::now();
            thing(k);
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
