//! A frame allocates nothing. In a process of its own: the counter is one for all threads.

mod twin;

use std::alloc::System;
use std::sync::Arc;

use denoise::FRAME;
use denoise::compare::features;
use denoise::denoiser::{Denoiser, Gains};
use denoise::model::Model;
use denoise::network::Network;
use denoise::weights::PUBLISHED;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn a_frame_allocates_nothing() {
    let frames = twin::frames(0.6, 5);
    let features = features(&frames);
    let model = Arc::new(Model::parse(PUBLISHED).unwrap());

    let mut network = Network::new(&model);
    let mut gains = [0.0; 22];
    let counted = Region::new(COUNTING);
    for x in &features {
        network.frame(x, &mut gains);
    }
    let network_alone = counted.change();
    assert_eq!(
        (network_alone.allocations, network_alone.reallocations),
        (0, 0)
    );

    // The analysis plans its transforms at its first frames.
    let mut denoiser = Denoiser::new(Network::new(&model));
    let mut output = [0.0; FRAME];
    for x in &frames[..frames.len() / 2] {
        denoiser.frame(x, &mut output);
    }
    let counted = Region::new(COUNTING);
    for x in &frames[frames.len() / 2..] {
        denoiser.frame(x, &mut output);
    }
    let all = counted.change();
    assert_eq!((all.allocations, all.reallocations), (0, 0));
}
