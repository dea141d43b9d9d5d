//! Times of a step of Opus' GRUs, in gru-cpu and in Opus' own functions. Both are interleaved in this process.
//!
//! ```sh
//! python benches/models/opus.py DIR
//! LIBRARY_PATH=DIR/opus LD_LIBRARY_PATH=DIR/opus cargo run --release -p gru-benches --features opus --bin opus
//! ```

use gru_cpu::{Stack, StackLayer, StackStream, Weights, spec::Precision};
use std::{
    ffi::{CStr, c_char, c_int},
    hint::black_box,
    sync::Arc,
    time::Instant,
};

#[link(name = "opus_grus")]
unsafe extern "C" {
    fn opus_grus() -> c_int;
    fn opus_name(gru: c_int) -> *const c_char;
    fn opus_inputs(gru: c_int) -> c_int;
    fn opus_units(gru: c_int) -> c_int;
    fn opus_weights(gru: c_int, w_ih: *mut f32, w_hh: *mut f32, biases: *mut f32) -> c_int;
    fn opus_step(gru: c_int, state: *mut f32, x: *const f32);
    fn opus_float_step(
        w_ih: *const f32,
        w_hh: *const f32,
        biases: *const f32,
        inputs: c_int,
        units: c_int,
        state: *mut f32,
        x: *const f32,
    );
}

const STEPS: usize = 100;
const ROUNDS: usize = 301;

fn main() {
    println!("| GRU | I | H | bits | Opus, µs | gru-cpu, µs | gru-cpu / Opus, quartiles |");
    println!("|---|---|---|---|---|---|---|");
    // SAFETY: `opus.c` declares these functions. It is called from this thread only.
    let count = unsafe { opus_grus() };
    assert!(count > 0, "Opus rejects its weights");
    for gru in 0..count {
        compare(gru);
    }
}

fn compare(gru: c_int) {
    // SAFETY: this GRU exists, and its name is a constant.
    let (name, inputs, units) = unsafe {
        let name = CStr::from_ptr(opus_name(gru));
        (name.to_string_lossy(), opus_inputs(gru), opus_units(gru))
    };
    let (i, h) = (inputs as usize, units as usize);
    let (mut w_ih, mut w_hh) = (vec![0.0f32; i * 3 * h], vec![0.0f32; h * 3 * h]);
    let mut biases = vec![0.0f32; 6 * h];
    // SAFETY: the slices have these sizes.
    let has_8_bits = unsafe {
        opus_weights(
            gru,
            w_ih.as_mut_ptr(),
            w_hh.as_mut_ptr(),
            biases.as_mut_ptr(),
        )
    } != 0;
    let x: Vec<f32> = (0..STEPS * i).map(|k| (k as f32 * 12.9898).sin()).collect();
    let [ours_ih, ours_hh, ours_b] = [&w_ih, &w_hh, &biases].map(|all| reordered(all, h));
    let weights = Weights {
        b_ih: Some(&ours_b[..3 * h]),
        b_hh: Some(&ours_b[3 * h..]),
        ..Weights::new(Some(&ours_ih), &ours_hh)
    };
    let mut state = vec![0.0f32; h];
    for (precision, bits) in [(Precision::Int8, 8), (Precision::Full, 32)] {
        if bits == 8 && !has_8_bits {
            continue;
        }
        let stack = Stack::new(precision, [i, h], 1, &[StackLayer::new(weights)]);
        let mut stream = StackStream::new(Arc::new(stack), 1);
        let ours = &mut |x: &[f32]| {
            black_box(stream.step(x));
        };
        let opus = &mut |x: &[f32]| {
            let (x, state) = (x.as_ptr(), state.as_mut_ptr());
            // SAFETY: a row of x and the state have the sizes of this GRU, and so do the weights.
            unsafe {
                if bits == 8 {
                    opus_step(gru, state, x);
                } else {
                    let [w_ih, w_hh, biases] = [&w_ih, &w_hh, &biases].map(|all| all.as_ptr());
                    opus_float_step(w_ih, w_hh, biases, inputs, units, state, x);
                }
            }
        };
        let rounds = (0..ROUNDS).map(|round| {
            // Each is first in every second round.
            if round % 2 == 0 {
                [time(&x, i, ours), time(&x, i, opus)]
            } else {
                let opus = time(&x, i, opus);
                [time(&x, i, ours), opus]
            }
        });
        let rounds: Vec<[f64; 2]> = rounds.collect();
        let quartile = |of: fn(&[f64; 2]) -> f64, quarter: usize| {
            let mut all: Vec<f64> = rounds.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[quarter * (ROUNDS - 1) / 4]
        };
        let [low, middle, high] = [1, 2, 3].map(|quarter| quartile(|t| t[0] / t[1], quarter));
        println!(
            "| {name} | {i} | {h} | {bits} | {:.2} | {:.2} | {middle:.2} ({low:.2} to {high:.2}) |",
            quartile(|t| t[1], 2),
            quartile(|t| t[0], 2),
        );
    }
}

/// Microseconds of a step.
fn time(x: &[f32], i: usize, step: &mut dyn FnMut(&[f32])) -> f64 {
    let start = Instant::now();
    x.chunks_exact(i).for_each(step);
    start.elapsed().as_secs_f64() * 1e6 / STEPS as f64
}

/// Rows of gates r, z, n from z, r, n.
fn reordered(all: &[f32], h: usize) -> Vec<f32> {
    let rows = all.chunks_exact(3 * h);
    rows.flat_map(|row| [&row[h..2 * h], &row[..h], &row[2 * h..]].concat())
        .collect()
}
