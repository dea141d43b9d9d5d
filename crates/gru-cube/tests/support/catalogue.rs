//! The conventions and cuts that the tests go through.

use gru_cpu::spec::{Activation, Activations, Direction, GruSpec, Layout, Reset, Update};

/// Every activation, with parameters that differ from the usual ones.
pub const ACTIVATIONS: [Activation; Activation::ALL.len()] = Activation::ALL;

/// The conventions in which the walk itself differs, clips included; usual activations.
pub fn conventions() -> Vec<GruSpec> {
    let mut specs = Vec::new();
    for (i, reset) in [Reset::AfterMatmul, Reset::BeforeMatmul]
        .into_iter()
        .enumerate()
    {
        for (k, direction) in [Direction::Forward, Direction::Reverse]
            .into_iter()
            .enumerate()
        {
            for (l, layout) in [Layout::BatchMajor, Layout::TimeMajor]
                .into_iter()
                .enumerate()
            {
                // Both update rules and both clips meet every other choice once.
                let spec = GruSpec::default()
                    .with_reset(reset)
                    .with_direction(direction)
                    .with_layout(layout);
                specs.push(spec);
                let spec = spec
                    .with_update(Update::Takes)
                    .with_clip_gates(((i + k + l) % 2 == 0).then_some(0.8))
                    .with_clip_state(((i + k + l) % 2 == 1).then_some(0.35));
                specs.push(spec);
            }
        }
    }
    specs
}

/// Every activation as every gate, clipped and not.
pub fn activations() -> Vec<GruSpec> {
    let mut specs = Vec::new();
    for i in 0..ACTIVATIONS.len() {
        let of = |k: usize| ACTIVATIONS[(i + k) % ACTIVATIONS.len()];
        let activations = Activations {
            reset: of(0),
            update: of(5),
            candidate: of(7),
        };
        for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
            for clip in [None, Some(0.7)] {
                specs.push(
                    GruSpec::default()
                        .with_reset(reset)
                        .with_activations(activations)
                        .with_clip_gates(clip),
                );
            }
        }
    }
    specs
}
