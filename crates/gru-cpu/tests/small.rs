//! Every unsafe block of the scalar path at sizes that miri can run:
//!
//!     cargo +nightly miri test -p gru-cpu --no-default-features --test small
//!
//! The test also compares training with inference, and the gradients from kept and from recomputed gates.

mod support;

use gru_cpu::{
    Gru,
    spec::{Activation, Activations, GruSpec, Layout, Reset, Sizes},
    testing::Isa,
};
use support::{Case, Results, agree};

fn run([n, t, i, h]: [usize; 4], layout: Layout, spec: GruSpec, options: &[&str]) {
    let mut gru = Gru::new(Sizes { n, t, i, h }, spec);
    gru.order.layout = layout;
    let present = [&["h0", "w_ih", "b_ih", "b_hh"], options].concat();
    let case = Case::of(gru, &present).cast::<f32>();
    let [kept, lean] = [false, true].map(|lean| case.run(lean));
    let kept = kept.0.map(|of| of.into_iter().map(f64::from).collect());
    // The rule of `kernels`: the terms of a sum may be as large as the tensor's largest number.
    agree(
        &format!("recomputed, {gru:?}"),
        [0.0, 5e-6],
        &lean,
        &Results(kept),
    );
}

#[test]
fn scalar_at_odd_sizes() {
    let options = ["recurrent_mask", "step_mask", "zoneout"];
    let uncommon = Activations {
        reset: Activation::Softsign,
        ..Activations::default()
    };
    Isa::Scalar.run(|| {
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            for layout in [Layout::BatchMajor, Layout::TimeMajor] {
                let spec = GruSpec::default().with_reset(reset);
                for sizes in [[1, 1, 1, 1], [1, 2, 2, 3], [5, 3, 1, 3], [3, 5, 2, 7]] {
                    run(sizes, layout, spec, &[]);
                }
                let sizes = [5, 3, 2, 3];
                run(sizes, layout, spec, &options);
                run(sizes, layout, spec.with_activations(uncommon), &options);
                run(sizes, layout, spec.with_clip_gates(Some(0.5)), &[]);
            }
        }
    });
}
