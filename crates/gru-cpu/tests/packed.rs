//! Stacks of one layer in full precision: the bits of a call, and steps without allocation.

mod support;

use gru_cpu::{
    Gru, Stack, StackInputs, StackLayer, StackStream, Weights,
    spec::{Direction, GruSpec, Layout, Order, Precision, Reset, Sizes, Update},
    testing::Isa,
};
use std::{
    alloc::{GlobalAlloc, Layout as Memory, System},
    cell::Cell,
    sync::Arc,
};
use support::Case;

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

/// Tensors of a stack.
const TENSORS: [&str; 7] = [
    "h0",
    "w_ih",
    "b_ih",
    "b_hh",
    "step_mask",
    "starts",
    "start_state",
];

/// The layer of a case.
fn pack(case: &Case<f32>) -> Stack {
    let Gru { sizes, order, spec } = case.gru;
    let layer = StackLayer {
        spec,
        direction: order.direction,
        ..StackLayer::new(case.inputs().weights)
    };
    Stack::new(Precision::Full, [sizes.i, sizes.h], 1, &[layer])
}

/// The inputs of a case.
fn inputs(case: &Case<f32>) -> StackInputs<'_> {
    let sequence = case.inputs().sequence;
    StackInputs {
        state: sequence.h0,
        step_mask: sequence.step_mask,
        starts: sequence.starts,
        start_state: sequence.start_state,
        ..StackInputs::new(sequence.x)
    }
}

/// The states after every step.
fn run(stack: &Stack, case: &Case<f32>, inputs: StackInputs<'_>) -> Vec<f32> {
    let Sizes { n, t, h, .. } = case.gru.sizes;
    let (mut y, mut last) = (vec![f32::NAN; n * t * h], vec![f32::NAN; n * h]);
    stack.forward(case.gru.order.layout, [n, t], inputs, &mut y, &mut last);
    y
}

fn specs() -> Vec<(GruSpec, Order)> {
    let after = GruSpec::default();
    let before = after.with_reset(Reset::BeforeMatmul);
    let other = before.with_update(Update::Takes).with_clip_gates(Some(0.7));
    let (usual, reverse) = (
        Order::default(),
        Order {
            layout: Layout::TimeMajor,
            direction: Direction::Reverse,
        },
    );
    vec![
        (after, usual),
        (before, usual),
        (other, reverse),
        (other.with_reset(Reset::AfterMatmul), reverse),
    ]
}

#[test]
fn a_layer_gives_the_bits_of_a_call() {
    // Calls that pack their weights: with fewer rows they read them in place, and add in another order.
    for (n, t, i, h) in [
        (1, 25, 3, 5),
        (2, 24, 0, 33),
        (13, 13, 7, 40),
        (33, 8, 20, 70),
    ] {
        for (spec, order) in specs() {
            for present in [&TENSORS[..], &["w_ih"], &["w_ih", "h0", "b_hh"]] {
                let sizes = Sizes { n, t, i, h };
                let case = Case::of(Gru { sizes, order, spec }, present).cast();
                for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                    isa.run(|| {
                        let stack = pack(&case);
                        // Twice: a call leaves no trace in the weights.
                        for _ in 0..2 {
                            let got = run(&stack, &case, inputs(&case));
                            assert_eq!(got, case.states(), "{:?}", case.gru);
                        }
                    });
                }
            }
        }
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
    let takes = GruSpec::default().with_update(Update::Takes);
    let reverse = Order {
        layout: Layout::TimeMajor,
        direction: Direction::Reverse,
    };
    let orders = [(GruSpec::default(), Order::default()), (takes, reverse)];
    let calls = [
        (1, 8),
        (2, 8),
        (3, 5),
        (4, 1),
        (5, 9),
        (8, 6),
        (64 + 9, 65),
        (7, 64),
        (7, 65),
    ];
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for (t, i) in calls {
            for h in [1, 4, 8, 11, 16, 32, 50, 64, 65, 130] {
                for (spec, order) in orders {
                    for present in [&["h0", "w_ih", "b_ih", "b_hh"][..], &["w_ih"]] {
                        let gru = Gru {
                            sizes: Sizes { n: 1, t, i, h },
                            order,
                            spec,
                        };
                        isa.run(|| small(&Case::of(gru, present).cast()));
                    }
                }
            }
        }
    }
    fn small(case: &Case<f32>) {
        let Sizes { n, t, h, .. } = case.gru.sizes;
        let stack = pack(case);
        let valid = vec![1.0; n * t];
        let by_tiles = StackInputs {
            step_mask: Some(&valid),
            ..inputs(case)
        };
        let expected = run(&stack, case, by_tiles);
        assert_eq!(run(&stack, case, inputs(case)), expected, "{:?}", case.gru);
        if t >= packed_from(h) {
            assert_eq!(
                case.states(),
                expected,
                "{:?}, packed in the call",
                case.gru
            );
        }
    }
}

