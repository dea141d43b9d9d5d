//! Interleaved timing of several functions, so that a disturbance of the machine affects all of them.

use std::time::Instant;

/// A function to time, of the number of a sample.
pub type Timed<'a> = Box<dyn FnMut(usize) + 'a>;

/// Runs each of `things` with the arguments from 0 to `count`. All functions run with one argument
/// before any runs with the next. Returns the seconds of each run, `[function][argument]`.
pub fn in_turn(count: usize, mut things: Vec<Timed<'_>>) -> Vec<Vec<f64>> {
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

/// The median, or NaN without values.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
