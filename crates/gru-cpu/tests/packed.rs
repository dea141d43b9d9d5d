//! Packed weights and single steps: the results of a whole call, without allocation.

mod support;

use gru_cpu::{
    Element, Gru, PackedWeights, Sequence, Stack, StackLayer, StackStream, Stream, Weights,
    spec::{Direction, GruSpec, Layout, Lengths, Order, Precision, Reset, Sizes, Update},
    testing::Isa,
};
use std::{
    alloc::{GlobalAlloc, Layout as Memory, System},
    cell::Cell,
    sync::Arc,
};
use support::{Case, OPTIONAL};

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

fn pack<E: Element>(case: &Case<E>) -> PackedWeights<E> {
    let Sizes { i, h, .. } = case.gru.sizes;
    PackedWeights::new(&case.gru.spec, i, h, case.inputs().weights)
}

fn sequence<E: Element>(case: &Case<E>) -> Sequence<'_, E> {
    case.inputs().sequence
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
fn packed_weights_give_the_bits_of_a_call() {
    fn check<E: Element + std::fmt::Debug>(case: &Case<E>) {
        let weights = pack(case);
        let Sizes { n, t, h, .. } = case.gru.sizes;
        // Twice: a call leaves no trace in the weights.
        for _ in 0..2 {
            let mut got = vec![E::nan(); n * t * h];
            let (order, all) = (case.gru.order, &Lengths::All);
            weights.forward_in(order, n, t, all, sequence(case), &mut got);
            assert_eq!(got, case.states(), "{:?}", case.gru);
            if case.gru.order == Order::default() {
                got.fill(E::nan());
                weights.forward(n, t, sequence(case), &mut got);
                assert_eq!(got, case.states(), "{:?}", case.gru);
            }
        }
    }
    // Calls that pack their weights: with fewer rows they read them in place, and add in another order.
    for (n, t, i, h) in [
        (1, 25, 3, 5),
        (2, 24, 0, 33),
        (13, 13, 7, 40),
        (33, 8, 20, 70),
    ] {
        for (spec, order) in specs() {
            for present in [&OPTIONAL[..], &["w_ih"], &["h0", "b_hh"], &[]] {
                let sizes = Sizes { n, t, i, h };
                let case = Case::of(Gru { sizes, order, spec }, present);
                for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                    isa.run(|| {
                        check(&case.cast::<f32>());
                        check(&case);
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
                        let case = Case::of(gru, present);
                        isa.run(|| small(&case.cast::<f32>()));
                        isa.run(|| small(&case));
                    }
                }
            }
        }
    }
    fn small<E: Element + std::fmt::Debug>(case: &Case<E>) {
        let Sizes { n, t, h, .. } = case.gru.sizes;
        let (weights, order) = (pack(case), case.gru.order);
        let run = |sequence| {
            let mut states = vec![E::nan(); t * h];
            weights.forward_in(order, n, t, &Lengths::All, sequence, &mut states);
            states
        };
        let valid = vec![E::one(); n * t];
        let by_tiles = Sequence {
            step_mask: Some(&valid),
            ..sequence(case)
        };
        let expected = run(by_tiles);
        assert_eq!(run(sequence(case)), expected, "{:?}", case.gru);
        if t >= packed_from(case.gru.sizes.h) {
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
            let mut stream = Stream::new(Arc::new(pack(&case)), n);
            assert!(stream.state().iter().all(|&v| v == 0.0));
            stream.state_mut().copy_from_slice(case.tensor("h0"));
            for _ in 0..4 {
                let mut expected = vec![f32::NAN; n * h];
                pack(&case).forward(n, 1, sequence(&case), &mut expected);
                assert_eq!(stream.step(case.tensor("x")), expected, "{spec:?}");
                case.tensor("h0").copy_from_slice(&expected);
                case.tensor("x").rotate_right(1);
            }
        }
    }
}

#[test]
fn a_step_does_not_allocate() {
    for (spec, _) in specs() {
        let (n, t, i, h) = (3, 1, 4, 50);
        let case = Case::new(Sizes { n, t, i, h }, spec, &["w_ih", "b_ih", "b_hh"]);
        let mut stream = Stream::new(Arc::new(pack(&case)), 3);
        let x = case.inputs().sequence.x;
        let before = ALLOCATIONS.get();
        for _ in 0..5 {
            stream.step(x);
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{spec:?}");
    }
}

#[test]
fn a_step_of_a_stack_does_not_allocate() {
    for precision in [Precision::Full, Precision::Bf16, Precision::Int8] {
        for (spec, _) in specs() {
            let (n, t, i, h) = (3, 1, 50, 50);
            let case = Case::new(Sizes { n, t, i, h }, spec, &["w_ih", "b_ih", "b_hh"]);
            let case = case.cast::<f32>();
            let layer = StackLayer {
                spec,
                direction: Direction::Forward,
                zoneout: 0.25,
                weights: case.inputs().weights,
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
fn packed_weights_are_a_copy() {
    let (n, t, i, h) = (2, 3, 4, 9);
    let mut case = Case::new(Sizes { n, t, i, h }, GruSpec::default(), &["w_ih"]);
    let weights = pack(&case);
    let (mut before, mut got) = (vec![f64::NAN; 2 * 3 * 9], vec![f64::NAN; 2 * 3 * 9]);
    weights.forward(2, 3, sequence(&case), &mut before);
    case.tensor("w_hh").fill(f64::NAN);
    weights.forward(2, 3, sequence(&case), &mut got);
    assert_eq!(got, before);
}

#[test]
fn nothing_is_asked_of_no_rows_and_no_units() {
    let weights = |h: usize| {
        let w_hh = vec![0.0f32; h * 3 * h];
        let w_ih = vec![0.0; 2 * 3 * h];
        PackedWeights::new(&GruSpec::default(), 2, h, Weights::new(Some(&w_ih), &w_hh))
    };
    weights(4).forward(0, 3, Sequence::new(&[]), &mut []);
    assert!(Stream::new(Arc::new(weights(4)), 0).step(&[]).is_empty());
    assert!(
        Stream::new(Arc::new(weights(0)), 1)
            .step(&[0.0; 2])
            .is_empty()
    );
}

#[test]
#[should_panic(expected = "gru_cpu::Stream::step: x has the wrong number of elements")]
fn a_short_row_is_refused() {
    let (n, t, i, h) = (2, 1, 4, 9);
    let case = Case::new(Sizes { n, t, i, h }, GruSpec::default(), &["w_ih"]);
    Stream::new(Arc::new(pack(&case)), 2).step(&[0.0; 4]);
}

#[test]
#[should_panic(expected = "gru_cpu::PackedWeights::new: w_hh has the wrong number of elements")]
fn a_short_weight_is_refused() {
    PackedWeights::new(&GruSpec::default(), 0, 3, Weights::new(None, &[0.0f32; 26]));
}

#[test]
#[should_panic(expected = "gru_cpu::PackedWeights::forward: the sizes exceed the address space")]
fn more_rows_than_memory_can_be_are_refused() {
    let weights = PackedWeights::new(&GruSpec::default(), 0, 1, Weights::new(None, &[0.0f32; 3]));
    weights.forward(usize::MAX, 2, Sequence::new(&[]), &mut []);
}
