//! ONNX' `GRU`, forward only: activations with parameters, clip, lengths, both layouts.

use burn::tensor::{Device, Tensor};
use gru_convert::onnx::{self, Attributes};
use gru_testkit::{
    close::{Outcome, Tensors, close},
    conformance::{Case, CaseSpec},
};

use super::{constant, state_dict, values_by_key};
use crate::runs::{expect, values};

pub fn run(case: &Case, device: &Device) -> Result<Outcome, String> {
    let attributes = attributes(&case.spec);
    let dict = state_dict(case, |name| ["W", "R", "B"].contains(&name));
    let config = onnx::config(&dict, "", &attributes).map_err(|e| e.to_string())?;
    let block = onnx::import(&dict, "", &config, device).map_err(|e| e.to_string())?;
    // Exported arrays and attributes equal the imported ones.
    let (again, same) = onnx::export(&block, "").map_err(|e| e.to_string())?;
    let again_config = onnx::config(&again, "", &same).map_err(|e| e.to_string())?;
    expect(
        "configuration",
        again_config.to_string(),
        config.to_string(),
    )?;
    let as_float32 = |(name, values): (String, Vec<f64>)| {
        let rounded = values.into_iter().map(|v| f64::from(v as f32)).collect();
        (name, rounded)
    };
    let imported: Tensors = values_by_key(&dict).into_iter().map(as_float32).collect();
    expect("exported initializers", values_by_key(&again), imported)?;

    let x: Tensor<3> = constant(case.tensor("in.X"), device);
    let initial_h = case.get("in.initial_h").map(|h| constant(h, device));
    let lengths = case.get("in.sequence_lens").map(|lengths| {
        let lengths = lengths.data.iter().map(|&len| len as usize);
        lengths.collect::<Vec<_>>()
    });
    let (y, y_h) = onnx::run(&block, x.clone(), lengths.as_deref(), initial_h.clone());
    if let Some(lengths) = lengths {
        // The same lengths on the device.
        let lengths: Vec<i32> = lengths.into_iter().map(|length| length as i32).collect();
        let lengths = Tensor::from_ints(&lengths[..], device);
        let (on_device, last) = onnx::run_with_lengths(&block, x, lengths, initial_h);
        let tolerance = case.tolerance().forward;
        close("Y", &values(on_device), &values(y.clone()), tolerance)?;
        close("Y_h", &values(last), &values(y_h.clone()), tolerance)?;
    }
    for (name, got, file) in [
        ("Y", &y.dims()[..], case.tensor("out.Y")),
        ("Y_h", &y_h.dims()[..], case.tensor("out.Y_h")),
    ] {
        expect(name, got, &file.shape)?;
    }
    Ok(Outcome {
        outputs: Tensors::from([("Y".into(), values(y)), ("Y_h".into(), values(y_h))]),
        gradients: Tensors::new(),
    })
}

pub fn attributes(spec: &CaseSpec) -> Attributes {
    let list = |name: &str| spec.option(name).as_array().cloned().unwrap_or_default();
    let array = |name: &str| -> Vec<f32> {
        let values = list(name).into_iter().map(|v| v.as_f64());
        values.map(|v| v.expect("a number") as f32).collect()
    };
    let default = Attributes::default();
    Attributes {
        activations: list("activations")
            .iter()
            .map(|name| name.as_str().expect("a name").to_owned())
            .collect(),
        activation_alpha: array("activation_alpha"),
        activation_beta: array("activation_beta"),
        clip: spec.option("clip").as_f64().map(|c| c as f32),
        direction: match spec.option("direction").as_str() {
            Some(direction) => direction.into(),
            None => default.direction,
        },
        hidden_size: spec.number("H"),
        layout: spec.option("layout").as_i64().unwrap_or(0),
        linear_before_reset: spec.option("linear_before_reset").as_i64().unwrap_or(0),
    }
}
