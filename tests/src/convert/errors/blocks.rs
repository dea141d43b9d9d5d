//! Blocks that a system cannot express, and inconsistent blocks.

use super::{super::*, ErrorCase};

/// Every exporter except ONNX' returns an error for `block` that names what the system lacks.
fn every_exporter_rejects(config: GruBlockConfig, what: &str) -> Result<(), ConvertError> {
    let block = block(config);
    let exports: [(&str, Result<(), ConvertError>); 6] = [
        ("PyTorch", pytorch::export(&block, "").map(|_| ())),
        ("Keras", keras::export(&block, "").map(|_| ())),
        ("GRUBlockCell", tensorflow::export(&block, "").map(|_| ())),
        ("MPSGraph", mps_graph::export(&block, "").map(|_| ())),
        ("oneDNN", onednn::export(&block, "").map(|_| ())),
        (
            "a pseudo-layer of cuDNN",
            cudnn::export(&block, "").map(|_| ()),
        ),
    ];
    let mut last = Ok(());
    for (system, export) in exports {
        let says = format!("{system} cannot express {what}");
        match &export {
            Err(error) if error.to_string() == says => last = export,
            other => panic!("expected {says}, got {other:?}"),
        }
    }
    last
}

pub fn cases() -> Vec<ErrorCase> {
    vec![
        (
            "all-zoneout",
            || {
                every_exporter_rejects(
                    config().with_reset(Reset::BeforeMatmul).with_zoneout(0.1),
                    "zoneout",
                )
            },
            "a pseudo-layer of cuDNN cannot express zoneout",
        ),
        (
            "clips",
            || keras::export(&block(config().with_clip_state(Some(1.5))), "").map(|_| ()),
            "Keras cannot express clip_state 1.5",
        ),
        (
            "hand-made",
            || {
                let mut odd = block(config().with_num_layers(2));
                odd.layers[1].direction = Direction::Reverse;
                pytorch::export(&odd, "").map(|_| ())
            },
            "PyTorch cannot express layers.1.direction Reverse",
        ),
        (
            "hand-emptied",
            || {
                let mut odd = block(config());
                odd.layers.clear();
                pytorch::export(&odd, "").map(|_| ())
            },
            "weights of layers times directions: expected 1, got 0",
        ),
        (
            "hand-sized",
            || {
                let mut odd = block(config());
                odd.d_hidden = H + 1;
                onednn::export(&odd, "").map(|_| ())
            },
            "layers.0.w_ih: expected shape [3, 18], got [3, 15]",
        ),
        (
            "directions-differ",
            || {
                let both = config().with_bidirectional(true);
                let mut other = both.layer_options();
                other.reset = Reset::BeforeMatmul;
                let both = both
                    .clone()
                    .with_per_layer(vec![both.layer_options(), other]);
                keras::export(&block(both), "").map(|_| ())
            },
            "Keras cannot express layers or directions of different GRUs",
        ),
        (
            "init-with-a-probability",
            || {
                let config = config().with_zoneout(1.0);
                let weights = vec![weights(I, Biases::Both)];
                config.init_with(weights)?;
                Ok(())
            },
            "GruBlockConfig: zoneout must be a probability, expected 0 to below 1, got 1",
        ),
        (
            "init-with",
            || {
                let mut narrow = weights(I, Biases::Both);
                narrow.w_ih = Some(random([I + 1, 3 * H]));
                config().init_with(vec![narrow])?;
                Ok(())
            },
            "layers.0.w_ih: expected shape [3, 15], got [4, 15]",
        ),
    ]
}
