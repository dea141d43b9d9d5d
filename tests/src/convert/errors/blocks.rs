//! Blocks that a system cannot express, and inconsistent blocks.

use super::{super::*, ErrorCase};

/// Each exporter returns an error that names what its system lacks, unless the system is in the row.
pub fn exports() -> Vec<Trial> {
    type Export = fn(&GruBlock) -> Result<(), ConvertError>;
    const EXPORTS: [(&str, Export); 7] = [
        ("PyTorch", |block| pytorch::export(block, "").map(|_| ())),
        ("Keras", |block| keras::export(block, "").map(|_| ())),
        ("GRUBlockCell", |block| {
            tensorflow::export(block, "").map(|_| ())
        }),
        ("MPSGraph", |block| mps_graph::export(block, "").map(|_| ())),
        ("oneDNN", |block| onednn::export(block, "").map(|_| ())),
        ("a pseudo-layer of cuDNN", |block| {
            cudnn::export(block, "").map(|_| ())
        }),
        ("ONNX", |block| onnx::export(block, "").map(|_| ())),
    ];
    let reset = Activations {
        reset: Activation::Tanh,
        ..Default::default()
    };
    let elu = Activations {
        candidate: Activation::Elu { alpha: 0.5 },
        ..Default::default()
    };
    let deep = GruBlockConfig::new(H, H).with_num_layers(2);
    let rows: [(&str, GruBlockConfig, &[&str]); 11] = [
        ("several layers", deep, &["PyTorch", "oneDNN"]),
        (
            "both directions",
            config().with_bidirectional(true),
            &["PyTorch", "Keras", "MPSGraph", "oneDNN", "ONNX"],
        ),
        (
            "a layer in reverse only",
            config().with_reverse(true),
            &["Keras", "MPSGraph", "oneDNN", "ONNX"],
        ),
        (
            "Reset::BeforeMatmul",
            config().with_reset(Reset::BeforeMatmul),
            &["Keras", "GRUBlockCell", "MPSGraph", "oneDNN", "ONNX"],
        ),
        (
            "Reset::AfterMatmul",
            config(),
            &[
                "PyTorch",
                "Keras",
                "MPSGraph",
                "oneDNN",
                "a pseudo-layer of cuDNN",
                "ONNX",
            ],
        ),
        (
            "Update::Takes",
            config().with_update(Update::Takes),
            &["MPSGraph"],
        ),
        (
            "Activations { reset: Tanh, update: Sigmoid, candidate: Tanh }",
            config().with_activations(reset),
            &["MPSGraph"],
        ),
        (
            "Activations { reset: Sigmoid, update: Sigmoid, candidate: Elu { alpha: 0.5 } }",
            config().with_activations(elu),
            &["ONNX"],
        ),
        (
            "clip_gates 2",
            config().with_clip_gates(Some(2.0)),
            &["ONNX"],
        ),
        ("clip_state 1.5", config().with_clip_state(Some(1.5)), &[]),
        ("zoneout", config().with_zoneout(0.1), &[]),
    ];
    let trials = rows.into_iter().map(|(what, config, able)| {
        Trial::test(format!("convert/error/export/{what}"), move || {
            for (system, export) in EXPORTS {
                let mut config = config.clone();
                // The cell has only this form.
                if system == "GRUBlockCell" && !what.starts_with("Reset") {
                    config.spec.reset = Reset::BeforeMatmul;
                }
                let got = export(&block(config)).err().map(text);
                let expected = format!("{system} cannot express {what}");
                let expected = (!able.contains(&system)).then_some(expected);
                if got != expected {
                    return Err(format!("{system}: expected {expected:?}, got {got:?}").into());
                }
            }
            Ok(())
        })
    });
    trials.collect()
}

pub const CASES: &[ErrorCase] = &[
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
            other.spec.reset = Reset::BeforeMatmul;
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
];