#[test]
fn steps_one_by_one_are_calls_of_one_step() {
    for (n, i, h) in [(1, 1, 32), (1, 5, 17), (1, 200, 12), (3, 4, 50), (9, 3, 8)] {
        for (spec, _) in specs() {
            let case = Case::new(
                Sizes { n, t: 1, i, h },
                spec,
                &["h0", "w_ih", "b_ih", "b_hh"],
            );
            let mut case = case.cast::<f32>();
            let mut stream = StackStream::new(Arc::new(pack(&case)), n);
            assert!(stream.state().iter().all(|&v| v == 0.0));
            stream.state_mut().copy_from_slice(case.tensor("h0"));
            for _ in 0..4 {
                let expected = run(&pack(&case), &case, inputs(&case));
                assert_eq!(stream.step(case.tensor("x")), expected, "{spec:?}");
                case.tensor("h0").copy_from_slice(&expected);
                case.tensor("x").rotate_right(1);
            }
        }
    }
}

#[test]
fn a_step_does_not_allocate() {
    for precision in [Precision::Full, Precision::Bf16, Precision::Int8] {
        for (spec, _) in specs() {
            let (n, t, i, h) = (3, 1, 50, 50);
            let case = Case::new(Sizes { n, t, i, h }, spec, &["w_ih", "b_ih", "b_hh"]);
            let case = case.cast::<f32>();
            let layer = StackLayer {
                spec,
                zoneout: 0.25,
                ..StackLayer::new(case.inputs().weights)
            };
            let stack = Stack::new(precision, [50, 50], 1, &[layer, layer]);
            let mut stream = StackStream::new(Arc::new(stack), 3);
            let x = case.inputs().sequence.x;
            let before = ALLOCATIONS.get();
            for _ in 0..5 {
                stream.step(x);
            }
            assert_eq!(ALLOCATIONS.get() - before, 0, "{precision:?}, {spec:?}");
        }
    }
}

#[test]
fn the_weights_are_a_copy() {
    let sizes = Sizes {
        n: 2,
        t: 3,
        i: 4,
        h: 9,
    };
    let mut case = Case::new(sizes, GruSpec::default(), &["w_ih"]).cast();
    let stack = pack(&case);
    let before = run(&stack, &case, inputs(&case));
    case.tensor("w_hh").fill(f32::NAN);
    assert_eq!(run(&stack, &case, inputs(&case)), before);
}

#[test]
#[should_panic(expected = "gru_cpu::Stack::forward: the sizes exceed the address space")]
fn more_rows_than_memory_can_be_are_refused() {
    let layer = StackLayer::new(Weights::new(Some(&[]), &[0.0; 3]));
    let stack = Stack::new(Precision::Full, [0, 1], 1, &[layer]);
    let no_inputs = StackInputs::new(&[]);
    stack.forward(
        Layout::BatchMajor,
        [usize::MAX, 2],
        no_inputs,
        &mut [],
        &mut [],
    );
}
