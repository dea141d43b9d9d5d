//! A frame allocates nothing.

mod twin;

use std::hint::black_box;
use std::sync::Arc;

use allocation_counter::measure;
use denoise::FRAME;
use denoise::compare::features;
use denoise::denoiser::{Channel, Denoiser, Gains};
use denoise::model::Model;
use denoise::network::Network;

#[test]
fn a_frame_allocates_nothing() {
    let frames = twin::frames(0.6, 5);
    let features = features(&frames);
    let model = Arc::new(Model::published());
    // Checks that the counter works.
    assert_eq!(measure(|| drop(black_box(vec![0u8; 10]))).count_total, 1);

    let mut network = Network::new(&model);
    let mut gains = [0.0; 22];
    let counted = measure(|| {
        for x in &features {
            network.frame(x, &mut gains);
        }
    });
    assert_eq!(counted.count_total, 0);

    // The analysis plans its transforms in the first frame.
    let mut denoiser = Denoiser::new(Network::new(&model));
    let mut output = [0.0; FRAME];
    denoiser.frame(&frames[0], &mut output);
    let counted = measure(|| {
        for x in &frames {
            denoiser.frame(x, &mut output);
        }
    });
    assert_eq!(counted.count_total, 0);
}
