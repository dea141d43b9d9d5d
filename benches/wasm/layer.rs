//! One GRU layer on WebAssembly, for `speed.mjs`. This module makes the arrays, and JavaScript reads
//! them.

use std::sync::Mutex;

use gru_cpu::{
    Stack, StackInputs, StackLayer, Weights,
    spec::{Layout, Precision},
};

/// The measured layer, and its arrays in the order of [`pointer`].
struct Layer {
    n: usize,
    t: usize,
    stack: Stack,
    /// x `[N, T, I]`, w_ih `[I, 3H]`, w_hh `[H, 3H]`, b_ih `[3H]`, b_hh `[3H]`, states `[N, T, H]`,
    /// and the last states `[N, H]`.
    arrays: [Vec<f32>; 7],
}

static LAYER: Mutex<Option<Layer>> = Mutex::new(None);

/// Makes a layer of these sizes, with values in the usual range of weights.
#[unsafe(no_mangle)]
pub extern "C" fn prepare(n: usize, t: usize, i: usize, h: usize) {
    let mut state = 1u32;
    let mut random = |count: usize, scale: f32| -> Vec<f32> {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| scale * next()).collect()
    };
    let scale = 1.0 / (h as f32).sqrt();
    let arrays = [
        random(n * t * i, 1.0),
        random(3 * h * i, scale),
        random(3 * h * h, scale),
        random(3 * h, scale),
        random(3 * h, scale),
        vec![f32::NAN; n * t * h],
        vec![f32::NAN; n * h],
    ];
    let weights = Weights {
        b_ih: Some(&arrays[3]),
        b_hh: Some(&arrays[4]),
        ..Weights::new(Some(&arrays[1]), &arrays[2])
    };
    let stack = Stack::new(Precision::Full, [i, h], 1, &[StackLayer::new(weights)]);
    *LAYER.lock().expect("one thread") = Some(Layer {
        n,
        t,
        stack,
        arrays,
    });
}

/// The address of an array.
#[unsafe(no_mangle)]
pub extern "C" fn pointer(array: usize) -> *const f32 {
    let layer = LAYER.lock().expect("one thread");
    layer.as_ref().expect("`prepare` was called").arrays[array].as_ptr()
}

/// The length of an array.
#[unsafe(no_mangle)]
pub extern "C" fn length(array: usize) -> usize {
    let layer = LAYER.lock().expect("one thread");
    layer.as_ref().expect("`prepare` was called").arrays[array].len()
}

/// Computes the states of all steps from a zero state.
#[unsafe(no_mangle)]
pub extern "C" fn forward() {
    let mut layer = LAYER.lock().expect("one thread");
    let layer = layer.as_mut().expect("`prepare` was called");
    let [x, .., states, last] = &mut layer.arrays;
    let (sizes, inputs) = ([layer.n, layer.t], StackInputs::new(x));
    layer
        .stack
        .forward(Layout::BatchMajor, sizes, inputs, states, last);
}
