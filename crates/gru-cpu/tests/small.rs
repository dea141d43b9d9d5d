//! Every unsafe block of the scalar path at sizes that miri can run:
//!
//!     cargo +nightly miri test -p gru-cpu --no-default-features --test small
//!
//! The test also compares training with inference, and the gradients from kept and from recomputed gates.

use gru_cpu::{
    Gradients, Gru, Inputs, Sequence, Weights,
    spec::{Activation, Activations, GruSpec, Layout, Order, Reset, Sizes},
    testing::Isa,
};

fn run(sizes: Sizes, layout: Layout, spec: GruSpec, options: bool) {
    let Sizes { n, t, i, h } = sizes;
    let gru = Gru {
        order: Order {
            layout,
            ..Order::default()
        },
        ..Gru::new(sizes, spec)
    };
    let some = |len: usize| -> Vec<f32> { (0..len).map(|k| (k % 7) as f32 / 8.0 - 0.4).collect() };
    let (x, h0, w_ih, w_hh) = (
        some(n * t * i),
        some(n * h),
        some(i * 3 * h),
        some(h * 3 * h),
    );
    let (bias, mask) = (some(3 * h), some(n * h));
    let valid: Vec<f32> = (0..n * t).map(|k| (k % 3 > 0).into()).collect();
    let take = some(n * t * h);
    let inputs = Inputs {
        sequence: Sequence {
            h0: Some(&h0),
            recurrent_mask: options.then_some(&mask),
            step_mask: options.then_some(&valid),
            zoneout: options.then_some(&take),
            ..Sequence::new(&x)
        },
        weights: Weights {
            b_ih: Some(&bias),
            b_hh: Some(&bias),
            ..Weights::new(Some(&w_ih), &w_hh)
        },
    };
    let nan = |len: usize| vec![f32::NAN; len];
    let (mut states, mut inference) = (nan(n * t * h), nan(n * t * h));
    let mut saved = nan(n * t * h * spec.saved_per_unit());
    gru.forward(&inputs, &mut states, Some(&mut saved));
    gru.forward(&inputs, &mut inference, None);
    assert_eq!(states, inference);
    let up = some(n * t * h);
    let [kept, lean] = [Some(&saved[..]), None].map(|saved| {
        let mut d = [x.len(), h0.len(), w_ih.len(), w_hh.len(), 3 * h, 3 * h].map(nan);
        let [dx, dh0, dw_ih, dw_hh, db_ih, db_hh] = &mut d;
        let to = Gradients {
            x: Some(dx),
            h0: Some(dh0),
            w_ih: Some(dw_ih),
            w_hh: Some(dw_hh),
            b_ih: Some(db_ih),
            b_hh: Some(db_hh),
            start_state: None,
        };
        gru.backward(&inputs, &states, saved, &up, to);
        d
    });
    // The rule of `kernels`: the terms of a sum may be as large as the tensor's largest number.
    for (kept, lean) in kept.iter().zip(&lean) {
        assert_eq!(kept.len(), lean.len());
        let allowed = 5e-6 * kept.iter().fold(1.0f32, |m, v| m.max(v.abs()));
        for (kept, lean) in kept.iter().zip(lean) {
            assert!(
                (kept - lean).abs() <= allowed,
                "{kept} kept, {lean} recomputed"
            );
        }
    }
}

#[test]
fn scalar_at_odd_sizes() {
    let uncommon = Activations {
        reset: Activation::Softsign,
        ..Activations::default()
    };
    Isa::Scalar.run(|| {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            for layout in [Layout::BatchMajor, Layout::TimeMajor] {
                let spec = GruSpec::default().with_reset(reset);
                for (n, t, i, h) in [(1, 1, 1, 1), (1, 2, 2, 3), (5, 3, 1, 3), (3, 5, 2, 7)] {
                    run(Sizes { n, t, i, h }, layout, spec, false);
                }
                let sizes = Sizes {
                    n: 5,
                    t: 3,
                    i: 2,
                    h: 3,
                };
                run(sizes, layout, spec, true);
                run(sizes, layout, spec.with_activations(uncommon), true);
                run(sizes, layout, spec.with_clip_gates(Some(0.5)), false);
            }
        }
    });
}
