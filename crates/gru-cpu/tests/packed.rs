//! Stacks of one layer in full precision: the bits of a call, and steps without allocation.

mod support;

use gru_cpu::{
    Stack, StackInputs, StackLayer, StackStream,
    spec::{Precision, Sizes},
    testing::Isa,
};
use gru_testkit::matrix::covering;
use std::{
    alloc::{GlobalAlloc, Layout as Memory, System},
    cell::Cell,
    sync::Arc,
};
use support::Problem;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: it forwards to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Memory) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Memory) {
        // SAFETY: `at` came from `alloc` above, that is, from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn each_isa(run: impl Fn()) {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        isa.run(&run);
    }
}

#[test]
fn a_layer_gives_the_bits_of_a_call() {
    // Calls that pack their weights: with fewer rows they read them in place, and add in another order.
    let sizes: &[&str] = &[
        "N1 T25 I3 H5",
        "N2 T24 I0 H33",
        "N13 T13 I7 H40",
        "N33 T8 I20 H70",
    ];
    let rules = [
        "",
        "before",
        "before takes time reverse",
        "takes time reverse",
    ];
    let given = ["skips start-states", "no-h0 no-b_ih no-b_hh", "no-b_ih"];
    for case in covering(&[sizes, &rules, &given], 3) {
        let of = Problem::<f32>::new(&case.draw());
        each_isa(|| {
            let stack = of.stack(Precision::Full);
            // Twice: a call leaves no trace in the weights.
            for _ in 0..2 {
                let got = of.stack_states(&stack, of.stack_inputs());
                assert_eq!(got, of.states(), "{}", case.id());
            }
        });
    }
}

/// Calls with fewer rows read weights in place.
fn packed_from(h: usize) -> usize {
    if h <= 64 { 8 } else { 64 }
}

/// One row of few units has a kernel of its own, but not with a step mask, which here skips nothing. The calls have every
/// number of steps around its limits, inputs up to its limit and past it, and units that do not fill a vector.
#[test]
fn small_layers_give_the_bits_of_tiles() {
    let calls: &[&str] = &[
        "T1 I8", "T2 I8", "T3 I5", "T4 I1", "T5 I9", "T8 I6", "T73 I65", "T7 I64", "T7 I65",
    ];
    let units = [1, 4, 8, 11, 16, 32, 50, 64, 65, 128, 250, 257].map(|h| format!("N1 H{h}"));
    let units: Vec<&str> = units.iter().map(String::as_str).collect();
    let options = ["", "takes time reverse", "no-h0 no-b_ih no-b_hh"];
    for case in covering(&[calls, &units, &options], 3) {
        let of = Problem::<f32>::new(&case.draw());
        let Sizes { t, h, .. } = of.gru.sizes;
        each_isa(|| {
            let stack = of.stack(Precision::Full);
            let valid = vec![1.0; t];
            let by_tiles = StackInputs {
                step_mask: Some(&valid),
                ..of.stack_inputs()
            };
            let expected = of.stack_states(&stack, by_tiles);
            let got = of.stack_states(&stack, of.stack_inputs());
            assert_eq!(got, expected, "{}", case.id());
            if t >= packed_from(h) {
                assert_eq!(of.states(), expected, "{}, packed in the call", case.id());
            }
        });
    }
}

#[test]
fn a_step_does_not_allocate() {
    for precision in [Precision::Full, Precision::Bf16, Precision::Int8] {
        for words in ["", "before", "before takes clip-gates", "takes clip-state"] {
            let of = Problem::<f32>::of(&format!("N3 T1 I50 H50 {words}"));
            let layer = StackLayer {
                spec: of.gru.spec,
                zoneout: 0.25,
                ..StackLayer::new(of.inputs().weights)
            };
            let stack = Stack::new(precision, [50, 50], 1, &[layer, layer]);
            let mut stream = StackStream::new(Arc::new(stack), 3);
            let x = of.inputs().sequence.x;
            let before = ALLOCATIONS.get();
            for _ in 0..5 {
                stream.step(x);
            }
            assert_eq!(ALLOCATIONS.get() - before, 0, "{precision:?}, {words}");
        }
    }
}
