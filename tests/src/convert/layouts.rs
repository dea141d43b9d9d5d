//! The order of gates, directions and names of each system.

use super::*;

pub fn trials() -> impl Iterator<Item = Trial> {
    let checks: [(&str, Check); 7] = [
        ("mps-graph-secondary-ignored", mps_graph_secondary_ignored),
        ("keras-bidirectional", keras_bidirectional),
        ("keras-names", keras_names),
        ("noise-is-free", noise_is_free),
        ("gate-order", gate_order),
        ("onednn-layout", onednn_layout),
        ("cudnn-layout", cudnn_layout),
    ];
    checks.map(check).into_iter()
}

/// Names of Keras' variables. The first half of the output belongs to the forward layer, the second half
/// to the backward layer.
fn keras_bidirectional() -> Result<(), String> {
    let (forward, backward) = (block(config()), block(config().with_reverse(true)));
    let mut dict = keras::export(&forward, "bidirectional/forward_gru/gru_cell/").map_err(text)?;
    let other = keras::export(&backward, "bidirectional/backward_gru/gru_cell/");
    dict.extend(other.map_err(text)?);
    let config = keras::config(&dict, "bidirectional/").map_err(text)?;
    let both = keras::import(&dict, "bidirectional/", &config, &device()).map_err(text)?;
    let x = random([2, 4, I]);
    let y = output(&both, &x);
    for (half, one) in [&forward, &backward].into_iter().enumerate() {
        let got = y.clone().narrow(2, half * H, H);
        let expected = values(output(one, &x));
        close("half", &values(got), &expected, Tolerance::F32.forward)?;
    }
    Ok(())
}

/// Each activation name maps to an activation and back to the same name.
fn keras_names() -> Result<(), String> {
    for name in [
        "linear",
        "sigmoid",
        "tanh",
        "relu",
        "hard_sigmoid",
        "elu",
        "leaky_relu",
        "softsign",
        "softplus",
    ] {
        let activations = keras::activations(name, "tanh").map_err(text)?;
        let names = keras::activation_names(&activations).map_err(text)?;
        if names != (name, "tanh") {
            return Err(format!("{name}: {names:?}"));
        }
    }
    Ok(())
}

fn gate_order() -> Result<(), String> {
    let gates = |order: GateOrder, sets| {
        let numbers: Vec<f32> = (0..12).map(|k| k as f32).collect();
        let tensor = Tensor::<1>::from_data(TensorData::new(numbers, [12]), &device());
        runs::values(order.reorder(tensor, 0, sets))
    };
    let one = [4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11].map(f64::from);
    let two = [2, 3, 0, 1, 4, 5, 8, 9, 6, 7, 10, 11].map(f64::from);
    let kept: Vec<f64> = (0..12).map(f64::from).collect();
    if gates(GateOrder::UpdateFirst, 1) != one || gates(GateOrder::UpdateFirst, 2) != two {
        return Err("update first".into());
    }
    if gates(GateOrder::ResetFirst, 2) == kept {
        Ok(())
    } else {
        Err("reset first".into())
    }
}

/// One value per gate at the place that oneDNN documents: layout `ldigo`, gates u, r, o, and the
/// candidate's recurrent bias as fourth bias.
fn onednn_layout() -> Result<(), String> {
    let block = block(config());
    let dict = values_by_key(&onednn::export(&block, "").map_err(text)?);
    let w = block.layers[0].weights();
    let w_ih = values(w.w_ih.expect("the layer has one"));
    let b_ih = values(w.b_ih.expect("the layer has one"));
    let b_hh = values(w.b_hh.expect("the layer has one"));
    let (i, unit) = (2, 3);
    // Order r, z, n in the block. Order u, r, o in oneDNN.
    for (here, there) in [(0, 1), (1, 0), (2, 2)] {
        let got = dict["weights_layer"][(i * 3 + there) * H + unit];
        let expected = w_ih[i * 3 * H + here * H + unit];
        if got != expected {
            return Err(format!(
                "weights_layer, gate {there}: expected {expected}, got {got}"
            ));
        }
        let got = dict["bias"][there * H + unit];
        let own = f64::from(b_hh[here * H + unit] as f32);
        let sum = f64::from((b_ih[here * H + unit] + own) as f32);
        let expected = if here == 2 {
            b_ih[here * H + unit]
        } else {
            sum
        };
        if (got - expected).abs() > 1e-6 {
            return Err(format!(
                "bias, gate {there}: expected {expected}, got {got}"
            ));
        }
    }
    if dict["bias"][3 * H + unit] == b_hh[2 * H + unit] {
        Ok(())
    } else {
        Err("expected the candidate's recurrent bias as fourth bias".into())
    }
}

/// `linLayerID` 0 and 3 are the reset gate, 1 and 4 the update gate, 2 and 5 the candidate. Matrices
/// have one row per unit.
fn cudnn_layout() -> Result<(), String> {
    let block = block(config());
    let dict = values_by_key(&cudnn::export(&block, "").map_err(text)?);
    let w_hh = values(block.layers[0].w_hh.val());
    let (row, unit) = (4, 1);
    for gate in 0..3 {
        let got = dict[&format!("w{}", gate + 3)][unit * H + row];
        let expected = w_hh[row * 3 * H + gate * H + unit];
        if got != expected {
            return Err(format!("w{}: {got}, expected {expected}", gate + 3));
        }
    }
    Ok(())
}

/// The arrays do not determine the layout and the training noise. The user may set them.
fn noise_is_free() -> Result<(), String> {
    let dict = pytorch::export(&block(config()), "").map_err(text)?;
    let config = pytorch::config(&dict, "")
        .map_err(text)?
        .with_batch_first(true)
        .with_recurrent_dropout(0.25)
        .with_zoneout(0.125);
    let read = pytorch::import(&dict, "", &config, &device()).map_err(text)?;
    match (read.batch_first, read.layers[0].zoneout) {
        (true, 0.125) => {}
        other => return Err(format!("{other:?}")),
    }
    let exported = onnx::export(&block(self::config().with_bidirectional(true)), "");
    let (dict, attributes) = exported.map_err(text)?;
    let config = onnx::config(&attributes, &dict, "").map_err(text)?;
    let config = config.with_recurrent_dropout(0.25).with_zoneout(0.125);
    let read = onnx::import(&dict, "", &config, &device()).map_err(text)?;
    match read
        .layers
        .iter()
        .map(|layer| layer.zoneout)
        .collect::<Vec<_>>()[..]
    {
        [0.125, 0.125] => Ok(()),
        ref other => Err(format!("{other:?}")),
    }
}

/// Without `resetAfter` a secondary bias is ignored, as Apple documents.
fn mps_graph_secondary_ignored() -> Result<(), String> {
    let before = config().with_reset(Reset::BeforeMatmul);
    let block = block_with(&before, Biases::None);
    let (mut dict, descriptor) = mps_graph::export(&block, "").map_err(text)?;
    dict.insert("secondaryBias", zeros([H + 1]));
    let config = mps_graph::config(&descriptor, &dict, "").map_err(text)?;
    let read = mps_graph::import(&descriptor, &dict, "", &config, &device()).map_err(text)?;
    if config.bias {
        Err("expected the secondary bias to be ignored".into())
    } else {
        same(&read.layers[0].weights(), &block.layers[0].weights())
    }
}
