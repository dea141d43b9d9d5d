//! The order of gates, directions and names of each system.

use super::*;
use burn::tensor::DType;

pub fn trials() -> impl Iterator<Item = Trial> {
    let checks: [(&str, Check); 9] = [
        ("mps-graph-secondary-ignored", mps_graph_secondary_ignored),
        ("keras-bidirectional", keras_bidirectional),
        ("keras-names", keras_names),
        ("keras-hard-sigmoid", keras_hard_sigmoid),
        ("noise-is-free", noise_is_free),
        ("onednn-layout", onednn_layout),
        ("cudnn-layout", cudnn_layout),
        ("cudnn-single-bias", cudnn_single_bias),
        ("weight-norm", weight_norm),
    ];
    checks.map(check).into_iter()
}

/// Names of variables of Keras 3 and Keras 2. The first half of the output belongs to the forward layer, the
/// second half to the backward layer.
fn keras_bidirectional() -> Result<(), String> {
    let (forward, backward) = (block(config()), block(config().with_reverse(true)));
    for (path, end, prefixes) in [
        ("bidirectional/", "", ["bidirectional/", "bi"]),
        (
            "model_weights/bidirectional/bidirectional/",
            ":0",
            ["model_weights/bidirectional/", ""],
        ),
    ] {
        let mut dict = StateDict::new();
        for (block, layer) in [(&forward, "forward_gru"), (&backward, "backward_gru")] {
            let one = keras::export(block, &format!("{path}{layer}/gru_cell/"));
            dict.extend(one.map_err(text)?);
        }
        let dict = dict.renamed(|key| format!("{key}{end}")).map_err(text)?;
        for prefix in prefixes {
            let config = keras::config(&dict, prefix).map_err(text)?;
            let both = keras::import(&dict, prefix, &config, &device()).map_err(text)?;
            let x = random([2, 4, I]);
            let y = output(&both, &x);
            for (half, one) in [&forward, &backward].into_iter().enumerate() {
                let got = y.clone().narrow(2, half * H, H);
                let expected = values(output(one, &x));
                close("half", &values(got), &expected, Tolerance::F32.forward)?;
            }
        }
    }
    Ok(())
}

/// With an update gate of `hard_sigmoid(1)` and a candidate of 0, the state 1 becomes `hard_sigmoid(1)`.
fn keras_hard_sigmoid() -> Result<(), String> {
    let mut dict = StateDict::new();
    dict.insert("kernel:0", zeros([1, 3]));
    dict.insert("recurrent_kernel:0", zeros([1, 3]));
    dict.insert("bias:0", TensorData::from([1.0f32, 0.0, 0.0]));
    for (activations, expected) in [
        (keras::activations("tanh", "hard_sigmoid"), 2.0 / 3.0),
        (keras::activations_of_keras_2("tanh", "hard_sigmoid"), 0.7),
    ] {
        let config = keras::config(&dict, "").map_err(text)?;
        let config = config.with_activations(activations.map_err(text)?);
        let gru = keras::import(&dict, "", &config, &device()).map_err(text)?;
        let state = Tensor::ones([1, 1, 1], &device());
        let (_, state) = gru.forward(Tensor::zeros([1, 1, 1], &device()), Some(state));
        close("state", &values(state), &[expected], Tolerance::F32.forward)?;
    }
    Ok(())
}

/// Each activation name maps to an activation and back to the same name.
fn keras_names() -> Result<(), String> {
    let names = "linear sigmoid tanh relu hard_sigmoid elu leaky_relu softsign softplus";
    for name in names.split(' ') {
        let activations = keras::activations(name, "tanh").map_err(text)?;
        let names = keras::activation_names(&activations).map_err(text)?;
        if names != (name, "tanh") {
            return Err(format!("{name}: {names:?}"));
        }
    }
    Ok(())
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

/// The bias modes of cuDNN with one bias have half of the arrays.
fn cudnn_single_bias() -> Result<(), String> {
    let block = block(config());
    let dict = cudnn::export(&block, "").map_err(text)?;
    let both = || block.layers[0].weights();
    for (absent, expected) in [
        (["b3", "b4", "b5"], both().with_b_hh(None)),
        (["b0", "b1", "b2"], both().with_b_ih(None)),
    ] {
        let mut single = StateDict::new();
        for key in dict.keys().filter(|key| !absent.contains(key)) {
            single.insert(key, dict.get(key).expect(key).clone());
        }
        let config = cudnn::config(&single, "").map_err(text)?;
        let read = cudnn::import(&single, "", &config, &device()).map_err(text)?;
        same(&read.layers[0].weights(), &expected)?;
    }
    Ok(())
}

/// PyTorch's `weight_norm` stores a matrix as the norm of each row, and any multiple of the rows.
fn weight_norm() -> Result<(), String> {
    let gru = block(config().with_bidirectional(true));
    let plain = pytorch::export(&gru, "").map_err(text)?;
    for names in [
        ["", "_g", "_v"],
        ["parametrizations.", ".original0", ".original1"],
    ] {
        let [start, of_g, of_v] = names;
        let mut dict = StateDict::new();
        for key in plain.keys() {
            let data = plain.get(key).expect(key);
            if !key.starts_with("weight_hh") {
                dict.insert(format!("a.{key}"), data.clone());
                continue;
            }
            let rows = Tensor::<2>::from_data(data.clone(), &device());
            let norm = (rows.clone() * rows.clone()).sum_dim(1).sqrt();
            dict.insert(format!("a.{start}{key}{of_g}"), norm.into_data());
            dict.insert(format!("a.{start}{key}{of_v}"), (rows * 3.0).into_data());
        }
        let config = pytorch::config(&dict, "a.").map_err(text)?;
        let read = pytorch::import(&dict, "a.", &config, &device()).map_err(text)?;
        alike(of_g, &read, &gru)?;
        // The product is not rounded to the type of the file.
        let in_type = |dtype| {
            let mut rounded = StateDict::new();
            for key in dict.keys() {
                let data = dict.get(key).expect(key).clone();
                rounded.insert(key, data.convert_dtype(DType::BF16).convert_dtype(dtype));
            }
            pytorch::import(&rounded, "a.", &config, &device()).map_err(text)
        };
        alike(of_v, &in_type(DType::BF16)?, &in_type(DType::F64)?)?;
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
    let config = onnx::config(&dict, "", &attributes).map_err(text)?;
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
    let block = block_with(&before, "none");
    let (mut dict, descriptor) = mps_graph::export(&block, "").map_err(text)?;
    dict.insert("secondaryBias", zeros([H + 1]));
    let config = mps_graph::config(&dict, "", &descriptor).map_err(text)?;
    let read = mps_graph::import(&dict, "", &descriptor, &config, &device()).map_err(text)?;
    if config.bias {
        Err("expected the secondary bias to be ignored".into())
    } else {
        same(&read.layers[0].weights(), &block.layers[0].weights())
    }
}
