//! Where each system puts what: gates, directions, names.

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

/// Under the names of Keras' variables: the first half of the output is the forward layer's, the
/// second that of the layer that goes backwards.
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

/// Every name is an activation, and that one has this name.
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

/// One number of each gate, where oneDNN's page puts it: `ldigo`, gates u, r, o, and u, r, o and
/// the candidate's recurrent bias.
fn onednn_layout() -> Result<(), String> {
    let block = block(config());
    let dict = numbers(&onednn::export(&block, "").map_err(text)?);
    let w = block.layers[0].weights();
    let w_ih = values(w.w_ih.expect("it is there"));
    let b_ih = values(w.b_ih.expect("it is there"));
    let b_hh = values(w.b_hh.expect("it is there"));
    let (i, unit) = (2, 3);
    // r, z, n here; u, r, o there.
    for (here, there) in [(0, 1), (1, 0), (2, 2)] {
        let got = dict["weights_layer"][(i * 3 + there) * H + unit];
        let expected = w_ih[i * 3 * H + here * H + unit];
        if got != expected {
            return Err(format!(
                "weights_layer, gate {there}: {got}, expected {expected}"
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
            return Err(format!("bias, gate {there}: {got}, expected {expected}"));
        }
    }
    if dict["bias"][3 * H + unit] == b_hh[2 * H + unit] {
        Ok(())
    } else {
        Err("the fourth bias is not the candidate's recurrent one".into())
    }
}

/// `linLayerID` 0 and 3 are the reset gate, 1 and 4 the update gate, 2 and 5 the candidate;
/// matrices have a row for each unit.
fn cudnn_layout() -> Result<(), String> {
    let block = block(config());
    let dict = numbers(&cudnn::export(&block, "").map_err(text)?);
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

/// What only training knows, and the layout, is the user's to add.
fn noise_is_free() -> Result<(), String> {
    let dict = pytorch::export(&block(config()), "").map_err(text)?;
    let config = pytorch::config(&dict, "")
        .map_err(text)?
        .with_batch_first(true)
        .with_recurrent_dropout(0.25)
        .with_zoneout(0.125);
    let read = pytorch::import(&dict, "", &config, &device()).map_err(text)?;
    match (read.batch_first, read.layers[0].zoneout) {
        (true, 0.125) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Without `resetAfter` a secondary bias plays no part, as Apple documents it.
fn mps_graph_secondary_ignored() -> Result<(), String> {
    let before = config().with_reset(Reset::BeforeMatmul);
    let block = block_with(&before, Biases::None);
    let (mut dict, descriptor) = mps_graph::export(&block, "").map_err(text)?;
    dict.insert("secondaryBias", zeros([H + 1]));
    let config = mps_graph::config(&descriptor, &dict, "").map_err(text)?;
    let read = mps_graph::import(&descriptor, &dict, "", &config, &device()).map_err(text)?;
    if config.bias {
        Err("a bias that plays no part".into())
    } else {
        same(&read.layers[0].weights(), &block.layers[0].weights())
    }
}
